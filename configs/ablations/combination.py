"""Combination Training: Pass@1 counts more on hard problems, Pass@k on easy ones.

Paper: section ``sec:implicit_reward_design``, figure ``fig:sec4.2.2``, on Enigmata.

    python -m passk_jax.train --config=configs/ablations/combination.py:size=enigmata
    python -m passk_jax.train --config=configs/ablations/combination.py:size=tiny

Expected: better Pass@1 and Pass@8 than Pass@k Training, throughout.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('combination', argument)
    config.advantage.name = 'combination'
    return config
