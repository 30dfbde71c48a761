"""What an estimator remembers from step to step, in a run."""

import shutil

import numpy as np
import pytest

from passk_jax import train
from passk_jax.report.run_data import read_run
from passk_jax.report.write import write_report
from tests import tiny
from tests.advantages.history_test import by_lists
from tests.slow import slow_values

LAST, BORDER, WINDOW, N = 5, 2, 2, 4
SETTINGS = {
    'advantage__name': 'curverl',
    'advantage__window': WINDOW,
    'eval__every': 0,
    'eval__final_split': '',
    'checkpoint__every': 1,
    'checkpoint__keep': LAST + 1,
    'log__rollouts_every': 1,
    'log__diagnostics_every': 2,
    # So that pass rates are of all kinds.
    'sampling__temperature': 1.5,
}
# Another estimator first, whose problems without a signal are replaced; as are later
# those that have a new pass rate.
STAGED = {
    'advantage__name': 'pass_at_1',
    'train__dynamic_sampling_rounds': 2,
    'stages': {
        'of_late': {
            'start': BORDER,
            'reset_optimizer': False,
            'advantage': {'name': 'curverl'},
        }
    },
}


def make_config(**overrides):
    return tiny.make_config(**SETTINGS | overrides)


@pytest.fixture(scope='module')
def reference_run(finished_run, tmp_path_factory):
    """An uninterrupted run."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('whole'))
    assert tiny.run(make_config(), workdir)
    return workdir


@pytest.fixture(scope='module')
def staged(finished_run, tmp_path_factory):
    """An uninterrupted run of two stages, with dynamic sampling."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('staged'))
    assert tiny.run(make_config(**STAGED), workdir)
    return workdir


def by_problem(workdir, step, name):
    """``[P, N]`` of what the rollouts of a step say."""
    rows = tiny.read_lines(workdir / 'rollouts' / f'step_{step:08d}.jsonl')
    groups = {}
    for row in rows:
        groups.setdefault(row['problem_id'], []).append(row[name])
    return np.array(list(groups.values()))


def counts_of(correct):
    return np.bincount(correct.sum(axis=1), minlength=N + 1)


def history_at(workdir, step):
    """The memory in the checkpoint of a step, if it has one."""
    arrays = tiny.saved_arrays(workdir, step)
    (history,) = [x for name, x in arrays.items() if name.startswith('memory/')] or [[]]
    return history


def test_a_step_is_weighed_by_the_steps_before_it(reference_run):
    batches = [by_problem(reference_run, step, 'correct') for step in range(LAST)]
    expected = by_lists(batches, WINDOW)
    for step, want in enumerate(expected):
        got = by_problem(reference_run, step, 'advantage')
        np.testing.assert_allclose(got, want, atol=1e-5)
    # Otherwise than by their own step, and they move the policy.
    alone = by_lists(batches[-1:], WINDOW)[0]
    assert expected[-1].any()
    assert not np.allclose(expected[-1], alone)
    assert tiny.metrics(reference_run, 'train')[-1]['grad_norm'] > 0


def test_a_checkpoint_has_the_steps_of_the_window(reference_run):
    counts = [
        counts_of(by_problem(reference_run, step, 'correct')) for step in range(LAST)
    ]
    padded = np.concatenate([np.zeros((WINDOW, N + 1), int), counts])
    for step in range(LAST + 1):
        expected = padded[step : step + WINDOW]
        np.testing.assert_array_equal(history_at(reference_run, step), expected)


@pytest.mark.parametrize(
    'kind', slow_values(['reference_run', 'staged'], quick=['reference_run'])
)
def test_stopped_before_every_step_it_ends_the_same(
    kind, finished_run, tmp_path, request
):
    config = make_config(**STAGED if kind == 'staged' else {})
    workdir = tiny.warm_copy(finished_run, tmp_path)
    with tiny.stop_once_before_every_step():
        for _ in range(LAST + 1):
            assert not tiny.run(config, workdir)
        assert tiny.run(config, workdir)
    tiny.assert_same_run(workdir, request.getfixturevalue(kind), last=LAST)


def test_a_stage_begins_with_an_empty_memory_and_others_have_none(staged, finished_run):
    for step in range(BORDER):
        assert not len(history_at(staged, step))
    assert history_at(staged, BORDER).shape == (WINDOW, N + 1)
    assert not history_at(staged, BORDER).any()
    # The layout of older checkpoints, which had no memory, so they stay readable.
    names = {path.name for path in (finished_run / 'checkpoints' / '5').iterdir()}
    assert names >= {'params', 'opt_state', 'commit.json'}
    assert 'memory' not in names


def test_dynamic_sampling_leaves_what_it_selects_out_of_the_memory(staged):
    """Each row has the problems that the step would have had without it."""
    draws = [row['sampling_draws'] for row in tiny.metrics(staged, 'train')]
    assert max(draws[BORDER:]) > 1
    for step in range(BORDER, LAST):
        newest = history_at(staged, step + 1)[-1]
        assert newest.sum() == 8
        first = tiny.metrics(staged, 'train')[step]
        assert newest @ np.arange(N + 1) / (8 * N) == pytest.approx(first['reward'])


def test_a_diagnosis_has_its_gradient_too(reference_run):
    lines = tiny.read_lines(reference_run / 'diagnostics.jsonl')
    assert [line['step'] for line in lines] == [0, 2, 4]
    assert all('gradient_signal/curverl' in line for line in lines)
    assert lines[-1]['gradient_noise/curverl'] > 0


def test_the_report_draws_a_curve_and_says_of_what(reference_run, tmp_path):
    shutil.copytree(reference_run, tmp_path / 'run')
    assert read_run(tmp_path / 'run').option('advantage.window') == WINDOW
    html = write_report(tmp_path / 'run').read_text()
    assert 'Advantage, curverl (window=2)' in html
    assert 'which gives the curve of maxrl over N' in html


def test_its_weight_cannot_be_matched(tmp_path):
    config = make_config(advantage__match_weight_at=0.1)
    words = 'advantage.match_weight_at: curverl has no fixed weight'
    with pytest.raises(ValueError, match=words):
        train.main(config=config, workdir=str(tmp_path / 'none'))
    assert not (tmp_path / 'none').exists()
