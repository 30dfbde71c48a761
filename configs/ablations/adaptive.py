"""Adaptive Training: Pass@1 on problems of high entropy, Pass@k on the others.

Paper: section ``sec:adaptive_training``, figure ``fig:sec4.2.3``, on puzzles.

    python -m passk_jax.train --config=configs/ablations/adaptive.py:size=enigmata
    python -m passk_jax.train --config=configs/ablations/adaptive.py:size=tiny

Expected: better Pass@1 and Pass@k than both Pass@1 and Pass@k Training.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('adaptive', argument)
    config.advantage.name = 'adaptive'
    return config
