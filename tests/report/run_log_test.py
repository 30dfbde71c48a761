"""What a run says of itself as it goes."""

import contextlib
import dataclasses
import time
import types
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax.errors import NonFiniteError
from passk_jax.report import reporter, run_log
from passk_jax.rollouts.dynamic_sampling import Draw, Draws
from passk_jax.rollouts.verify import Responses
from passk_jax.train import make_log
from passk_jax.types import Problem, Verdicts
from tests import tiny

CORRECT = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
ADVANTAGES = np.array(
    [[1, 1, -1, -1], [0, 0, 0, 0], [1.5, -0.5, -0.5, -0.5], [0, 0, 0, 0]], np.float32
)

# One wrong response is rewarded.
REWARDED = CORRECT | (np.arange(16).reshape(4, 4) == 6)


def make_problems():
    return [
        Problem(id=id, prompt='S.E\n', data={'maze': 'S.E'}, category='3x3')
        for id in (3, 1, 4, 5)
    ]


def make_responses():
    lengths = np.array([4, 4, 5, 6]), np.array([[1, 2, 3, 4]] * 4)
    zeros = np.zeros((4, 4), np.float32)
    texts = [['R'] * 4] * 4
    verdicts = Verdicts(CORRECT.astype(np.float32), CORRECT, texts)
    return Responses(*lengths, lengths[1] < 4, zeros, zeros, texts, verdicts)


def make_draws(count=1, selected=False, **trained):
    """A step's own problems, of which those that are trained differ in these."""
    arrays = jax.numpy.asarray(ADVANTAGES), jax.numpy.asarray(REWARDED)
    draw = Draw(make_problems(), make_responses(), *arrays)
    trained = dataclasses.replace(draw, **trained) if trained else draw
    return Draws(draw, trained, selected, (draw.responses,) * count)


def step_metrics(loss=0.5, problem_loss=(0.5, 0, 0, 0), finite_updates=(True,)):
    return {
        'loss': np.float32(loss),
        'entropy': np.float32(1.25),
        'padding': np.float32(0.5),
        # Of one epoch.
        'problem_loss': np.array([problem_loss], np.float32),
        'finite_updates': np.array([finite_updates]),
    }


def test_a_batch_is_described_as_a_hand_does_it():
    values = run_log.batch_metrics(make_draws().first, ks=(2,), mask_truncated=False)
    assert values == pytest.approx(
        {
            'reward': 7 / 16,
            'response_length': 2.5,
            'stopped': 0.75,
            'no_answer': 0.0,
            'mean_abs_advantage': 7 / 16,
            # The columns have 1, 2, 3 and 4 tokens.
            'response_length_right': (1 + 1 + 1 + 2 + 2 + 3 + 4) / 7,
            'response_length_wrong': (1 + 2 + 2 + 3 + 3 + 3 + 4 + 4 + 4) / 9,
            'unsolved_problems': 0.25,
            'mixed_problems': 0.5,
            'all_right_problems': 0.25,
            **dict.fromkeys(('zero_signal_problems', 'equal_reward_problems'), 0.5),
            'pass_at_1': 7 / 16,
            # 1 - C(n - c, 2) / C(4, 2) of 2, 0, 1 and 4 right.
            'pass_at_2': (5 / 6 + 0 + 1 / 2 + 1) / 4,
        }
    )


def test_categories_and_parts_are_described_by_their_own_problems():
    """Of four problems 2, 0, 1 and 4 of 4 responses are right."""
    names = ('mazes/5x5', 'sudoku', 'mazes/7x7', 'mazes/5x5')
    first = make_draws().first
    problems = [
        dataclasses.replace(problem, category=name)
        for problem, name in zip(first.problems, names, strict=True)
    ]
    values = run_log.category_metrics(
        dataclasses.replace(first, problems=problems), ks=(2,)
    )
    expected = {
        'mazes': (3, 7 / 12, (5 / 6 + 1 / 2 + 1) / 3),
        'mazes/5x5': (2, 6 / 8, (5 / 6 + 1) / 2),
        'mazes/7x7': (1, 1 / 4, 1 / 2),
        'sudoku': (1, 0, 0),
    }
    assert values == pytest.approx(
        {
            f'{name}/{figure}': value
            for name, (count, rate, pass_at_2) in expected.items()
            for figure, value in {
                'problems': count,
                'reward': rate,
                'pass_at_1': rate,
                'pass_at_2': pass_at_2,
            }.items()
        }
    )


def test_lengths_of_no_responses_are_undefined():
    responses = make_responses()
    nothing = np.zeros((4, 4), np.float32)
    wrong = Verdicts(nothing, nothing.astype(bool), [[''] * 4] * 4)
    draw = make_draws(responses=dataclasses.replace(responses, verdicts=wrong)).trained
    values = run_log.batch_metrics(draw, ks=(2,), mask_truncated=False)
    assert np.isnan(values['response_length_right'])
    assert values['response_length_wrong'] == values['response_length'] == 2.5


def test_an_advantage_that_is_not_trained_is_no_signal():
    """Each last response is cut off, and of problem 1 no other has an advantage."""
    advantages = ADVANTAGES.copy()
    advantages[1, 3] = 1
    draw = make_draws(advantages=jax.numpy.asarray(advantages)).trained
    for masked, expected in ((False, 0.25), (True, 0.5)):
        values = run_log.batch_metrics(draw, ks=(2,), mask_truncated=masked)
        assert values['zero_signal_problems'] == expected


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_loss_that_is_not_finite_names_step_and_problems(value):
    values = step_metrics(problem_loss=(0, value, 0, value), finite_updates=(False,))
    with pytest.raises(
        NonFiniteError, match=r'at step 7, update 0, from problems \[1, 5\]'
    ):
        run_log.check_finite(values, make_problems(), 7)


def test_only_the_first_update_that_went_wrong_is_blamed():
    """Of two updates the second takes every second problem; later ones suffer."""
    values = step_metrics(problem_loss=(0, np.nan, np.nan, 0))
    values['finite_updates'] = np.array([[True, False]])
    with pytest.raises(NonFiniteError, match=r'update 1, from problems \[1\]'):
        run_log.check_finite(values, make_problems(), 7)
    values['finite_updates'] = np.array([[False, False]])
    with pytest.raises(NonFiniteError, match=r'update 0, from problems \[4\]'):
        run_log.check_finite(values, make_problems(), 7)


def test_the_epoch_that_went_wrong_is_blamed():
    """In the second of two epochs, and all that follows suffers from it."""
    values = step_metrics() | {
        'problem_loss': np.array([[0, 0, 0, 0], [0, np.nan, np.nan, 0]]),
        'finite_updates': np.array([[True, True], [False, False]]),
    }
    with pytest.raises(NonFiniteError, match=r'update 2, from problems \[4\]'):
        run_log.check_finite(values, make_problems(), 7)


def test_where_no_problem_is_to_blame_it_says_so():
    with pytest.raises(NonFiniteError, match='no single problem'):
        run_log.check_finite(step_metrics(finite_updates=(False,)), make_problems(), 7)


def test_finite_figures_pass():
    run_log.check_finite(step_metrics(), make_problems(), 7)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log from step 0, and the pictures it draws, counted."""
    drawn = []
    monkeypatch.setattr(reporter, 'write_curves', lambda run: drawn.append('curves'))
    monkeypatch.setattr(reporter, 'write_report', lambda run: drawn.append('report'))
    log = make_log(tiny.make_config(), tmp_path, 0)
    log.drawn = drawn
    return log


def take_step(log, step, draws=None, **metrics):
    metrics = jax.tree.map(jax.numpy.asarray, step_metrics(**metrics))
    log.step(step, draws or make_draws(), metrics)


def test_a_step_is_written_when_the_next_is_under_way(log, tmp_path):
    with log:
        take_step(log, 0)
        assert (tmp_path / 'metrics.jsonl').read_text() == ''
        take_step(log, 1)
        assert [r['step'] for r in tiny.metrics(tmp_path, 'train')] == [0]
        log.flush()
        assert [r['step'] for r in tiny.metrics(tmp_path, 'train')] == [0, 1]
        log.flush()
    rows = tiny.metrics(tmp_path, 'train')
    assert [row['step'] for row in rows] == [0, 1]
    assert (rows[0]['reward'], rows[0]['entropy']) == (7 / 16, 1.25)
    assert not rows[0].keys() & {'problem_loss', 'finite_updates'}


def test_a_bad_step_is_not_written(log, tmp_path):
    with log:
        take_step(log, 0)
        take_step(log, 1, problem_loss=(0, 0, np.nan, 0), finite_updates=(False,))
        with pytest.raises(NonFiniteError, match=r'at step 1, .* problems \[4\]'):
            log.flush()
    assert [row['step'] for row in tiny.metrics(tmp_path, 'train')] == [0]


def test_rollouts_are_kept_of_every_second_step(log, tmp_path):
    with log:
        for step in range(4):
            take_step(log, step)
        log.flush()
    files = sorted(path.name for path in (tmp_path / 'rollouts').iterdir())
    assert files == ['step_00000000.jsonl', 'step_00000002.jsonl']
    rows = tiny.read_lines(tmp_path / 'rollouts' / files[1])
    assert [row['advantage'] for row in rows] == ADVANTAGES.reshape(-1).tolist()
    assert {row['step'] for row in rows} == {2}
    assert [row['rewarded'] for row in rows] == REWARDED.reshape(-1).tolist()
    assert [row['correct'] for row in rows] == CORRECT.reshape(-1).tolist()


def test_timings_beside_the_metrics_count_the_tokens_of_all_draws(log, tmp_path):
    with log:
        take_step(log, 0)
        take_step(log, 1, make_draws(count=3))
        log.flush()
    rows = tiny.read_lines(tmp_path / 'timing.jsonl')
    for row, tokens in zip(rows, (40, 120), strict=True):
        assert row['seconds'] > 0
        assert row['tokens_per_second'] == pytest.approx(tokens / row['seconds'])


def test_the_seconds_of_a_step_are_those_of_its_phases(log, tmp_path):
    with log:
        for step in range(2):
            log.begin('decode', step)
            time.sleep(0.02)
            log.begin('write', step)
            take_step(log, step)
        log.flush()
    first, second = tiny.read_lines(tmp_path / 'timing.jsonl')
    for row in (first, second):
        assert 0 < row.pop('cpu_seconds') < 10
        assert sum(row[name] for name in row if name.endswith('_seconds')) == (
            pytest.approx(row['seconds'])
        )
        assert 0.02 <= row['decode_seconds'] < row['seconds']


def test_an_evaluation_is_no_part_of_a_steps_time(log, tmp_path):
    start = time.monotonic()
    with log:
        take_step(log, 0)
        log.begin('update', 1)
        time.sleep(0.02)
        log.begin('evaluate', 1)
        time.sleep(0.2)
        log.report()
        log.begin('decode', 1)
        take_step(log, 1)
        log.flush()
    rows = tiny.read_lines(tmp_path / 'timing.jsonl')
    assert rows[-1]['seconds'] < time.monotonic() - start - 0.2
    # What was waited for before it is one.
    assert rows[-1]['update_seconds'] > 0.02


def test_whom_the_others_waited_for_is_beside_the_timings(log, tmp_path):
    with log:
        log.begin('wait', 0)
        time.sleep(0.02)
        # As another process would be heard.
        log._phases._whereabouts.note(1, 'wait', 0, 'there')
        take_step(log, 0)
        log.flush()
    (row,) = tiny.read_lines(tmp_path / 'timing.jsonl')
    # Half of the time between the two: the median is between them too.
    assert row['slowest_process'] == 1
    assert row['slowest_behind'] > 0.005


def test_a_run_that_ends_badly_ends_its_watchdog(log, monkeypatch):
    def full():
        raise OSError('no space')

    monkeypatch.setattr(log._writer, 'close', full)
    with pytest.raises(OSError, match='no space'), log:
        take_step(log, 0)
    assert log._phases._is_over.is_set()


def test_the_most_memory_of_the_fullest_device_counts(monkeypatch):
    assert run_log.memory_high_water().keys() == {'host_bytes'}
    assert run_log.memory_high_water()['host_bytes'] > 50 << 20
    stats = [{'peak_bytes_in_use': 5}, {'peak_bytes_in_use': 7}, {}, None]
    devices = [types.SimpleNamespace(memory_stats=lambda x=x: x) for x in stats]
    monkeypatch.setattr(jax, 'local_devices', lambda: devices)
    assert run_log.memory_high_water()['device_bytes'] == 7


def other_draws():
    """Trained are other problems, of which more are solved."""
    problems = [dataclasses.replace(x, id=x.id + 10) for x in make_problems()]
    responses = make_responses()
    parsed = responses.verdicts.parsed
    verdicts = Verdicts(np.ones((4, 4), np.float32), ~CORRECT, parsed)
    return make_draws(
        count=2,
        selected=True,
        problems=problems,
        responses=dataclasses.replace(responses, verdicts=verdicts),
        advantages=jax.numpy.asarray(-ADVANTAGES),
    )


def test_what_was_trained_has_metrics_of_its_own_and_is_what_is_kept(log, tmp_path):
    draws = other_draws()
    with log:
        take_step(log, 0, draws)
        log.flush()
    (row,) = tiny.metrics(tmp_path, 'train')
    for prefix, draw in (('', draws.first), ('trained_', draws.trained)):
        metrics = run_log.batch_metrics(draw, ks=(2,), mask_truncated=False)
        assert metrics == {name: row[prefix + name] for name in metrics}
    assert (row['reward'], row['trained_reward']) == (7 / 16, 1)
    assert row['sampling_draws'] == 2
    rows = tiny.read_lines(tmp_path / 'rollouts' / 'step_00000000.jsonl')
    assert [x['problem_id'] for x in rows[::4]] == [13, 11, 14, 15]
    assert [x['advantage'] for x in rows] == (-ADVANTAGES).reshape(-1).tolist()
    with pytest.raises(NonFiniteError, match=r'problems \[14\]'), log:  # noqa: PT012
        bad = {'problem_loss': (0, 0, np.nan, 0), 'finite_updates': (False,)}
        take_step(log, 1, draws, **bad)
        log.flush()


def test_without_dynamic_sampling_no_metric_says_what_was_trained(log, tmp_path):
    with log:
        take_step(log, 0)
        log.flush()
    (row,) = tiny.metrics(tmp_path, 'train')
    assert not [name for name in row if name.startswith(('trained_', 'sampling_'))]


def test_an_evaluation_has_its_line_its_records_and_new_pictures(log, tmp_path):
    values = {'pass_at_1': 0.25, 'pass_at_2': 0.5, 'pass_at_4': 0.75}
    with log:
        log.evaluation(10, 'validation', values, [{'problem_id': 3, 'n': 4, 'c': 1}])
        log.report()
        log._reporter.finish()
        assert log.drawn == ['curves', 'report']
    assert log.drawn == ['curves', 'report'], 'nothing new since'
    (row,) = tiny.metrics(tmp_path, 'validation')
    assert row == {'step': 10, 'stage': 0, 'split': 'validation', **values}
    path = tmp_path / 'evaluation' / 'validation_step_00000010.jsonl'
    assert tiny.read_lines(path) == [{'problem_id': 3, 'n': 4, 'c': 1}]


def test_the_pictures_are_new_when_a_run_ends_by_an_error(log):
    with contextlib.suppress(KeyError), log:
        take_step(log, 0)
        log.flush()
        raise KeyError
    assert log.drawn == ['curves', 'report']


@pytest.mark.parametrize('error', [ValueError, OSError])
def test_whatever_fails_while_leaving_does_not_hide_why_a_run_ended(
    log, monkeypatch, caplog, error
):
    def fail(*_):
        raise error('no disk')

    monkeypatch.setattr(reporter, 'write_report', fail)
    monkeypatch.setattr(log._progress, '__exit__', fail, raising=False)
    monkeypatch.setattr(log._writer, 'close', fail)
    with pytest.raises(KeyError), log:  # noqa: PT012
        take_step(log, 0)
        log.flush()
        raise KeyError
    assert caplog.text.count('no disk') == 3


def test_a_report_that_cannot_be_written_is_a_warning(log, monkeypatch, caplog):
    fail = mock.Mock(side_effect=ValueError('no curves'))
    monkeypatch.setattr(reporter, 'write_curves', fail)
    with log:
        take_step(log, 0)
        log.flush()
    assert caplog.text.count('curves.png is not up to date: ValueError: no curves') == 1
    assert log.drawn == ['report']
    assert log._writer._streams['metrics'].closed
