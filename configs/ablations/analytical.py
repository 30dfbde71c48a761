"""Pass@k Training with the analytical advantage, at any group size k.

Paper: section ``sec:passk_w_analytical_derivation``, figure ``fig:sec2.4``; k = 4, 8
and 16 in section ``sec:robustness``.

    python -m passk_jax.train --config=configs/ablations/analytical.py:k=8,size=tiny

If the number of responses equals k, all advantages are 0. So for k >= 16 the small
sizes use the paper's N = 32 instead of 16; compare it with runs of as many rollouts.

Expected: the paper finds this the best of the three ways to train for Pass@k. A larger
k learns more slowly and ends as well.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('analytical', argument, defaults={'k': 4})
    config.advantage.name = 'pass_at_k'
    config.advantage.k = values['k']
    if values['k'] >= config.sampling.num_rollouts:
        config.sampling.num_rollouts = 32
    return config
