import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax import advantages
from passk_jax.advantages import ESTIMATORS, Inputs, curves
from passk_jax.advantages.make import make_estimator
from tests.advantages import oracles
from tests.shape_checks import call_checked

NUM_ROLLOUTS = 16
OF_REWARDS = [name for name, row in ESTIMATORS.items() if 'rewards' in row.reads]
OF_CORRECT = [name for name, row in ESTIMATORS.items() if 'correct' in row.reads]
CENTERED = [name for name, row in ESTIMATORS.items() if row.centered]

# The advantage of a response where all are wrong, and where all are right.
ENDS = {
    'pkpo': (0, 4),
    'pkpo_loo': (0, 0),
    'leave_one_out_max': (0, 0),
    'maclaurin': (-3, 1),
    'nsr': (-1, 0),
    'w_reinforce': (-1, np.float32(0.1)),
    # Half of all responses are right.
    'reinforce_plus_plus': (-1, 1),
    # inputs_of() gives -2 nats over 3 tokens.
    'differential_smoothing': np.float32(0.05) * np.float32(2 / 3) * np.array([-1, 1]),
}


def estimator_of(name: str, num_rollouts: int = NUM_ROLLOUTS, **params):
    row = ESTIMATORS[name]
    required = {p.name: p.default for p in row.parameters if p.required}
    names = advantages.estimator_parameters(name)
    parameters = {p: v for p, v in {**required, **params}.items() if p in names}
    return make_estimator(name, num_rollouts=num_rollouts, **parameters)


@functools.cache
def jitted(name: str, num_rollouts: int = NUM_ROLLOUTS, **params):
    """One program for all tests of these settings and shapes."""
    return jax.jit(estimator_of(name, num_rollouts, **params))


@functools.cache
def inputs_of(
    num_problems: int, seed: int = 0, num_rollouts: int = NUM_ROLLOUTS
) -> dict[str, jax.Array]:
    rng, shape = np.random.default_rng(seed), (num_problems, num_rollouts)
    key_data = jax.device_put(rng.integers(0, 2**32, (num_problems, 2), np.uint32))
    return {
        'key': jax.random.wrap_key_data(key_data, impl='threefry2x32'),
        'mean_entropy': jnp.asarray(rng.random(num_problems, np.float32)),
        'answers': np.zeros(shape, np.int32),
        'lengths': np.full(shape, 3, np.int32),
        'log_probs': np.full(shape, -2, np.float32),
        'history': rng.integers(0, 9, (3, num_rollouts + 1), np.int32),
    }


def every_count(num_rollouts: int = NUM_ROLLOUTS, seed: int = 0) -> np.ndarray:
    """``[N + 1, N]`` bool: one problem for each number of correct responses."""
    rng = np.random.default_rng(seed)
    counts = np.arange(num_rollouts + 1)[:, None]
    return rng.permuted(np.arange(num_rollouts) < counts, axis=1)


def as_rewards(correct: np.ndarray) -> np.ndarray:
    return correct.astype(np.float32)


def run(name: str, correct: np.ndarray, rewards=None, **params) -> np.ndarray:
    rewards = as_rewards(correct) if rewards is None else rewards
    estimate = jitted(name, correct.shape[1], **params)
    rewards = np.asarray(rewards, np.float32)
    inputs = inputs_of(len(correct), num_rollouts=correct.shape[1])
    return np.asarray(estimate(rewards, correct, **inputs))


@pytest.mark.parametrize('name', dict.fromkeys([*CENTERED, *ENDS]))
def test_all_wrong_and_all_right_get_exactly_zero_unless_not_centered(name):
    ends = run(name, every_count())[[0, -1]]
    want = np.array(ENDS.get(name, (0, 0)), np.float32)
    np.testing.assert_array_equal(ends, np.tile(want, (NUM_ROLLOUTS, 1)).T)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_the_advantages_of_a_problem_sum_to_zero_if_the_row_says_so(name):
    totals = [abs(run(name, every_count(n)).sum(axis=1)).max() for n in (16, 33)]
    centered = bool(max(totals) < 2e-5)
    assert centered == ESTIMATORS[name].centered, f'declare {centered=} in its row'


@pytest.mark.parametrize('reward', [0.1, 1 / 3, -7.3, 1e6 + 0.1, 1e-30, 3e30])
@pytest.mark.parametrize(
    'name',
    # Those that pool problems are centered on the mean of a step, which this is.
    [n for n in OF_REWARDS if ESTIMATORS[n].centered or ESTIMATORS[n].pools_problems],
)
def test_equal_rewards_get_exactly_zero_whatever_their_rounding(name, reward):
    # Their float32 mean need not equal them; a tiny sigma made -2075 of that.
    rewards = np.full((NUM_ROLLOUTS + 1, NUM_ROLLOUTS), reward, np.float32)
    assert np.all(run(name, every_count(), rewards) == 0.0)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_every_count_gives_finite_float32_advantages(name):
    for num_rollouts in (5, 6, 16, 33):
        got = run(name, every_count(num_rollouts))
        assert got.shape == (num_rollouts + 1, num_rollouts)
        assert got.dtype == np.float32
        assert np.all(np.isfinite(got))


@pytest.mark.parametrize('name', ESTIMATORS)
def test_jitted_equals_eager(name):
    correct = every_count()
    arguments = (jnp.asarray(as_rewards(correct)), jnp.asarray(correct))
    eager = estimator_of(name)(*arguments, **inputs_of(len(correct)))
    got = jitted(name)(*arguments, **inputs_of(len(correct)))
    np.testing.assert_allclose(got, eager, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_vmap_over_batches_equals_one_by_one(name):
    correct = np.stack([every_count(seed=0), every_count(seed=1)])
    estimate, inputs = jitted(name), [inputs_of(NUM_ROLLOUTS + 1, s) for s in (0, 1)]
    of_batches = jax.vmap(lambda r, c, i: estimate(r, c, **i))
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *inputs)
    have = np.asarray(jax.jit(of_batches)(as_rewards(correct), correct, stacked))
    for got, c, arrays in zip(have, correct, inputs, strict=True):
        want = estimate(as_rewards(c), c, **arrays)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_permuting_responses_permutes_advantages_if_the_row_says_so(name):
    correct = every_count()
    order = np.random.default_rng(1).permutation(NUM_ROLLOUTS)
    got, want = run(name, correct[:, order]), run(name, correct)[:, order]
    exchangeable = np.allclose(got, want, atol=1e-6)
    assert exchangeable == ESTIMATORS[name].exchangeable, f'declare {exchangeable=}'


@pytest.mark.parametrize('name', ESTIMATORS)
def test_an_advantage_does_not_depend_on_the_row_of_its_problem(name):
    correct = every_count()
    estimate, inputs = jitted(name), inputs_of(len(correct))
    want = np.asarray(estimate(as_rewards(correct), correct, **inputs))
    order = np.random.default_rng(1).permutation(len(correct))
    moved = {a: v if a == 'history' else v[order] for a, v in inputs.items()}
    got = estimate(as_rewards(correct[order]), correct[order], **moved)
    # A sum over the step is rounded in another order.
    rounding = 1e-6 if ESTIMATORS[name].pools_problems else 0
    np.testing.assert_allclose(got, want[order], rtol=rounding)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_other_problems_do_not_count_unless_the_row_says_so(name):
    correct = every_count()
    other = correct.copy()
    other[5:] = True
    got, want = run(name, other)[:5], run(name, correct)[:5]
    assert np.array_equal(got, want) != ESTIMATORS[name].pools_problems


@pytest.mark.parametrize('name', ESTIMATORS)
def test_no_right_response_is_discouraged_nor_a_wrong_one_encouraged_if_declared(name):
    correct = every_count()
    got = run(name, correct)
    follows_verdicts = bool(np.all(got[correct] >= 0) and np.all(got[~correct] <= 0))
    declared = ESTIMATORS[name].follows_verdicts
    assert follows_verdicts == declared, f'declare {follows_verdicts=} in its row'


@pytest.mark.parametrize('name', OF_CORRECT)
def test_rewards_do_not_leak_into_a_design_with_binary_group_rewards(name):
    # -1/+1, a format bonus, a reward of exactly 1 for a wrong response.
    correct = every_count()
    want = run(name, correct)
    bonus = np.random.default_rng(0).uniform(0, 1, correct.shape)
    for rewards in (2.0 * correct - 1, correct + 0.1 * bonus, 1.0 - correct, bonus):
        np.testing.assert_array_equal(run(name, correct, rewards), want)


@pytest.mark.parametrize('name', OF_REWARDS)
def test_estimators_of_rewards_ignore_the_correct_channel(name):
    correct = every_count()
    rewards = np.random.default_rng(0).normal(size=correct.shape)
    np.testing.assert_array_equal(
        run(name, correct, rewards), run(name, ~correct, rewards)
    )


@pytest.mark.parametrize('name', OF_REWARDS)
def test_a_nan_reward_is_not_turned_into_a_zero(name):
    correct = every_count()
    rewards = as_rewards(correct)
    rewards[4, 3] = np.nan
    got = run(name, correct, rewards)
    assert np.all(np.isnan(got[4]))
    is_finite = np.isfinite(np.delete(got, 4, axis=0))
    assert not is_finite.any() if ESTIMATORS[name].pools_problems else is_finite.all()
    assert np.all(np.isnan(run(name, correct, np.full_like(rewards, np.nan))))


def test_pass_at_1_is_grpo_with_the_population_sigma_on_shaped_rewards():
    rewards = np.random.default_rng(0).normal(size=(9, 16)).astype(np.float32)
    want = [oracles.normalized(row) for row in rewards]
    got = run('pass_at_1', rewards > 0, rewards)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    # One in 2048, on an offset: 1e-5 of a value of 45.
    rare = np.zeros((1, 2048), np.float32)
    rare[0, 0] = 1
    got = run('pass_at_1', rare > 0, rare + 3)
    np.testing.assert_allclose(got[0], oracles.normalized(rare[0]), rtol=1e-5)


def test_without_its_sigma_pass_at_k_is_pkpo_up_to_n_over_k():
    # s_i: mean over all k-subsets of [i in group] * max reward.
    num_rollouts, k = 10, 3
    groups = oracles.all_groups(num_rollouts, k)
    for num_correct in range(1, 8):
        correct = np.arange(num_rollouts) < num_correct
        best = correct[groups].any(axis=1).astype(np.float64)
        member = (groups[:, :, None] == np.arange(num_rollouts)).any(axis=1)
        credit = best @ member / len(groups)
        want = num_rollouts / k * (credit - credit.mean())
        got = run('pass_at_k', correct[None], k=k)[0] * best.std()
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_adaptive_gives_high_entropy_problems_pass_at_1_and_the_rest_pass_at_k():
    correct = np.tile(np.arange(NUM_ROLLOUTS) < 3, (4, 1))
    estimate = jitted('adaptive')
    got = estimate(
        as_rewards(correct), correct, mean_entropy=jnp.array([0.1, 0.9, 0.3, 0.5])
    )
    of_1, of_k = run('pass_at_1', correct), run('pass_at_k', correct)
    for row, want in enumerate((of_k, of_1, of_k, of_1)):
        np.testing.assert_allclose(got[row], want[row], rtol=1e-6)


@pytest.mark.parametrize(
    ('fraction', 'num_problems', 'num_high'),
    [(0.0, 4, 0), (1.0, 4, 4), (0.5, 5, 3), (0.5, 1, 1), (0.25, 8, 2), (0.3, 3, 1)],
)
def test_adaptive_rounds_its_share_and_prefers_earlier_rows_among_equals(
    fraction, num_problems, num_high
):
    correct = np.tile(np.arange(NUM_ROLLOUTS) < 3, (num_problems, 1))
    estimate = jitted('adaptive', high_entropy_fraction=fraction)
    got = estimate(
        as_rewards(correct), correct, mean_entropy=jnp.full(num_problems, 0.7)
    )
    of_1 = np.isclose(got, run('pass_at_1', correct)).all(axis=1)
    np.testing.assert_array_equal(of_1, np.arange(num_problems) < num_high)


def test_unlikely_successes_are_worth_more():
    correct = np.array([[True, True, True, False], [True] * 4, [False] * 4])
    # Per token -1, -3, -1 and -2: ranks of 2, 0, 2 and 1 less likely ones.
    lengths = np.tile([2, 1, 3, 1], (3, 1))
    log_probs = np.tile([-2.0, -3.0, -3.0, -2.0], (3, 1))
    paid = np.array([[0.8, 1.0, 0.8, 0.0], [0.8, 1.0, 0.8, 0.9], [0.0] * 4])
    want = [oracles.normalized(row) for row in paid]

    def of(penalty):
        estimate = jitted('unlikeliness', 4, rank_penalty=penalty)
        inputs = {'lengths': lengths, 'log_probs': log_probs}
        return np.asarray(estimate(as_rewards(correct), correct, **inputs))

    np.testing.assert_allclose(of(0.4), want, atol=1e-5)
    assert of(0.4)[1, 1] > 0 > of(0.4)[1, 0]
    np.testing.assert_allclose(of(0.0), run('pass_at_1', correct), atol=1e-6)


@pytest.mark.parametrize(
    ('name', 'field'),
    [
        ('unlikeliness', 'log_probs'),
        ('differential_smoothing', 'log_probs'),
        ('adaptive', 'mean_entropy'),
    ],
)
def test_a_nan_beside_the_rewards_is_not_hidden(name, field):
    correct = every_count()
    inputs = inputs_of(len(correct))
    values = np.array(inputs[field], np.float32)
    values[4, ...] = np.nan
    got = jitted(name)(as_rewards(correct), correct, **{**inputs, field: values})
    np.testing.assert_array_equal(np.isnan(got).any(axis=1), np.arange(17) == 4)


def test_differential_smoothing_adds_to_grpo_what_each_response_says():
    rng = np.random.default_rng(3)
    correct = every_count(6)
    lengths = rng.integers(1, 9, correct.shape)
    log_probs = -rng.uniform(0.1, 4, correct.shape) * lengths
    coefficients = {'smoothing_correct': 0.3, 'smoothing_wrong': 0.7}
    want = np.zeros(correct.shape)
    for problem, row in enumerate(correct):
        grpo = oracles.normalized(row)
        for i, right in enumerate(row):
            nats = -log_probs[problem, i] / lengths[problem, i]
            want[problem, i] = grpo[i] + (0.3 * nats if right else -0.7 * nats)
    inputs = {'lengths': lengths, 'log_probs': log_probs}

    def of(**params):
        estimate = jitted('differential_smoothing', 6, **params)
        return np.asarray(estimate(as_rewards(correct), correct, **inputs))

    np.testing.assert_allclose(of(**coefficients), want, atol=1e-5)
    off = of(smoothing_correct=0.0, smoothing_wrong=0.0)
    np.testing.assert_allclose(off, run('pass_at_1', correct), atol=1e-6)


def defaults_of(name: str):
    return {p.name: p.default for p in ESTIMATORS[name].parameters}


FUNCTIONS = [n for n, x in ESTIMATORS.items() if inspect.isfunction(x.compute)]


@pytest.mark.parametrize('name', FUNCTIONS)
def test_annotated_shapes_hold(name):
    def checked():
        arrays = {
            'rewards': jnp.ones((3, 8)),
            'correct': jnp.ones((3, 8), bool),
            'key': jax.random.split(jax.random.key(0), 3),
            'mean_entropy': jnp.ones(3),
            'lengths': jnp.ones((3, 8), int),
            'log_probs': jnp.ones((3, 8)),
            'answers': jnp.ones((3, 8), int),
            'history': jnp.ones((5, 9), int),
        }
        read = Inputs(**{field: arrays[field] for field in row.reads})
        return call_checked(row.compute, read, **defaults_of(name))

    row = ESTIMATORS[name]
    assert jax.eval_shape(checked).shape == (3, 8)


def test_the_curve_estimators_agree_with_their_curves():
    correct = every_count()
    for name in ('pass_at_k', 'without_easy', 'piecewise', 'exceeding', 'combination'):
        parameters = defaults_of(name) | {'num_rollouts': NUM_ROLLOUTS}
        curve = jax.jit(functools.partial(getattr(curves, name), **parameters))
        positive, negative = jax.device_get(curve(np.arange(NUM_ROLLOUTS + 1)))
        want = np.where(correct, positive[:, None], negative[:, None])
        np.testing.assert_allclose(run(name, correct), want, rtol=1e-6, atol=1e-7)
