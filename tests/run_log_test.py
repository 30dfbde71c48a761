"""What a run says of itself as it goes."""

import contextlib

import jax
import numpy as np
import pytest

from passk_jax import run_log
from passk_jax.rollout import Answers
from passk_jax.run_log import RunLog
from passk_jax.types import Problem, Verdicts
from tests import tiny

CORRECT = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
ADVANTAGES = np.array(
    [[1, 1, -1, -1], [0, 0, 0, 0], [1.5, -0.5, -0.5, -0.5], [0, 0, 0, 0]], np.float32
)


def make_problems():
    return [
        Problem(id=id, prompt='S.E\n', data={'maze': 'S.E'}, category='3x3')
        for id in (3, 1, 4, 5)
    ]


def make_answers():
    lengths = np.array([[1, 2, 3, 4]] * 4, np.int32)
    zeros = np.zeros((4, 4), np.float32)
    texts = [['R'] * 4] * 4
    verdicts = Verdicts(CORRECT.astype(np.float32), CORRECT, texts)
    return Answers(lengths, lengths < 4, zeros, zeros, texts, verdicts)


def step_metrics(loss=0.5, problem_loss=(0.5, 0, 0, 0), finite_updates=(True,)):
    return {
        'loss': np.float32(loss),
        'entropy': np.float32(1.25),
        'problem_loss': np.array(problem_loss, np.float32),
        'finite_updates': np.array(finite_updates),
    }


def test_a_batch_is_described_as_a_hand_does_it():
    values = run_log.batch_metrics(tiny.make_config(), make_answers(), ADVANTAGES)
    assert values == pytest.approx(
        {
            'reward': 7 / 16,
            'response_length': 2.5,
            'stopped': 0.75,
            'mean_abs_advantage': 7 / 16,
            'unsolved_problems': 0.25,
            'zero_signal_problems': 0.5,
            'pass_at_1': 7 / 16,
            # 1 - C(n - c, 2) / C(4, 2) of 2, 0, 1 and 4 right.
            'pass_at_2': (5 / 6 + 0 + 1 / 2 + 1) / 4,
        }
    )


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_loss_that_is_not_finite_names_step_and_problems(value):
    values = step_metrics(problem_loss=(0, value, 0, value), finite_updates=(False,))
    with pytest.raises(
        FloatingPointError, match=r'at step 7, update 0, from problems \[1, 5\]'
    ):
        run_log.check_finite(values, make_problems(), 7)


def test_only_the_first_update_that_went_wrong_is_blamed():
    """Of two updates the second takes every second problem; later ones suffer."""
    values = step_metrics(problem_loss=(0, np.nan, np.nan, 0))
    values['finite_updates'] = np.array([True, False])
    with pytest.raises(FloatingPointError, match=r'update 1, from problems \[1\]'):
        run_log.check_finite(values, make_problems(), 7)
    values['finite_updates'] = np.array([False, False])
    with pytest.raises(FloatingPointError, match=r'update 0, from problems \[4\]'):
        run_log.check_finite(values, make_problems(), 7)


def test_where_no_problem_is_to_blame_it_says_so():
    with pytest.raises(FloatingPointError, match='no single problem'):
        run_log.check_finite(step_metrics(finite_updates=(False,)), make_problems(), 7)


def test_finite_figures_pass():
    run_log.check_finite(step_metrics(), make_problems(), 7)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log from step 0, and the pictures it draws, counted."""
    drawn = []
    monkeypatch.setattr(run_log, 'write_curves', lambda path: drawn.append('curves'))
    monkeypatch.setattr(run_log, 'write_report', lambda path: drawn.append('report'))
    setup = tiny.make_setup(tiny.make_config())
    log = RunLog(setup, tmp_path, 0)
    log.drawn = drawn
    return log


def take_step(log, step, **metrics):
    log.step(
        step,
        make_problems(),
        make_answers(),
        jax.numpy.asarray(ADVANTAGES),
        jax.tree.map(jax.numpy.asarray, step_metrics(**metrics)),
    )


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
        with pytest.raises(FloatingPointError, match=r'at step 1, .* problems \[4\]'):
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


def test_timings_are_beside_the_metrics(log, tmp_path):
    with log:
        take_step(log, 0)
        log.flush()
    (row,) = tiny.read_lines(tmp_path / 'timing.jsonl')
    assert row['seconds'] > 0
    assert row['tokens_per_second'] == pytest.approx(40 / row['seconds'])


def test_an_evaluation_has_its_line_its_records_and_new_pictures(log, tmp_path):
    values = {'pass_at_1': 0.25, 'pass_at_2': 0.5, 'pass_at_4': 0.75}
    with log:
        log.evaluation(0, 'validation', values, [{'problem_id': 3, 'n': 4, 'c': 1}])
        assert log.drawn == ['curves', 'report']
    assert log.drawn == ['curves', 'report'], 'nothing new since'
    (row,) = tiny.metrics(tmp_path, 'validation')
    assert row == {'step': 0, 'split': 'validation', **values}
    path = tmp_path / 'evaluation' / 'validation_step_00000000.jsonl'
    assert tiny.read_lines(path) == [{'problem_id': 3, 'n': 4, 'c': 1}]


def test_the_pictures_are_new_when_a_run_ends_by_an_error(log):
    with contextlib.suppress(KeyError), log:
        take_step(log, 0)
        log.flush()
        raise KeyError
    assert log.drawn == ['curves', 'report']


def test_a_report_that_fails_does_not_hide_why_a_run_ended(log, monkeypatch):
    def fail(path):
        raise ValueError('no report')

    monkeypatch.setattr(run_log, 'write_report', fail)
    with pytest.raises(KeyError), log:  # noqa: PT012
        take_step(log, 0)
        log.flush()
        raise KeyError
