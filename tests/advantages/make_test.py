"""What make_estimator and the functions it makes accept, and how they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax import config
from passk_jax.advantages import ESTIMATORS, estimator_parameters, make_estimator

NUM_ROLLOUTS = 8


def estimator_of(name: str):
    group = {} if name == 'pass_at_1' else {'k': 2}
    return make_estimator(name, num_rollouts=NUM_ROLLOUTS, **group)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_parameters_are_fields_of_the_advantage_config(name):
    fields = config.AdvantageConfig.__dataclass_fields__
    assert set(estimator_parameters(name)) <= set(fields)


def test_an_unknown_name_is_an_error_that_lists_the_choices():
    for call in (
        lambda: make_estimator('passk', num_rollouts=4),
        lambda: estimator_parameters('passk'),
    ):
        with pytest.raises(ValueError, match=r"'passk'.*pass_at_k_real"):
            call()


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"\['groups'\].*num_groups"):
        make_estimator('bootstrap_sampling', num_rollouts=4, k=2, groups=3)
    with pytest.raises(ValueError, match='pass_at_1 has no parameter'):
        make_estimator('pass_at_1', num_rollouts=4, k=2)


@pytest.mark.parametrize('name', [n for n in ESTIMATORS if n != 'pass_at_1'])
def test_the_group_size_must_be_given_and_be_one(name):
    with pytest.raises(ValueError, match='needs the parameter k'):
        make_estimator(name, num_rollouts=4)
    for k in (0, -1, 5, 2.0, True, '2', None):
        with pytest.raises(ValueError, match='k='):
            make_estimator(name, num_rollouts=4, k=k)


@pytest.mark.parametrize('num_rollouts', [0, -1, 2.0, True, None])
@pytest.mark.parametrize('name', ['pass_at_1', 'pass_at_k'])
def test_the_number_of_rollouts_must_be_a_positive_whole_number(name, num_rollouts):
    group = {} if name == 'pass_at_1' else {'k': 1}
    with pytest.raises(ValueError, match='num_rollouts='):
        make_estimator(name, num_rollouts=num_rollouts, **group)


@pytest.mark.parametrize(
    ('name', 'parameter', 'values'),
    [
        ('bootstrap_sampling', 'num_groups', (-1, 2.0, True, '3', None)),
        ('bootstrap_sampling', 'aggregation', ('median', '', None, 3)),
        ('without_easy', 'easy_threshold', (-0.1, 1.1, float('nan'), '0.5', True)),
        ('piecewise', 'switch_threshold', (-0.1, 1.1, float('nan'), None)),
        ('adaptive', 'high_entropy_fraction', (-0.1, 1.1, float('nan'), [0.5])),
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it(name, parameter, values):
    for value in values:
        with pytest.raises(ValueError, match=parameter):
            make_estimator(name, num_rollouts=8, k=2, **{parameter: value})


@pytest.mark.parametrize('name', ESTIMATORS)
def test_arrays_of_the_wrong_shape_or_type_are_errors(name):
    estimate = estimator_of(name)
    inputs = {'key': jax.random.key(0), 'mean_entropy': jnp.zeros(2)}
    good = np.zeros((2, NUM_ROLLOUTS), bool)
    cases = [
        (np.zeros(NUM_ROLLOUTS), good, 'rewards.shape'),
        (np.zeros((2, NUM_ROLLOUTS + 1)), good, 'rewards.shape'),
        (np.zeros((2, NUM_ROLLOUTS)), good[:1], 'correct.shape'),
        (np.zeros((2, NUM_ROLLOUTS)), good.astype(np.float32), 'must be bool'),
    ]
    for rewards, correct, message in cases:
        with pytest.raises(ValueError, match=message):
            estimate(rewards, correct, **inputs)


def test_what_an_estimator_needs_must_be_given():
    correct = np.zeros((2, NUM_ROLLOUTS), bool)
    rewards = correct.astype(np.float32)
    with pytest.raises(ValueError, match='bootstrap_sampling needs key'):
        estimator_of('bootstrap_sampling')(rewards, correct)
    with pytest.raises(ValueError, match='adaptive needs mean_entropy'):
        estimator_of('adaptive')(rewards, correct)
    with pytest.raises(ValueError, match='mean_entropy has shape'):
        estimator_of('adaptive')(rewards, correct, mean_entropy=jnp.zeros(3))
    keys = jax.random.split(jax.random.key(0), 3)
    with pytest.raises(ValueError, match=r'key\.shape'):
        estimator_of('bootstrap_sampling')(rewards, correct, key=keys)
