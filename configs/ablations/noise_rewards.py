"""Noise Rewards: Pass@1 Training where a share of the wrong responses is rewarded.

Paper: section ``sec:noise_entropy``, figure ``fig:sec3.1-noise``, with 10, 30 and 50 %.
It asks whether Pass@k Training only works because wrong responses of a right group are
rewarded.

    python -m passk_jax.train \\
        --config=configs/ablations/noise_rewards.py:fraction=0.3,size=tiny

Expected: the more rewards are flipped, the worse are Pass@1 and Pass@k, and more steps
make them worse still.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('noise_rewards', argument, defaults={'fraction': 0.1})
    config.advantage.name = 'pass_at_1'
    config.reward.flip_wrong = values['fraction']
    return config
