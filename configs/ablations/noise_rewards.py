"""Noise Rewards: Pass@1 Training that rewards a share of the wrong responses.

Paper: section ``sec:noise_entropy``, figure ``fig:sec3.1-noise``, with 10, 30 and 50 %.
It asks whether Pass@k Training works partly because it rewards wrong responses in
groups with a right one.

    python -m passk_jax.train \\
        --config=configs/ablations/noise_rewards.py:fraction=0.3,size=tiny

Expected: the more rewards are flipped, the lower Pass@1 and Pass@k, and more steps
lower them further.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('noise_rewards', argument, defaults={'fraction': 0.1})
    config.advantage.name = 'pass_at_1'
    config.reward.flip_wrong = values['fraction']
    return config
