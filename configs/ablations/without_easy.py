"""Pass@k Training without easy problems: their advantages are 0.

Paper: section ``sec:difference_pass1_passk``, figures ``fig:adv-wo_easy``
and ``fig:sec4.1.2``.

    python -m passk_jax.train --config=configs/ablations/without_easy.py:size=tiny

The advantages are those of Pass@k Training, as the figure's caption says. The text also
allows those of Pass@1 Training: ``--config.advantage.k=1``.

Expected: better than Pass@1 Training at first, then a plateau too: leaving out easy
problems only delays the local optimum.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('without_easy', argument)
    config.advantage.name = 'without_easy'
    return config
