"""A new estimator is one function and one row; the rest of the program follows."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sampling, train
from passk_jax.advantages import (
    ESTIMATORS,
    Estimator,
    Parameter,
    all_parameters,
)
from passk_jax.errors import InputError
from passk_jax.report.panels import curve_in_use
from passk_jax.report.run_data import read_run
from passk_jax.report.write import write_report
from passk_jax.sampling import Purpose
from tests import tiny
from tests.readme_test import estimator_tables


def terse(inputs, *, penalty):
    """Pays what is right and short, and a coin for each problem."""
    coins = jax.vmap(jax.random.bernoulli)(inputs.key)
    paid = 1.0 * coins[:, None] + inputs.correct
    return paid - penalty * inputs.lengths + inputs.log_probs


@pytest.fixture(autouse=True)
def row(monkeypatch):
    """The new row, for this test."""
    penalty = Parameter('penalty', 0.5, 'advantage lost a token', low=0, high=2)
    reads = ('correct', 'key', 'lengths', 'log_probs')
    row = Estimator(terse, reads, (penalty,), 'Coins are drawn.', centered=False)
    monkeypatch.setitem(ESTIMATORS, 'terse', row)


def make_config(**overrides):
    return tiny.make_config(
        **tiny.ONLY_STEPS | {'log__rollouts_every': 1, 'train__steps': 2},
        advantage__name='terse',
        **overrides,
    )


def test_a_run_trains_with_it_and_reports_it(tmp_path):
    assert tiny.run(make_config(advantage__penalty=1.5), tmp_path)
    saved = json.loads((tmp_path / 'config.json').read_text())
    defaults = {p.name: p.default for p in all_parameters()}
    section = {'name': 'terse', 'k': 2, 'match_weight_at': 0.0, 'penalty': 1.5}
    # JSON has no tuples.
    assert saved['advantage'] == json.loads(json.dumps(defaults | section))
    coins = []
    for step in range(2):
        key = sampling.step_key(seed=0, purpose=Purpose.GROUPS, step=step)
        for x in tiny.read_lines(tmp_path / 'rollouts' / f'step_{step:08d}.jsonl'):
            problem_key = sampling.problem_keys(key, jnp.array([x['problem_id']]))[0]
            coins.append(bool(jax.random.bernoulli(problem_key)))
            log_prob = x['mean_log_prob'] * x['length']
            want = coins[-1] + x['correct'] - 1.5 * x['length'] + log_prob
            assert x['advantage'] == pytest.approx(want, rel=1e-5)
    assert set(coins) == {False, True}
    first, second = tiny.metrics(tmp_path, 'train')
    assert first['mean_abs_advantage'] > 1.5
    assert second['grad_norm'] > 0

    html = write_report(tmp_path).read_text()
    assert 'Advantage, terse (penalty=1.5)' in html
    assert 'with equal lengths and log_probs. It is not centered: ' in html
    assert 'Coins are drawn.' in html
    curve = curve_in_use(read_run(tmp_path))
    # With 100 tokens and 100 nats, whatever is right; a coin is worth a half.
    np.testing.assert_allclose(curve['positive'], [0.0] + [-248.5] * 4, atol=0.2)
    np.testing.assert_allclose(curve['negative'], [-249.5] * 4 + [0.0], atol=0.2)


def test_its_default_is_the_declared_one():
    config = make_config()
    assert config.advantage.parameters['penalty'] == 0.5
    train.check_names(config)


@pytest.mark.parametrize('value', [-0.5, 2.5])
def test_a_value_out_of_its_range_is_refused(value):
    config = make_config(advantage__penalty=value)
    message = rf'^advantage\.penalty={value} must be a number in \[0, 2\]$'
    with pytest.raises(InputError, match=message):
        train.check_names(config)


def test_a_value_of_another_type_is_refused():
    config = make_config()
    for value in ('1', True, (1.0,)):
        parameters = {**config.advantage.parameters, 'penalty': value}
        advantage = dataclasses.replace(config.advantage, parameters=parameters)
        with pytest.raises(InputError, match=r'^advantage\.penalty=.* a number in'):
            train.check_names(dataclasses.replace(config, advantage=advantage))


def test_the_tables_for_readme_have_it():
    lines = estimator_tables().splitlines()
    assert (
        '| `terse` | `correct`, `key`, `lengths`, `log_probs` | `penalty` '
        '| Pays what is right and short, and a coin for each problem. |'
    ) in lines
    assert (
        '| `penalty` | `0.5` | a number in [0, 2] | advantage lost a token |' in lines
    )
