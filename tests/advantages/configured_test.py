"""The estimator of a run is the one that its configuration names."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax.advantages import ESTIMATORS, make, matching_scale
from passk_jax.advantages.configured import (
    check_signal,
    configured_estimator,
    unscaled_estimator,
)
from tests import changed
from tests.advantages.other_values import choose_other_values


@pytest.mark.parametrize('name', ESTIMATORS)
def test_an_estimator_gets_its_own_parameters(name, monkeypatch):
    row = ESTIMATORS[name]
    values = choose_other_values()
    expected = {p.name: values[p.name] for p in row.parameters}
    for parameter in row.parameters:
        assert expected[parameter.name] != parameter.default
    compute = mock.Mock(return_value=np.zeros((8, 6), np.float32))
    monkeypatch.setitem(ESTIMATORS, name, dataclasses.replace(row, compute=compute))
    overrides = {f'advantage__{key}': value for key, value in values.items()}
    config = changed.make_config(advantage__name=name, **overrides)
    correct = np.ones((8, 6), bool)
    configured_estimator(config.advantage, num_rollouts=6)(
        correct * 1.0,
        correct,
        key=jax.random.split(jax.random.key(0), 8),
        mean_entropy=np.ones(8),
        lengths=np.ones((8, 6), np.int32),
        answers=np.ones((8, 6), np.int32),
        log_probs=np.ones((8, 6)),
        history=np.ones((3, 7), np.int32),
    )
    assert compute.call_args.kwargs == expected
    (inputs,) = compute.call_args.args
    assert {field for field, x in vars(inputs).items() if x is not None} == {*row.reads}


@pytest.mark.parametrize('name', ['maxrl', 'bootstrap_sampling'])
def test_advantages_are_scaled_to_the_weight_of_pass_at_1(name):
    plain = changed.make_config(advantage__name=name)
    config = changed.make_config(advantage__name=name, advantage__match_weight_at=0.25)
    correct = np.arange(6) < np.array([[1], [4]])
    inputs = (correct * 1.0, correct)
    key = jax.random.split(jax.random.key(0), 2)
    before, after = (
        configured_estimator(x.advantage, num_rollouts=6)(*inputs, key=key)
        for x in (plain, config)
    )
    parameters = {'k': plain.advantage.k, **plain.advantage.parameters}
    scale = matching_scale(
        name, num_rollouts=6, p=0.25, **make.select_parameters(name, parameters)
    )
    assert not 0.9 < scale < 1.1
    np.testing.assert_allclose(after, scale * before, rtol=1e-6)


def test_equal_sections_give_one_estimator_so_that_runs_share_a_program():
    config = changed.make_config(advantage__match_weight_at=0.25).advantage
    one, other = (configured_estimator(config, num_rollouts=6) for _ in range(2))
    assert one.scale != 1
    assert one == other
    assert hash(one) == hash(other)
    assert one != configured_estimator(config, num_rollouts=7)


def test_only_an_estimator_that_remembers_begins_with_a_memory():
    plain, remembering = (
        changed.make_config(advantage__name=name).advantage
        for name in ('pass_at_k', 'curverl')
    )
    assert unscaled_estimator(plain, num_rollouts=6).begin_memory() == {}
    memory = unscaled_estimator(remembering, num_rollouts=6).begin_memory()
    assert memory['history'].shape == (remembering.parameters['window'], 7)


def test_an_estimator_without_any_signal_is_refused():
    config = changed.make_config(advantage__name='pass_at_1')
    with pytest.raises(ValueError, match='it learns nothing'):
        check_signal(config.advantage, num_rollouts=1)
