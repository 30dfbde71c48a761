"""Pass@k Training by bootstrap sampling: as many random groups as responses.

Paper: section ``sec:passk_w_bootstrap_sampling``, figures ``fig:sec2.3`` and
``fig:sec2.4``. The printed algorithm sums a response's groups. ``aggregation=mean``
averages over them, which tends to the analytical advantage; a sum is about k times as
large, and so is the step of an optimizer that does not rescale.

    python -m passk_jax.train \\
        --config=configs/ablations/bootstrap_sampling.py:aggregation=mean,size=tiny

Expected: better than full sampling at the same number of rollouts; noisier than the
analytical advantage, which it estimates.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    defaults, choices = {'aggregation': 'sum'}, {'aggregation': ('sum', 'mean')}
    config, values = sizes.start(
        'bootstrap_sampling', argument, defaults=defaults, choices=choices
    )
    config.advantage.name = 'bootstrap_sampling'
    config.advantage.aggregation = values['aggregation']
    return config
