"""A higher learning rate compensates for a large k.

Paper: section ``sec:robustness``, figures ``fig:sec3.4-train_lr`` and
``fig:sec3.4-test_lr``: k = 8 with 1, 2 and 4 times the learning rate of 1e-6. Here
``multiple`` scales the learning rate of the size.

    python -m passk_jax.train \\
        --config=configs/ablations/learning_rate.py:multiple=4,size=tiny

Expected: the higher the rate, the earlier Pass@8 Training takes off; at 4 times it is
faster than Pass@4 Training.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    defaults, choices = {'multiple': 1}, {'multiple': (1, 2, 4)}
    config, values = sizes.start(
        'learning_rate', argument, defaults=defaults, choices=choices
    )
    config.advantage.name = 'pass_at_k'
    config.advantage.k = 8
    config.optimizer.learning_rate *= values['multiple']
    return config
