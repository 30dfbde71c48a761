"""Pass@1 Training until it levels off, then Pass@k Training, then Pass@1 Training.

Paper: figure ``fig:overview``. The paper is silent on the steps of each part.

    python -m passk_jax.train --config=configs/ablations/overview.py:first=100,size=tiny

The run has three parts. The first ends at step ``first``, whose default, 0, means step
100, or a third of the steps if they are fewer than 300. The other two have half of the
remaining steps each. The optimizer keeps its state.

Expected: Pass@1 rises again in the last part, beyond its end in the first part.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes
from passk_jax.errors import InputError


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('overview', argument, defaults={'first': 0})
    config.advantage.name = 'pass_at_1'
    steps = config.train.steps
    if (first := values['first']) == 0:
        first = min(100, steps // 3)
        config.name = config.name.replace('_0', f'_{first}', 1)
    if not 1 <= first <= steps - 2:
        raise InputError(
            f'first={first} must lie in [1, {steps - 2}] or be 0, the default: two '
            f'parts follow, and train.steps={steps}'
        )
    starts = {'pass_at_k': first, 'pass_at_1': (first + steps) // 2}
    config.stages = {
        name: {'start': start, 'reset_optimizer': False, 'advantage': {'name': name}}
        for name, start in starts.items()
    }
    return config
