"""Evaluation: each problem once, the same responses whatever the batches are."""

import dataclasses
import math
import types
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax.evaluation import evaluate, majority, metrics
from passk_jax.rollouts.sample import Sample
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.types import Problem
from tests import tiny
from tests.slow import slow_values


def row(category, c, *, n=4, diversity=0.5, entropy=1.0, length=3.0, stopped=1.0):
    return dict.fromkeys(evaluate.PROBLEM_METRICS) | {
        'problem_id': 0,
        'category': category,
        'n': n,
        'c': c,
        # Every wrong answer is the same one.
        'parsed': ['right'] * c + ['wrong'] * (n - c),
        'correct': [True] * c + [False] * (n - c),
        'reward': c / n - 0.5,
        'answer_diversity': diversity,
        'rarefied_diversity': diversity and 4 * diversity,
        'entropy': entropy,
        'response_length': length,
        'response_length_right': length + 1 if c else None,
        'response_length_wrong': length - 1 if c < n else None,
        'stopped': stopped,
        'no_answer': 1 - stopped,
    }


ROWS = [
    row('3x3', 0, diversity=0.25),
    row('3x3', 2, diversity=0.75, entropy=2.0, length=5.0),
    row('4x4', 1, diversity=0.5, stopped=0.5),
    row('4x4', 4, diversity=None),
]


def test_a_summary_is_what_a_hand_computes():
    values = evaluate.summarize(ROWS, seed=0, bootstrap_samples=10)
    expected = {
        'num_problems': 4,
        # c / n, and 1 - C(n - c, k) / C(n, k).
        'pass_at_1': (0 + 0.5 + 0.25 + 1) / 4,
        'pass_at_2': (0 + (1 - 1 / 6) + (1 - 3 / 6) + 1) / 4,
        'pass_at_4': (0 + 1 + 1 + 1) / 4,
        '3x3/pass_at_1': 0.25,
        '3x3/pass_at_4': 0.5,
        '4x4/pass_at_1': 0.625,
        '4x4/pass_at_4': 1.0,
        # The majority of 0, 2, 1 and 4 right of 4, a tie half: of two, as of one.
        'maj_at_1': (0 + 0.5 + 0.25 + 1) / 4,
        'maj_at_2': (0 + 0.5 + 0.25 + 1) / 4,
        'maj_at_4': (0 + 0.5 + 0 + 1) / 4,
        # C(c, k) / C(n, k).
        'pass_hat_1': (0 + 0.5 + 0.25 + 1) / 4,
        'pass_hat_2': (0 + 1 / 6 + 0 + 1) / 4,
        'pass_hat_4': (0 + 0 + 0 + 1) / 4,
        'cover_at_0.25': 3 / 4,
        'cover_at_0.5': 2 / 4,
        'cover_at_0.6': 1 / 4,
        'cover_at_0.75': 1 / 4,
        'cover_at_1.0': 1 / 4,
        # Over the 4 * 14 tokens, not over responses.
        'entropy': (1 * 3 + 2 * 5 + 1 * 3 + 1 * 3) / 14,
        'response_length': 3.5,
        # Means over the three problems with a right (wrong) response.
        'response_length_right': (6 + 4 + 4) / 3,
        'response_length_wrong': (2 + 4 + 2) / 3,
        'stopped': 0.875,
        'no_answer': 0.125,
        'reward': (-0.5 + 0 - 0.25 + 0.5) / 4,
        # Means over the three problems with a wrong response.
        'answer_diversity': 0.5,
        'rarefied_diversity': 2.0,
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value), name
    intervals = {f'pass_at_{k}_{end}' for k in (1, 2, 4) for end in ('low', 'high')}
    # Metrics of answers that this test does not compute by hand.
    unlisted = {
        metric
        for name in evaluate.ANSWER_METRICS
        if not any(key.startswith(f'{name}_') for key in expected)
        for metric in values
        if metric.startswith(f'{name}_')
    }
    assert values.keys() - unlisted == expected.keys() | intervals


def test_an_interval_is_the_bootstrap_over_problems():
    values = evaluate.summarize(ROWS, seed=3, bootstrap_samples=200)
    low, high = metrics.bootstrap_interval(
        np.array([0, 0.5, 0.25, 1]), seed=3, num_samples=200
    )
    assert (values['pass_at_1_low'], values['pass_at_1_high']) == (low, high)
    assert low < values['pass_at_1'] < high


@pytest.mark.parametrize(('n', 'powers'), [(1, [1]), (6, [1, 2, 4]), (8, [1, 2, 4, 8])])
def test_every_power_of_two_up_to_n_is_there(n, powers):
    rows = [row('3x3', 1, n=n), row('3x3', 0, n=n)]
    values = evaluate.summarize(rows, seed=0, bootstrap_samples=10)
    ks = [int(name[8:]) for name in values if name[8:].isdigit()]
    assert ks == powers


def test_diversity_is_left_out_where_no_response_is_wrong():
    rows = [row('3x3', 4, diversity=None)]
    values = evaluate.summarize(rows, seed=0, bootstrap_samples=10)
    assert not {'answer_diversity', 'rarefied_diversity'} & values.keys()
    assert all(math.isfinite(value) for value in values.values())


def run_evaluation(*, split='validation', step=2, **overrides):
    """Metrics and records of random parameters on the validation problems.

    ``split`` is only the name by which the random keys are addressed.
    """
    setup = tiny.make_setup(tiny.make_config(init__kind='scratch', **overrides))
    with jax.set_mesh(setup.mesh):
        params, batches = (
            setup.initial_params(None),
            setup.evaluation_batches('validation'),
        )
        return setup.evaluate()(params, batches, split=split, step=step)


@pytest.fixture(scope='module')
def evaluated():
    return run_evaluation()


def test_a_long_evaluation_shows_its_progress_and_begins_each_batch():
    setup = tiny.make_setup(tiny.make_config(init__kind='scratch', eval__batch_size=4))
    on_progress = mock.Mock()
    with (
        jax.set_mesh(setup.mesh),
        mock.patch.object(evaluate.Progress, 'update') as update,
    ):
        setup.evaluate()(
            setup.initial_params(None),
            setup.evaluation_batches('validation'),
            split='validation',
            step=2,
            stop=lambda: False,
            on_progress=on_progress,
        )
    assert update.mock_calls == [mock.call(4), mock.call(6)]
    assert on_progress.call_count == 2


@pytest.mark.parametrize('calls', [0, 1, 2, 3])
def test_an_evaluation_stops_within_a_batch(calls):
    setup = tiny.make_setup(tiny.make_config(init__kind='scratch', eval__batch_size=4))
    answers, sample = iter([False] * calls + [True]), Sample.__call__

    def hand_over_once(self, *args, on_progress, **kwargs):
        on_progress()
        return sample(self, *args, **kwargs)

    with (
        jax.set_mesh(setup.mesh),
        mock.patch.object(Sample, '__call__', hand_over_once),
    ):
        params, batches = (
            setup.initial_params(None),
            setup.evaluation_batches('validation'),
        )
        evaluation = setup.evaluate()(
            params, batches, split='validation', step=2, stop=lambda: next(answers)
        )
    assert evaluation is None
    assert not list(answers)


def test_the_names_of_the_metrics_are_known_beforehand(evaluated):
    values, rows = evaluated
    names = {name for name in values if '/' not in name}
    undefined = {
        name
        for name in evaluate.PROBLEM_METRICS
        if all(row[name] is None for row in rows)
    }
    # None is right.
    assert 'response_length_right' in undefined
    names |= undefined
    # Metrics of tasks that the worker pool judges.
    names |= {f'verifier_{kind}' for kind in ('timeouts', 'crashes', 'parse_failures')}
    assert evaluate.metric_names(4) == names


def test_each_problem_is_counted_once_though_the_last_batch_is_filled(evaluated):
    """Six problems in batches of four."""
    values, rows = evaluated
    assert [r['problem_id'] for r in rows] == [0, 1, 2, 3, 4, 5]
    assert [r['category'] for r in rows] == ['3x3'] * 2 + ['4x4'] * 4
    assert values['num_problems'] == 6
    assert all(r['n'] == 4 and 0 <= r['c'] <= 4 for r in rows)


@pytest.mark.parametrize('batch_size', slow_values([0, 1, 3, 6, 8], quick=[0, 3, 6]))
def test_the_batch_size_changes_nothing(batch_size, evaluated):
    values, rows = run_evaluation(eval__batch_size=batch_size)
    before, rows_before = evaluated
    for now, then in zip(rows, rows_before, strict=True):
        assert now.keys() == then.keys()
        # Lengths and counts of four responses: another draw would show here.
        for name in ('problem_id', 'n', 'c', 'response_length', 'answer_diversity'):
            assert now[name] == then[name]
        assert now['entropy'] == pytest.approx(then['entropy'], rel=1e-5)
    assert values == pytest.approx(before, rel=1e-5)


def test_step_and_split_have_their_own_samples_and_a_second_time_the_same(evaluated):
    values, rows = run_evaluation()
    assert (values, rows) == evaluated
    assert run_evaluation(step=4)[1] != rows
    assert run_evaluation(split='test')[1] != rows


def test_a_subset_of_the_problems_has_responses_as_in_the_whole(evaluated):
    _, rows = run_evaluation(eval__num_problems=3)
    assert [row['category'] for row in rows] == ['3x3', '4x4', '4x4']
    for now in rows:
        then = evaluated[1][now['problem_id']]
        for name in ('parsed', 'correct', 'responses'):
            assert now.pop(name) == then[name]
        assert now == pytest.approx({name: then[name] for name in now})


def test_every_answer_is_kept_for_any_k_later(evaluated):
    """The records alone give maj@3 and pass^3, which no metric has."""
    values, rows = evaluated
    parsed, correct = ([row[name] for row in rows] for name in ('parsed', 'correct'))
    assert [sum(verdicts) for verdicts in correct] == [row['c'] for row in rows]
    assert len({answer for answers in parsed for answer in answers}) > 4
    correct = np.array(correct)
    for k in (1, 2, 4):
        mean = majority.maj_at_k(parsed, correct, k=k).mean()
        assert values[f'maj_at_{k}'] == pytest.approx(mean)
    assert majority.maj_at_k(parsed, correct, k=3).shape == (6,)


def test_a_record_tells_its_problem_from_others_of_that_number(evaluated):
    digests = [row['problem_digest'] for row in evaluated[1]]
    assert len({*digests}) == len(digests) == 6
    other_records = run_evaluation(task__params__seed=9)
    assert not {row['problem_digest'] for row in other_records[1]} & {*digests}


def test_neither_words_nor_numbers_make_another_problem():
    one = Problem(3, 'words', {'a': 1, 'b': 2}, 'x')
    same = Problem(4, 'other words', {'b': 2, 'id': 7, 'a': 1}, 'x')
    other = Problem(3, 'words', {'a': 1}, 'x')
    assert evaluate._digest(one) == evaluate._digest(same)
    assert evaluate._digest(one) != evaluate._digest(other)
    assert evaluate._digest(Problem(3, '', {'a': {1: 2, 'b': 3}}, 'x'))
    elsewhere = dataclasses.replace(one, category='y')
    assert evaluate._digest(one) != evaluate._digest(elsewhere)


@pytest.mark.parametrize('count', [0, 3, 8, 64])
def test_whole_responses_are_kept_evenly_of_the_whole_split(count, evaluated):
    _, rows = run_evaluation(eval__kept_responses=count)
    recorded = [(p, int(n)) for p, row in enumerate(rows) for n in row['responses']]
    # Places among the 24 responses to six problems.
    places = {0: [], 3: [0, 8, 16], 8: range(0, 24, 3), 64: range(24)}[count]
    assert recorded == [divmod(place, 4) for place in places]
    for p, n in recorded:
        # ``evaluated`` kept all responses. A parsed answer such as 'DRR' may lack some
        # characters of its response.
        text = evaluated[1][p]['responses'][str(n)]
        assert rows[p]['responses'][str(n)] == text
        assert not set(rows[p]['parsed'][n]) - set(text)
    assert any(text for row in evaluated[1] for text in row['responses'].values())


@pytest.mark.parametrize('batch_size', [4, 5])
def test_failures_of_the_verifier_are_shares_of_all_responses(batch_size, monkeypatch):
    verify = MazeTask.verify

    def failing(self, problems, texts):
        verdicts = verify(self, problems, texts)
        failed = np.array([[problem.id == 2] for problem in problems])
        failures = {'timeouts': failed, 'crashes': failed & False}
        return dataclasses.replace(verdicts, failures=failures)

    monkeypatch.setattr(MazeTask, 'verify', failing)
    values, rows = run_evaluation(eval__batch_size=batch_size)
    assert values['verifier_timeouts'] == 1 / len(rows)
    assert values['verifier_crashes'] == 0


def test_greedy_responses_are_all_the_same():
    _, rows = run_evaluation(eval__temperature=0.0, eval__num_problems=4)
    assert all(r['c'] in (0, 4) for r in rows)
    # One answer given four times.
    assert {r['answer_diversity'] for r in rows} <= {0.25, None}


def test_records_and_metrics_of_a_run_say_the_same(finished_run):
    """Pass@k of the (n, c) on the disk is the pass@k of the metrics."""
    for step in (0, 2, 4, 5):
        rows = tiny.read_lines(
            finished_run / 'evaluation' / f'validation_step_{step:08d}.jsonl'
        )
        (line,) = (
            r for r in tiny.metrics(finished_run, 'validation') if r['step'] == step
        )
        n, c = (np.array([r[name] for r in rows]) for name in 'nc')
        for k in (1, 2, 4):
            mean = metrics.pass_at_k(n, c, k=k).mean()
            assert line[f'pass_at_{k}'] == pytest.approx(mean)
        for size in ('3x3', '4x4'):
            part = np.array([r['category'] == size for r in rows])
            assert line[f'{size}/pass_at_1'] == pytest.approx((c / n)[part].mean())


def test_a_split_that_does_not_exist_is_an_error():
    setup = tiny.make_setup(tiny.make_config())
    with pytest.raises(ValueError, match=r"split 'tset' is none of \['train'"):
        setup.evaluation_batches('tset')


def test_more_problems_than_a_split_has_are_an_error():
    setup = tiny.make_setup(tiny.make_config(eval__num_problems=7))
    with pytest.raises(ValueError, match=r'num_problems=7 of the 6 problems'):
        setup.evaluation_batches('validation')


def test_lengths_are_those_of_the_right_and_of_the_wrong_responses():
    correct = np.array([[True, False, True], [False] * 3, [True] * 3])
    responses = types.SimpleNamespace(
        lengths=np.array([[2, 3, 6], [1, 2, 6], [1, 1, 4]]),
        verdicts=types.SimpleNamespace(correct=correct),
    )
    for name, lengths in (('right', [4, np.nan, 2]), ('wrong', [3, 3, np.nan])):
        metric = evaluate.PROBLEM_METRICS[f'response_length_{name}']
        np.testing.assert_array_equal(metric.compute(responses), lengths)


def test_a_new_metric_of_the_answers_is_one_row(monkeypatch):
    def longest(parsed, correct):
        lengths = np.array([[len(answer) for answer in row] for row in parsed])
        return {k: lengths[:, :k].max(axis=1) for k in (1, correct.shape[1])}

    monkeypatch.setitem(evaluate.ANSWER_METRICS, 'longest_of', longest)
    values, rows = run_evaluation()
    first = np.mean([len(row['parsed'][0]) for row in rows])
    assert values['longest_of_1'] == pytest.approx(first)
    assert values['longest_of_4'] > first


def test_a_new_metric_is_one_row_and_is_in_records_and_means(monkeypatch):
    """Undefined for the first problem of each batch, and weighted by tokens."""

    def length_of_the_longest(responses):
        longest = responses.lengths.max(axis=1).astype(float)
        return np.where(np.arange(len(longest)) == 0, np.nan, longest)

    metric = evaluate.ProblemMetric(length_of_the_longest, over_tokens=True)
    monkeypatch.setitem(evaluate.PROBLEM_METRICS, 'longest', metric)
    values, rows = run_evaluation()
    # Six problems in batches of four.
    assert [row['longest'] is None for row in rows] == [True] + 3 * [False] + [
        True,
        False,
    ]
    rows = [row for row in rows if row['longest'] is not None]
    tokens = [row['n'] * row['response_length'] for row in rows]
    mean = np.average([row['longest'] for row in rows], weights=tokens)
    assert values['longest'] == pytest.approx(mean)


def test_rewards_that_are_numbers_have_their_mean():
    responses = types.SimpleNamespace(
        verdicts=types.SimpleNamespace(rewards=np.array([[0.25, 0.75], [-1.0, 0.0]]))
    )
    rewards = evaluate.PROBLEM_METRICS['reward'].compute(responses)
    np.testing.assert_array_equal(rewards, [0.5, -0.5])
