import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.advantages import (
    effective_weight,
    estimator_of_config,
    estimator_parameters,
    estimator_row,
    make_estimator,
    tabulated_curve,
)
from passk_jax.advantages.tabulation import check_signal
from passk_jax.errors import InputError

N = 4
CORRECT = jnp.array([[True, False, False, False], [True, True, True, True]])
IN_CONFIG = {'k': 2, 'easy_threshold': 0.6}


pytestmark = pytest.mark.usefixtures('elsewhere')


def write(elsewhere, text: str) -> str:
    (elsewhere / 'my.py').write_text(text)
    return 'my.py:f'


def estimate(name: str, correct=CORRECT, **params) -> np.ndarray:
    fn = make_estimator(name, num_rollouts=N, **params)
    return np.asarray(jax.jit(fn)(correct.astype(float), correct))


def test_a_curve_may_be_any_python(elsewhere):
    """It gets whole numbers, so it may ask and look up what JAX cannot trace."""
    name = write(
        elsewhere,
        'import math\n'
        'def f(num_correct, num_rollouts):\n'
        '    if num_correct in (0, num_rollouts):\n        return 0, 0\n'
        '    return {1: 3.0}[num_correct], -math.factorial(num_correct)',
    )
    with pytest.raises(InputError, match=r'^my\.py, line 5: KeyError: 2$'):
        make_estimator(name, num_rollouts=N)


def test_a_curve_gives_each_response_its_value(elsewhere):
    name = write(
        elsewhere,
        'def f(num_correct, num_rollouts):\n'
        '    if num_correct in (0, num_rollouts):\n        return 0, 0\n'
        '    return num_rollouts - num_correct, -num_correct / 2',
    )
    expected = [[3, -0.5, -0.5, -0.5], [0, 0, 0, 0]]
    np.testing.assert_array_equal(estimate(name), expected)
    # An estimator from a file also gets a curve.
    curve = tabulated_curve(name, num_rollouts=N)
    assert curve['name'] == name
    assert curve['positive'] == [0, 3, 2, 1, 0]
    np.testing.assert_allclose(effective_weight(name, num_rollouts=N, p=0.0), 3.0)
    check_signal(name, num_rollouts=N)
    assert make_estimator(name, num_rollouts=N).begin_memory() == {}


def test_a_curve_equals_that_of_the_table_which_it_repeats(elsewhere):
    name = write(
        elsewhere,
        'from passk_jax.advantages import curves\n'
        'def f(num_correct, num_rollouts, k):\n'
        '    return curves.pass_at_k(num_correct, num_rollouts=num_rollouts, k=k)',
    )
    assert estimator_parameters(name) == ('k',)
    np.testing.assert_array_equal(estimate(name, k=2), estimate('pass_at_k', k=2))
    of_config = estimator_of_config(name, IN_CONFIG, num_rollouts=N)
    np.testing.assert_array_equal(
        of_config(CORRECT * 1.0, CORRECT), estimate(name, k=2)
    )


def test_any_other_estimator_gets_the_arrays_that_it_names(elsewhere):
    name = write(
        elsewhere,
        'def f(rewards, lengths):\n'
        '    value = rewards - 0.5 * lengths\n'
        '    return value - value.mean(axis=-1, keepdims=True)',
    )
    assert estimator_row(name).reads == ('rewards', 'lengths')
    fn = make_estimator(name, num_rollouts=N)
    lengths = jnp.array([[1, 2, 3, 4], [2, 2, 2, 2]])
    advantages = jax.jit(fn)(CORRECT * 0.25, CORRECT, lengths=lengths)
    expected = CORRECT * 0.25 - 0.5 * lengths
    expected -= expected.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(advantages, expected, rtol=1e-6)
    with pytest.raises(InputError, match='needs lengths='):
        fn(CORRECT * 1.0, CORRECT)
    check_signal(name, num_rollouts=N)


@pytest.mark.parametrize(
    ('reads', 'body', 'pools'),
    [
        ('rewards', 'rewards - rewards.mean()', True),
        ('rewards', 'rewards - jnp.median(rewards)', True),
        ('rewards', 'rewards / rewards.max(0)', True),
        ('correct', 'correct - correct.mean()', True),
        ('rewards, lengths', 'rewards - jnp.roll(rewards, 1, axis=0)', True),
        ('rewards', 'rewards - rewards.mean(axis=-1, keepdims=True)', False),
        ('rewards', 'rewards / rewards.sum(axis=-1, keepdims=True)', False),
    ],
)
def test_an_estimator_that_pools_problems_has_no_fixed_weight(
    reads, body, pools, elsewhere
):
    """Alone in a step, or beside other problems, a problem gets other advantages."""
    text = f'import jax.numpy as jnp\ndef f({reads}): return {body}'
    name = write(elsewhere, text)
    message = 'depends on the other problems of a step'
    assert (message in tabulated_curve(name, num_rollouts=N)['note']) == pools
    if pools:
        with pytest.raises(InputError, match='no fixed weight: it depends on the rewa'):
            effective_weight(name, num_rollouts=N, p=0.5)


def test_the_curve_of_an_estimator_that_pools_is_that_of_mixed_problems(elsewhere):
    name = write(elsewhere, 'def f(rewards): return rewards - rewards.mean()')
    curve = tabulated_curve(name, num_rollouts=N)
    np.testing.assert_allclose(curve['positive'][1:], 0.5)
    np.testing.assert_allclose(curve['negative'][:-1], -0.5)
    check_signal(name, num_rollouts=N)


def test_random_keys_and_memory_arrive_too(elsewhere):
    name = write(
        elsewhere,
        'import jax\n'
        'def f(correct, key, history, window):\n'
        '    noise = jax.vmap(lambda k: jax.random.normal(k, correct.shape[1:]))(key)\n'
        '    return noise + history.sum() + window',
    )
    fn = make_estimator(name, num_rollouts=N, window=3)
    memory = fn.begin_memory()
    one, other = (
        fn(CORRECT * 1.0, CORRECT, key=jax.random.key(i), **memory) for i in range(2)
    )
    assert one.shape == CORRECT.shape
    assert (one != other).any()


def test_a_parameter_with_a_default_is_a_key_that_need_not_be_there(elsewhere):
    name = write(
        elsewhere, 'def f(num_correct, num_rollouts, tilt=0.5):\n    return tilt, 0'
    )
    expected = CORRECT * 0.5
    fn = estimator_of_config(name, IN_CONFIG, num_rollouts=N)
    np.testing.assert_array_equal(fn(CORRECT * 1.0, CORRECT), expected)
    fn = estimator_of_config(name, IN_CONFIG | {'tilt': 2}, num_rollouts=N)
    np.testing.assert_array_equal(fn(CORRECT * 1.0, CORRECT), CORRECT * 2.0)
    with pytest.raises(InputError, match=r"advantage\.tilt='x' must be a number"):
        estimator_of_config(name, IN_CONFIG | {'tilt': 'x'}, num_rollouts=N)
    # It is no key of another estimator.
    with pytest.raises(InputError, match=r'unknown key advantage\.tilt'):
        estimator_of_config('pass_at_1', IN_CONFIG | {'tilt': 2}, num_rollouts=N)


def test_a_parameter_of_the_table_may_have_its_default_or_none(elsewhere):
    name = write(
        elsewhere, 'def f(num_correct, gamma=.5, k=4, beta=2): return k, -gamma'
    )
    expected = np.where(CORRECT, 4, -0.5)
    np.testing.assert_array_equal(estimate(name), expected)
    section = {'k': 2, 'gamma': 3.0, 'beta': 2.0}
    fn = estimator_of_config(name, section, num_rollouts=N)
    expected = np.where(CORRECT, 2, -3)
    np.testing.assert_array_equal(fn(CORRECT * 1.0, CORRECT), expected)


@pytest.mark.parametrize(
    ('parameter', 'declared', 'chosen'),
    [
        ('gamma=1.0', 0.5, 2.0),
        ('weight=0.7', 0.1, 0.7),
        ('window=5', 10, 5),
        ('k=2', 4, 2),
        ("aggregation='mean'", 'sum', 'mean'),
    ],
)
def test_a_default_that_a_config_would_replace_is_refused(
    parameter, declared, chosen, elsewhere
):
    """A config states the table's unless it is set."""
    key, _, default = parameter.partition('=')
    for inputs in ('num_correct', 'rewards'):
        (elsewhere / f'{inputs}.py').write_text(f'def f({inputs}, {parameter}): pass')
        name = f'{inputs}.py:f'
        words = rf'advantage\.{key}={declared!r} is the default of other estimators.*'
        with pytest.raises(InputError, match=words + re.escape(f'{default} of {name}')):
            estimator_of_config(name, IN_CONFIG | {key: declared}, num_rollouts=N)
        row = estimator_row(name)
        assert [repr(p.default) for p in row.parameters] == [default]
    if key != 'aggregation':
        source = f'def f(num_correct, {parameter}): return {key}, 0.0'
        (elsewhere / 'own.py').write_text(source)
        for have, want in (
            (make_estimator('own.py:f', num_rollouts=N), float(default)),
            (
                estimator_of_config(
                    'own.py:f', IN_CONFIG | {key: chosen}, num_rollouts=N
                ),
                float(chosen),
            ),
        ):
            assert have(CORRECT * 1.0, CORRECT).max() == want


def test_a_default_is_a_plain_value(elsewhere):
    for file, parameter in (('a.py', 'beta=None'), ('b.py', 'pass_weights=[1]')):
        (elsewhere / file).write_text(f'def f(num_correct, {parameter}): pass')
        with pytest.raises(InputError, match='must have a plain default'):
            make_estimator(f'{file}:f', num_rollouts=N)


@pytest.mark.parametrize('kind', ['num_correct', 'rewards'])
@pytest.mark.parametrize(
    'reserved',
    ['name', 'match_weight_at', 'parameters', 'p', 'self', 'inputs', 'curve'],
)
def test_a_name_with_another_meaning_is_no_parameter(kind, reserved, elsewhere):
    (elsewhere / f'{kind}.py').write_text(f'def f({kind}, {reserved}=0.5): pass')
    words = (
        rf"\(f\): rename the parameter {reserved}: .* taken are \['name', 'match_weight"
    )
    with pytest.raises(InputError, match=words):
        make_estimator(f'{kind}.py:f', num_rollouts=N)


def test_equal_settings_share_a_program(elsewhere):
    name = write(elsewhere, 'def f(num_correct, num_rollouts):\n    return 1, 0')
    one, other = (make_estimator(name, num_rollouts=N) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


# Content -> what the message says, before any device.
WRONG = {
    'f = 3': 'my.py:f is of type int, not a function',
    'class f: pass': 'my.py:f is of type type, not a function',
    'def f(): return 1': 'my.py, line 1 (f) must have a parameter num_correct, as',
    'def f(n, k=2): return 1': 'my.py, line 1 (f) must have a parameter num_correct',
    'def f(num_correct, *args): return 1': 'line 1 (f): name each parameter instead',
    'def f(num_correct, **others): return 1': 'line 1 (f): name each parameter inst',
    'def f(num_correct, tilt): return 1': 'line 1 (f): the parameter tilt is none of',
    'def f(num_correct, on=True): return 1': 'line 1 (f): the parameter on is none',
    'def f(num_correct, mode="a"): return 1': 'line 1 (f): the parameter mode is none',
    'def f(rewards, num_rollouts): pass': 'line 1 (f): only a curve, which has num_cor',
    'def f(rewards, num_rollouts=4): pass': 'line 1 (f): only a curve, which has num_c',
    'def f(num_correct, rewards): pass': '(f): a curve, which has num_correct, gets no',
    'def f(num_correct, lengths=1.0): pass': 'gets no arrays such as lengths; leave on',
    'def f(num_correct): return None': 'line 1 (f) returned None for num_correct=0; i',
    'def f(num_correct): pass': 'line 1 (f) returned None for num_correct=0',
    'def f(num_correct): return "ab"': "line 1 (f) returned 'ab' for num_correct=0",
    'def f(num_correct): return 1.0': 'line 1 (f) returned 1.0 for num_correct=0',
    'def f(num_correct): return 1, 2, 3': 'line 1 (f) returned (1, 2, 3)',
    'def f(num_correct): return 1, float("nan")': 'line 1 (f) returned (1, nan)',
    'def f(num_correct): return 1, 1e300': 'line 1 (f) returned (1, 1e+300)',
    'def f(num_correct):\n  return 1 / num_correct, 0': 'line 2: ZeroDivisionError: di',
    'def f(num_correct):\n  raise SystemExit': 'line 2: SystemExit',
    'def f(rewards): return None': 'line 1 (f) returned None; it must return an array',
    'def f(rewards): return "x"': "line 1 (f) returned 'x'; it must return an array",
    'def f(rewards): return 1.0': 'line 1 (f) returned 1.0',
    'def f(rewards): return rewards.sum(-1)': 'line 1 (f) returned (3,); it must ret',
    'def f(rewards): return rewards * 1j': 'line 1 (f) returned (3, 4); it must ret',
    'def f(rewards):\n  if rewards.sum() > 0: return rewards': (
        'line 2: TracerBoolConversionError: Attempted boolean conversion of traced arr'
    ),
    'import numpy as np\ndef f(rewards):\n  return np.sort(rewards)': (
        'line 3: TracerArrayConversionError'
    ),
    'def f(rewards):\n  return rewards.abs()': 'line 2: AttributeError: ',
    'def f(history): return history': 'line 1 (f) reads history, so it needs the para',
}


@pytest.mark.parametrize('content', WRONG)
def test_what_is_wrong_is_one_line_with_its_place(content, elsewhere):
    with pytest.raises(InputError) as error:
        make_estimator(write(elsewhere, content), num_rollouts=N)
    assert WRONG[content] in str(error.value)
    assert str(error.value).startswith('my.py')
    assert '\n' not in str(error.value)


@pytest.mark.parametrize(
    ('body', 'message'),
    [
        ('rewards * 0', 'gives every response the advantage 0'),
        ('rewards / rewards.sum()', 'gives some responses advantages that are not fin'),
    ],
)
def test_advantages_without_a_signal_are_refused(body, message, elsewhere):
    name = write(elsewhere, f'def f(rewards): return {body}')
    with pytest.raises(InputError, match=f"advantage.name='my.py:f' .*{message}"):
        check_signal(name, num_rollouts=N)


def test_a_name_that_is_neither_names_the_form():
    with pytest.raises(InputError, match=r'or one of your own, file\.py:name'):
        make_estimator('my.py', num_rollouts=N)
