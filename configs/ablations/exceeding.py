"""Exceeding Pass@k Training: the peak of the curve moves to the hardest problems.

Paper: section ``sec:implicit_reward_design``, figures ``fig:adv-log`` and
``fig:sec4.2.1``.

    python -m passk_jax.train --config=configs/ablations/exceeding.py:size=tiny

Expected: Pass@k improves faster early on, and Pass@1 more slowly.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('exceeding', argument)
    config.advantage.name = 'exceeding'
    return config
