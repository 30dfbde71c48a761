"""Rates of a step beside its timings."""

from unittest import mock

import jax
import pytest

from passk_jax.train import make_log
from tests import tiny
from tests.report.run_log_test import make_draws, step_metrics


def test_rates_are_of_the_stage_that_took_the_step(tmp_path, monkeypatch):
    monkeypatch.setattr('passk_jax.report.run_log.Reporter', mock.Mock())
    metrics = jax.tree.map(jax.numpy.asarray, step_metrics())
    with make_log(tiny.make_config(), tmp_path, 0) as log:
        log.begin_stage(0, lambda draws, seconds: {})
        log.step(0, make_draws(), metrics)
        # This also writes the step before.
        log.begin_stage(1, lambda draws, seconds: {'mfu': draws.count / seconds})
        log.step(1, make_draws(count=3), metrics)
        log.flush()
    first, second = tiny.read_lines(tmp_path / 'timing.jsonl')
    assert 'mfu' not in first
    assert second['mfu'] == pytest.approx(3 / second['seconds'])
