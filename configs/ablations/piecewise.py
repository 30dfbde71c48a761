"""Pass@k Training with combination: Pass@k on easy problems, Pass@1 on hard ones.

Paper: section ``sec:difference_pass1_passk``, figures ``fig:adv-segment``
and ``fig:sec4.1.2``.

    python -m passk_jax.train --config=configs/ablations/piecewise.py:size=tiny

Expected: the training reward keeps rising, as in Pass@k Training, but takes off later:
its curve peaks where accuracy is higher.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('piecewise', argument)
    config.advantage.name = 'piecewise'
    return config
