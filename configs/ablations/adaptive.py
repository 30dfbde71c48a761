"""Adaptive Training: Pass@1 on problems of high entropy, Pass@k on the others.

Paper: section ``sec:adaptive_training``, its figure of training progress.

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
