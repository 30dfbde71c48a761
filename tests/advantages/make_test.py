"""What make_estimator and the functions it makes accept, and how they refuse."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.advantages import (
    ESTIMATORS,
    INPUTS,
    Estimator,
    all_parameters,
    estimator_of_config,
    estimator_parameters,
    make_estimator,
    select_parameters,
)
from passk_jax.advantages.table import OTHER_NAMES

NUM_ROLLOUTS = 8


WITH_GROUPS = [name for name in ESTIMATORS if 'k' in estimator_parameters(name)]


def estimator_of(name: str, k: int = 2):
    group = {'k': k} if name in WITH_GROUPS else {}
    return make_estimator(name, num_rollouts=NUM_ROLLOUTS, **group)


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


@pytest.mark.parametrize('name', WITH_GROUPS)
def test_the_group_size_must_be_given_and_be_one(name):
    with pytest.raises(ValueError, match='needs the parameter k'):
        make_estimator(name, num_rollouts=4)
    for k in (0, -1, 5, 2.0, True, '2', None):
        with pytest.raises(ValueError, match='k='):
            make_estimator(name, num_rollouts=4, k=k)


@pytest.mark.parametrize('num_rollouts', [0, -1, 2.0, True, None])
@pytest.mark.parametrize(
    ('name', 'group'), [('pass_at_1', {}), ('pass_at_k', {'k': 1})]
)
def test_the_number_of_rollouts_must_be_a_positive_whole_number(
    name, group, num_rollouts
):
    with pytest.raises(ValueError, match='num_rollouts=') as caught:
        make_estimator(name, num_rollouts=num_rollouts, **group)
    assert 'k=' not in str(caught.value)


@pytest.mark.parametrize(
    ('name', 'parameter', 'values'),
    [
        ('bootstrap_sampling', 'num_groups', (-1, 10**9, 2.0, True, '3', None)),
        ('bootstrap_sampling', 'aggregation', ('median', '', None, 3)),
        ('without_easy', 'easy_threshold', (-0.1, 1.1, float('nan'), '0.5', True)),
        ('piecewise', 'switch_threshold', (-0.1, 1.1, float('nan'), None)),
        ('adaptive', 'high_entropy_fraction', (-0.1, 1.1, float('nan'), [0.5])),
        ('canonical_k', 'k', (8,)),
        ('mixture', 'pass_weights', ((), (1.0,) * 8, 0.5, [0.5], (1.0, '1'))),
        ('maclaurin', 'order', (0, 9, 2.0, True, '3', None)),
        ('rs_grpo', 'beta', (0, 0.0, -1.0, float('inf'), 1e-50, None, True)),
        ('f_grpo', 'gamma', (-0.1, float('nan'), None, '0')),
        ('w_reinforce', 'weight', (-0.1, float('nan'), None, True)),
        ('curverl', 'window', (0, 10_001, 2.0, True)),
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it(name, parameter, values):
    group = {'k': 2} if name in WITH_GROUPS else {}
    for value in values:
        with pytest.raises(ValueError, match=parameter):
            make_estimator(name, num_rollouts=8, **group | {parameter: value})


@pytest.mark.parametrize('name', ESTIMATORS)
def test_arrays_of_the_wrong_shape_or_type_are_errors(name):
    estimate = estimator_of(name)
    inputs = {'key': jax.random.key(0), 'mean_entropy': jnp.zeros(2)}
    inputs |= dict.fromkeys(('answers', 'lengths', 'log_probs'), np.ones((2, 8)))
    inputs['history'] = np.ones((10, 9))
    good = np.zeros((2, NUM_ROLLOUTS), bool)
    cases = [
        (np.zeros(NUM_ROLLOUTS), good, 'rewards.shape'),
        (np.zeros(NUM_ROLLOUTS), good[0], r'lacks the axis of problems.*rewards\[None'),
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
    with pytest.raises(ValueError, match=r'mean_entropy\.shape=\(3,\) must be \(2,\)'):
        estimator_of('adaptive')(rewards, correct, mean_entropy=jnp.zeros(3))
    keys = jax.random.split(jax.random.key(0), 3)
    with pytest.raises(ValueError, match=r'key\.shape'):
        estimator_of('bootstrap_sampling')(rewards, correct, key=keys)


@pytest.mark.parametrize(
    ('name', 'bad', 'message'),
    [
        (
            'set_level',
            {'answers': np.full((2, 8), 0.5)},
            'answers.dtype=float32 must be',
        ),
        (
            'opo',
            {'lengths': np.full((2, 8), 2.9)},
            'lengths.dtype=float32 must be of whole',
        ),
        ('rloo', {'rewards': np.ones((2, 8), complex)}, 'rewards.dtype=complex64 must'),
        ('rloo', {'rewards': 'abc'}, "rewards='abc' must be an array"),
        ('bootstrap_sampling', {'key': 3}, r'key\.shape=\(\) of int32 must be a key'),
        (
            'bootstrap_sampling',
            {'key': np.zeros(3)},
            r'key\.shape=\(3,\) of float32 mu',
        ),
        ('rloo', {'rewards': 1.0}, r'rewards\.shape=\(\) must be'),
        (
            'curverl',
            {'history': np.ones((0, 9), int)},
            r'history\.shape=\(0, 9\) must be .*empty',
        ),
    ],
)
def test_an_input_that_would_lose_something_is_refused(name, bad, message):
    shape = (2, NUM_ROLLOUTS)
    inputs = {
        'rewards': np.zeros(shape),
        'answers': np.zeros(shape, int),
        'lengths': np.ones(shape, int),
        'history': np.ones((3, 9), int),
    }
    inputs |= bad
    with pytest.raises(ValueError, match=message):
        estimator_of(name)(inputs.pop('rewards'), np.zeros(shape, bool), **inputs)


@pytest.mark.parametrize('kind', [np.array, jnp.array, np.ndarray.tolist])
def test_whole_numbers_that_the_dtype_would_change_are_refused(kind):
    """Or two that differ would become equal without a word."""
    estimate, correct = estimator_of('rloo'), np.zeros((1, NUM_ROLLOUTS), bool)
    for largest, exact in ((2**24, True), (2**30, True), (2**24 + 1, False)):
        rewards = kind(np.arange(NUM_ROLLOUTS, dtype=np.int32)[None] * 0 + largest)
        if exact:
            assert not estimate(rewards, correct).any()
            continue
        with pytest.raises(
            ValueError, match='rewards has the whole number 16777217, w'
        ):
            estimate(rewards, correct)
        # What is traced cannot be compared.
        jax.jit(estimate)(jnp.asarray(rewards), correct)


def test_whole_numbers_beyond_32_bits_are_refused():
    estimate = estimator_of('set_level')
    answers = np.arange(NUM_ROLLOUTS)[None] * 2**32
    rewards, correct = np.ones(answers.shape), answers > 0
    words = 'answers has the whole number 4294967296, which int32 would change'
    with pytest.raises(ValueError, match=words):
        estimate(rewards, correct, answers=answers)
    with pytest.raises(ValueError, match=r'answers=.* must fit in 32 bits'):
        estimate(rewards, correct, answers=answers.tolist())
    with pytest.raises(ValueError, match='must be an array'):
        estimate(rewards, correct, answers=[[1], [1, 2]])


def test_every_input_reaches_an_estimator_in_its_shape_and_dtype(monkeypatch):
    got = {}

    def everything(inputs):
        got.update(vars(inputs))
        return inputs.rewards

    monkeypatch.setitem(ESTIMATORS, 'everything', Estimator(everything, tuple(INPUTS)))
    shape = (3, NUM_ROLLOUTS)
    arrays = {
        'rewards': np.arange(24).reshape(shape),
        'correct': np.arange(24).reshape(shape) % 2 == 0,
        'key': jax.random.key(0),
        'mean_entropy': np.arange(3),
        'lengths': np.full(shape, 7),
        'answers': np.arange(24).reshape(shape),
        'log_probs': np.full(shape, -3),
        'history': np.arange(5 * 9).reshape(5, 9),
    }
    estimate = make_estimator('everything', num_rollouts=NUM_ROLLOUTS)
    estimate(**arrays)
    assert list(got) == list(INPUTS)
    for name in got.keys() - {'key'}:
        np.testing.assert_array_equal(got[name], arrays[name])
        assert got[name].dtype == jnp.dtype(INPUTS[name].dtype)
    assert got['key'].shape == (3,)
    for name in ('lengths', 'answers', 'log_probs'):
        with pytest.raises(ValueError, match=rf'{name}\.shape=\(3,\) must be \(3, 8\)'):
            estimate(**arrays | {name: np.ones(3, int)})
        with pytest.raises(ValueError, match=f'everything needs {name}='):
            estimate(**arrays | {name: None})
    for history in (np.ones((5, 8), int), np.ones(5, int)):
        with pytest.raises(
            ValueError, match=r'history\.shape=.* must be \(5, 9\), \[W'
        ):
            estimate(**arrays | {'history': history})
    with pytest.raises(ValueError, match=r"\['length'\] are not inputs; .*'lengths'"):
        estimate(**arrays, length=arrays['lengths'])


def of_config(name='pass_at_k', **changes):
    values = {p.name: p.default for p in all_parameters()} | changes
    return estimator_of_config(name, values, num_rollouts=NUM_ROLLOUTS)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_the_defaults_make_every_estimator(name):
    correct = np.arange(NUM_ROLLOUTS)[None] < 3
    inputs = {'key': jax.random.key(0), 'mean_entropy': jnp.ones(1)}
    inputs |= dict.fromkeys(('answers', 'lengths', 'log_probs'), np.ones((1, 8), int))
    inputs['history'] = np.ones((10, 9), int)
    want = estimator_of(name, k=4)
    np.testing.assert_array_equal(
        of_config(name)(correct * 1.0, correct, **inputs),
        want(correct * 1.0, correct, **inputs),
    )


def test_a_configured_value_reaches_its_estimator():
    correct = np.arange(NUM_ROLLOUTS)[None] < 3
    assert np.any(of_config('without_easy')(correct * 1.0, correct))
    cut = of_config('without_easy', easy_threshold=0.3)
    assert not np.any(cut(correct * 1.0, correct))


@pytest.mark.parametrize('name', ['pass_at_1', 'bootstrap_sampling'])
@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'k': 0}, r'^advantage\.k=0 must be a whole number in \[1, (num_roll|N\])'),
        ({'aggregation': 'token'}, r"^advantage\.aggregation='token' must be one of"),
        ({'easy_threshold': 1.5}, r'^advantage\.easy_threshold=1\.5 must be a number'),
        (
            {'num_group': 3},
            r'^unknown key advantage\.num_group; .* advantage\.num_groups',
        ),
    ],
)
def test_a_bad_key_of_a_config_is_named_whoever_reads_it(name, changes, message):
    with pytest.raises(ValueError, match=message):
        of_config(name, **changes)


def test_what_an_estimator_does_not_read_need_not_fit_n():
    values = {p.name: p.default for p in all_parameters()}
    assert values['order'] > 1
    assert values['k'] > 1
    estimator_of_config('pass_at_1', values, num_rollouts=1)
    for name, words in (
        ('pass_at_k', r'^advantage\.k=4 must be a whole number in \[1, num_rollouts=1'),
        ('maclaurin', r'^advantage\.order=4 must be a whole number in \[1, num_rol'),
        ('mixture', 'num_rollouts=1 leaves no response for a baseline'),
    ):
        with pytest.raises(ValueError, match=words):
            estimator_of_config(name, values, num_rollouts=1)
    with pytest.raises(ValueError, match=r'^advantage\.order=0 must be a whole number'):
        estimator_of_config('pass_at_1', values | {'order': 0}, num_rollouts=1)


def test_parameters_are_chosen_from_a_section_that_has_those_of_all():
    section = {'name': 'mixture', 'k': 8, 'pass_weights': [0.25, 1]}
    assert select_parameters('mixture', section) == {'pass_weights': (0.25, 1)}
    assert select_parameters('without_easy', section) == {'k': 8}
    with pytest.raises(ValueError, match="unknown estimator 'mix'"):
        select_parameters('mix', section)


@pytest.mark.parametrize('name', OTHER_NAMES)
def test_a_well_known_name_leads_to_a_row(name):
    message = f'unknown estimator {name.upper()!r}: {OTHER_NAMES[name]}; choose from'
    with pytest.raises(ValueError, match=re.escape(message)):
        select_parameters(name.upper(), {})
    assert any(row in OTHER_NAMES[name].split() for row in ESTIMATORS)
    assert name not in ESTIMATORS


def test_only_the_keys_that_an_estimator_reads_must_be_there():
    estimator_of_config('pass_at_1', {}, num_rollouts=4)
    message = r"missing keys \['advantage.switch_threshold'\], which piecewise reads"
    with pytest.raises(ValueError, match=message):
        estimator_of_config('piecewise', {'k': 2}, num_rollouts=4)
