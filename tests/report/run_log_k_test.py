"""The k of the training metrics."""

import functools

from passk_jax.report import run_log
from tests.report.run_log_test import make_draws


def test_a_k_above_n_counts_as_n():
    """An estimator without groups may have fewer rollouts than the config's k."""
    first = make_draws().first
    described = (
        functools.partial(run_log.batch_metrics, mask_truncated=False),
        run_log.category_metrics,
    )
    for describe in described:
        assert describe(first, ks=(9,)) == describe(first, ks=(4,))
        assert any(name.endswith('pass_at_4') for name in describe(first, ks=(9,)))
