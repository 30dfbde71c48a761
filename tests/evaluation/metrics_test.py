import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from passk_jax.evaluation import majority, metrics


def share_of_subsets(correct: np.ndarray, k: int, judge) -> float:
    """The share of the k-subsets of the responses of which ``judge`` is true."""
    return np.mean([judge(s) for s in itertools.combinations(correct, k)])


@pytest.mark.parametrize('num_responses', [1, 2, 5, 9])
def test_pass_at_k_and_pass_hat_k_are_means_over_every_subset(num_responses):
    for k in range(1, num_responses + 1):
        for num_correct in range(num_responses + 1):
            correct = np.arange(num_responses) < num_correct
            got = metrics.pass_at_k(num_responses, num_correct, k=k)
            assert got == pytest.approx(share_of_subsets(correct, k, any), abs=1e-12)
            got = metrics.pass_hat_k(num_responses, num_correct, k=k)
            assert got == pytest.approx(share_of_subsets(correct, k, all), abs=1e-12)


def test_pass_at_k_is_unbiased_and_sampling_with_replacement_is_not():
    # n responses of true accuracy p: the mean estimate over runs is 1 - (1 - p)^k.
    accuracy, num_responses, k = 0.05, 32, 8
    num_correct = np.random.default_rng(0).binomial(num_responses, accuracy, 200_000)
    truth = 1 - (1 - accuracy) ** k
    estimates = metrics.pass_at_k(num_responses, num_correct, k=k)
    tolerance = 4 * estimates.std() / math.sqrt(estimates.size)
    assert estimates.mean() == pytest.approx(truth, abs=tolerance)
    with_replacement = 1 - (1 - num_correct / num_responses) ** k
    assert with_replacement.mean() < truth - 3 * tolerance
    hat = metrics.pass_hat_k(num_responses, num_correct, k=2)
    assert hat.mean() == pytest.approx(accuracy**2, abs=3e-4)


def test_one_right_of_32_is_found_by_32_tries():
    # Drawn with replacement this is 0.638 for a true 1.0.
    assert metrics.pass_at_k(32, 1, k=32) == 1.0
    assert pytest.approx(0.638, abs=0.001) == 1 - (1 - 1 / 32) ** 32


def test_large_counts_stay_exact():
    num_correct = np.array([0, 1, 5, 1000, 4095, 4096])
    got = metrics.pass_at_k(4096, num_correct, k=1024)
    want = [
        1 - math.comb(4096 - int(c), 1024) / math.comb(4096, 1024) for c in num_correct
    ]
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_problems_may_have_different_numbers_of_responses():
    got = metrics.pass_at_k(np.array([4, 8]), np.array([1, 1]), k=4)
    np.testing.assert_allclose(got, [1.0, 0.5])


def test_powers_run_up_to_the_fewest_responses_and_rise():
    powers = metrics.pass_at_powers(np.array([32, 40]), np.array([3, 0]))
    assert list(powers) == [1, 2, 4, 8, 16, 32]
    np.testing.assert_allclose(powers[1], [3 / 32, 0])
    curve = np.array([values[0] for values in powers.values()])
    assert np.all(np.diff(curve) > 0)
    assert list(metrics.pass_at_powers(31, 2)) == [1, 2, 4, 8, 16]
    assert list(metrics.pass_at_powers(np.array([1]), np.array([1]))) == [1]


def test_cover_is_the_share_of_problems_that_are_solved_so_often():
    c = np.array([0, 1, 3, 7, 9, 10])
    for tau, solved in ((0.1, 5), (0.3, 4), (0.7, 3), (0.71, 2), (1.0, 1)):
        assert metrics.cover_at(10, c, tau=tau).sum() == solved
    # Pass@1 is the integral over tau, of which these are the places of a jump.
    steps = [metrics.cover_at(10, c, tau=i / 10).mean() for i in range(1, 11)]
    assert np.mean(steps) == pytest.approx(metrics.pass_at_k(10, c, k=1).mean())
    for tau in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match='tau'):
            metrics.cover_at(10, c, tau=tau)


@pytest.mark.parametrize(
    ('num_responses', 'num_correct', 'k', 'message'),
    [
        (4, 5, 2, 'num_correct'),
        (4, -1, 2, 'num_correct'),
        (4, 2, 5, 'k=5'),
        (np.array([8, 4]), np.array([1, 1]), 5, 'k=5'),
        (4, 2, 0, 'k=0'),
        (4, 2, 2.0, 'k=2.0'),
        (4, 2, True, 'k=True'),
        (4.0, 2, 2, 'num_responses'),
        (4, 0.5, 2, 'num_correct'),
    ],
)
def test_bad_counts_are_errors(num_responses, num_correct, k, message):
    for metric in (metrics.pass_at_k, metrics.pass_hat_k):
        with pytest.raises(ValueError, match=message):
            metric(num_responses, num_correct, k=k)


@pytest.mark.parametrize('responses', [np.array([], np.int64), np.array([0, 4])])
def test_powers_of_nothing_are_an_error(responses):
    with pytest.raises(ValueError, match='responses'):
        metrics.pass_at_powers(responses, np.zeros_like(responses))


def test_diversity_counts_distinct_answers_among_the_wrong_responses():
    parsed = [['a', 'b', 'b', 'c'], ['a', 'a', 'a', 'a'], ['', '', 'x', 'y']]
    correct = np.zeros((3, 4), bool)
    correct[0, 0] = True
    correct[1] = True
    got = metrics.answer_diversity(parsed, correct)
    np.testing.assert_allclose(got, [2 / 3, np.nan, 3 / 4])


@pytest.mark.parametrize('size', [1, 2, 4])
def test_rarefied_diversity_is_the_mean_over_every_subset_of_the_wrong(size):
    parsed = [list('rabbcc'), list('aaaaaa'), ['', '', *'xyyr'], list('rrrraa')]
    correct = np.array([[a == 'r' for a in answers] for answers in parsed])
    want = []
    for answers in parsed:
        subsets = list(itertools.combinations([a for a in answers if a != 'r'], size))
        counts = [len(set(subset)) for subset in subsets]
        want.append(np.mean(counts) if counts else np.nan)
    got = metrics.rarefied_diversity(parsed, correct, size=size)
    np.testing.assert_allclose(got, want)
    # Only two responses to the last problem are wrong.
    assert np.isnan(got[3]) == (size == 4)


def test_rarefied_diversity_does_not_measure_accuracy():
    """Wrong answers of one distribution, of policies that are more and less right."""
    rng = np.random.default_rng(0)
    shares = np.array([0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    exact = (1 - (1 - shares) ** 4).sum()
    ratios = []
    for accuracy in (0.1, 0.5, 0.9):
        correct = rng.random((3000, 32)) < accuracy
        parsed = rng.choice(list('abcdef'), correct.shape, p=shares).tolist()
        got = metrics.rarefied_diversity(parsed, correct)
        got = got[~np.isnan(got)]
        error = got.std() / math.sqrt(got.size)
        assert got.mean() == pytest.approx(exact, abs=4 * error)
        assert error < 0.02
        ratios.append(np.nanmean(metrics.answer_diversity(parsed, correct)))
    # The paper's ratio rises on the same answers.
    assert ratios[0] < 0.25 < 0.75 < ratios[2]


def test_answers_that_do_not_fit_their_verdicts_are_errors():
    for metric in (
        metrics.answer_diversity,
        metrics.rarefied_diversity,
        majority.maj_at_powers,
        lambda parsed, correct: majority.maj_at_k(parsed, correct, k=1),
    ):
        for parsed, correct in (
            ([['a', 'b']], np.zeros((1, 3), bool)),
            ([['a'], ['b', 'c']], np.zeros((2, 1), bool)),
            ([['a']], np.zeros((2, 1), bool)),
            ([['a']], np.zeros((1, 1))),
        ):
            with pytest.raises(ValueError, match='correct'):
                metric(parsed, correct)
    with pytest.raises(ValueError, match='k=3'):
        majority.maj_at_k([['a', 'b']], np.zeros((1, 2), bool), k=3)


def test_the_bootstrap_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        values = (rng.random(100) < 0.3).astype(float)
        low, high = metrics.bootstrap_interval(
            values, seed=trial, num_samples=200, level=0.9
        )
        covered += low <= 0.3 <= high
    assert 0.82 <= covered / 200 <= 0.97


def test_the_bootstrap_interval_has_the_width_of_the_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    low, high = metrics.bootstrap_interval(values, seed=0, num_samples=2000)
    half = 1.96 * values.std() / 20
    np.testing.assert_allclose(
        [low, high], [values.mean() - half, values.mean() + half], atol=0.012
    )


def test_the_bootstrap_interval_is_a_function_of_its_seed():
    values = np.random.default_rng(0).random(50)

    def interval(seed):
        return metrics.bootstrap_interval(values, seed=seed, num_samples=100)

    assert interval(1) == interval(1)
    assert interval(1) != interval(2)


def test_problems_without_a_value_are_left_out_of_the_interval():
    values = np.array([0.2, 0.8, 0.5])
    padded = np.array([np.nan, 0.2, 0.8, np.nan, 0.5])
    kwargs = {'seed': 0, 'num_samples': 50}
    assert metrics.bootstrap_interval(values, **kwargs) == metrics.bootstrap_interval(
        padded, **kwargs
    )
    assert np.all(np.isnan(metrics.bootstrap_interval(np.array([np.nan]), **kwargs)))


def test_the_paired_interval_is_students():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 5))
    mean, low, high = metrics.paired_interval(first, second, level=0.9)
    want = stats.ttest_rel(first, second).confidence_interval(0.9)
    assert mean == pytest.approx((first - second).mean())
    np.testing.assert_allclose([low, high], want)


def test_the_interval_of_independent_seeds_is_welchs():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=5), rng.normal(1, 3, size=4)
    mean, low, high = metrics.independent_interval(first, second, level=0.9)
    want = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
    assert mean == pytest.approx(first.mean() - second.mean())
    np.testing.assert_allclose([low, high], want)
    same = metrics.independent_interval(np.ones(2), np.zeros(3))
    assert same == (1.0, 1.0, 1.0)


def test_three_seeds_use_the_quantile_of_two_degrees_of_freedom():
    # t(0.975, 2) = 4.303; the normal's 1.96 would be far too sure.
    mean, low, high = metrics.paired_interval(np.array([1.0, 2, 3]), np.zeros(3))
    assert mean == 2
    assert high - mean == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert mean - low == pytest.approx(high - mean)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda: metrics.paired_interval([1.0], [2.0]), 'S >= 2'),
        (lambda: metrics.paired_interval([1.0, 2.0], [2.0]), 'S >= 2'),
        (lambda: metrics.paired_interval([1.0, np.nan], [2.0, 2.0]), 'finite'),
        (lambda: metrics.paired_interval([1.0, 2.0], [2.0, 2.0], level=95), 'level'),
        (lambda: metrics.independent_interval([1.0, 2.0], [2.0]), 'at least two'),
        (lambda: metrics.independent_interval([1.0, np.inf], [2.0, 2.0]), 'finite'),
        (lambda: metrics.independent_interval([1.0, 2], [2.0, 2], level=0), 'level'),
        (lambda: metrics.bootstrap_interval([1.0], seed=0, num_samples=0), 'samples'),
        (lambda: metrics.bootstrap_interval([[1.0]], seed=0, num_samples=9), 'shape'),
        (
            lambda: metrics.bootstrap_interval([1.0], seed=0, num_samples=9, level=1),
            'level',
        ),
    ],
)
def test_bad_arguments_of_intervals_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_of_finished_runs_start_without_jax():
    code = "import sys, passk_jax.evaluation.metrics; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0
