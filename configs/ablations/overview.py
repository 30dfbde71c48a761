"""Pass@1 Training until it levels off, then Pass@k Training, then Pass@1 Training.

Paper: figure ``fig:overview``, Qwen2.5-7B-Instruct on Enigmata. Its caption names no
parts; the picture, figures/overview.jpg of the paper's repository, has these three,
which change at steps 100 and 370 and end at about 750.

    python -m passk_jax.train \\
        --config=configs/ablations/overview.py:first=100,size=enigmata
    python -m passk_jax.train --config=configs/ablations/overview.py:first=100,size=tiny

The sizes ``full`` and ``enigmata`` have the figure's steps. In the others, and with
another ``first``, the last two parts have half of the remaining steps each. The first
part ends at step ``first``, whose default, 0, means step 100, or a third of the steps
if they are fewer than 300. The optimizer keeps its state.

Expected: Pass@1 rises again in the last part, beyond its end in the first part.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes
from passk_jax.errors import InputError

# The steps at which the figure's parts end.
_ENDS = (100, 370, 750)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('overview', argument, defaults={'first': 0})
    config.advantage.name = 'pass_at_1'
    if values['size'] in sizes.OF_THE_PAPER:
        config.train.steps = _ENDS[-1]
    steps = config.train.steps
    if (first := values['first']) == 0:
        first = min(_ENDS[0], steps // 3)
        config.name = config.name.replace('_0', f'_{first}', 1)
    if not 1 <= first <= steps - 2:
        raise InputError(
            f'first={first} must lie in [1, {steps - 2}] or be 0, the default: two '
            f'parts follow, and train.steps={steps}'
        )
    is_the_figures = (first, steps) == (_ENDS[0], _ENDS[-1])
    second = _ENDS[1] if is_the_figures else (first + steps) // 2
    starts = {'pass_at_k': first, 'pass_at_1': second}
    config.stages = {
        name: {'start': start, 'reset_optimizer': False, 'advantage': {'name': name}}
        for name, start in starts.items()
    }
    return config
