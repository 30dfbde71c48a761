"""Pass@k Training by full sampling: every k consecutive responses form a group.

Paper: sections ``sec:passk_w_full_sampling`` and ``sec:passk_w_bootstrap_sampling``,
figure ``fig:sec2.3``, with 32 and with 128 rollouts. ``num_rollouts=0`` uses those of
the size: 32, or 16 if it is tiny.

    python -m passk_jax.train \\
        --config=configs/ablations/full_sampling.py:num_rollouts=128
    python -m passk_jax.train \\
        --config=configs/ablations/full_sampling.py:num_rollouts=64,size=tiny

Expected: better Pass@k than Pass@1 Training; worse than bootstrap sampling at the same
number of rollouts, and about the same at four times as many.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    defaults = {'num_rollouts': 0}
    config, values = sizes.start('full_sampling', argument, defaults=defaults)
    config.advantage.name = 'full_sampling'
    if values['num_rollouts']:
        config.sampling.num_rollouts = values['num_rollouts']
    return config
