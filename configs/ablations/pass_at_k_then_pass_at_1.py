"""Pass@k Training, then Pass@1 Training, in one run; ``times=2`` does both twice.

Paper: section ``sec:passk_to_pass1``, tables ``tab:main_qwen``, ``tab:main_seedvl`` and
``tab:app_math`` ("(P@k T. + P@1 T.) x 2"). The paper is silent on the steps of each
part of these runs; here all are equally long.

    python -m passk_jax.train \\
        --config=configs/ablations/pass_at_k_then_pass_at_1.py:times=1,size=enigmata
    python -m passk_jax.train \\
        --config=configs/ablations/pass_at_k_then_pass_at_1.py:times=2,size=tiny

Each part draws new problems. The optimizer keeps its state.

Expected: a higher Pass@1 than Pass@1 Training of as many steps, because Pass@k Training
leaves the policy with more answers to choose from.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes
from passk_jax.errors import InputError


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start(
        'pass_at_k_then_pass_at_1', argument, defaults={'times': 1}
    )
    config.advantage.name = 'pass_at_k'
    parts, steps = 2 * values['times'], config.train.steps
    if not 2 <= parts <= steps:
        raise InputError(
            f'times={values["times"]} must lie in [1, {steps // 2}]: each of the two '
            f'parts needs a step of train.steps={steps}'
        )
    stages = {}
    for part in range(1, parts):
        name = ('pass_at_k', 'pass_at_1')[part % 2]
        stages[f'part_{part + 1}_{name}'] = {
            'start': steps * part // parts,
            'reset_optimizer': False,
            'advantage': {'name': name},
        }
    config.stages = stages
    return config
