"""A run that was interrupted ends bit for bit where an uninterrupted one ends.

Here inside one process, at points chosen to the line; train_command_test.py kills real
processes.
"""

import json
import pathlib
import shutil
from typing import Any
from unittest import mock

import pytest

from passk_jax import train
from passk_jax.advantages import ESTIMATORS
from passk_jax.initial import warm_start
from passk_jax.report.run_log import RunLog
from passk_jax.rollouts.verify import Verification
from passk_jax.runs import checkpoints, commits, saving
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.runs.metric_writer import MetricWriter
from tests import tiny
from tests.slow import slow_values

LAST = 5


class Killed(BaseException):
    """Nothing in the package may catch it."""


def kill_at(owner: Any, name: str, call: int):
    """Has the function ``owner.name`` kill the run when it is called so many times."""
    original = getattr(owner, name)
    calls = 0

    def killer(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return original(*args, **kwargs)

    return mock.patch.object(owner, name, killer)


def test_an_uninterrupted_run_writes_each_line_once_in_order(finished_run):
    rows = tiny.read_lines(finished_run / 'metrics.jsonl')
    assert [(row['step'], row['split']) for row in rows] == [
        (0, 'validation'),
        (0, 'test'),
        (0, 'train'),
        (1, 'train'),
        (2, 'validation'),
        (2, 'train'),
        (3, 'train'),
        (4, 'validation'),
        (4, 'train'),
        (5, 'validation'),
        (5, 'test'),
    ]


def test_two_runs_in_two_directories_are_the_same_bytes(finished_run, tmp_path):
    assert tiny.run(tiny.make_config(), tmp_path)
    tiny.assert_same_run(tmp_path, finished_run, last=LAST)


def test_metrics_hold_no_timing(finished_run):
    rows = tiny.read_lines(finished_run / 'metrics.jsonl')
    names = {name for row in rows for name in row}
    assert not [n for n in names if 'second' in n or 'time' in n or 'date' in n]
    timing = tiny.read_lines(finished_run / 'timing.jsonl')
    assert [row['step'] for row in timing] == list(range(LAST))
    phases = {'decode', 'verify', 'gather', 'estimate', 'update', 'write'}
    assert timing[1].keys() >= {f'{name}_seconds' for name in phases}
    for row in timing:
        # On one device, whose peak nobody knows.
        assert row['tokens_per_second_per_chip'] == row['tokens_per_second']
        assert 'mfu' not in row


def test_stopping_before_every_step_changes_nothing(finished_run, tmp_path):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    with tiny.stop_once_before_every_step():
        for step in range(LAST + 1):
            assert not tiny.run(tiny.make_config(), workdir)
            saved = Checkpoints(workdir / 'checkpoints', keep=2).latest_step()
            assert saved == step
        assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=LAST)


def interrupted_at(call):
    """Patches the guard to report a signal from the ``call``-th call on."""
    calls = 0

    def interrupted(self):
        nonlocal calls
        calls += 1
        return calls >= call

    return mock.patch.object(train.PreemptionGuard, 'interrupted', interrupted)


@pytest.mark.slow
def test_told_to_stop_in_a_warm_start_or_an_evaluation_it_leaves_there(
    finished_run, tmp_path
):
    saved = Checkpoints(tmp_path / 'checkpoints', keep=2)
    with interrupted_at(7), mock.patch.object(train.Phases, 'begin') as begin:
        assert not tiny.run(tiny.make_config(), tmp_path)
    # Each of its steps is watched.
    assert [x.args for x in begin.mock_calls] == [('warm start', i) for i in range(7)]
    assert not list((tmp_path / 'warm_start').glob('[0-9]'))
    assert saved.steps() == ()
    # 40 steps of warm start, two batches of one split, one of two of the other.
    with interrupted_at(44):
        assert not tiny.run(tiny.make_config(), tmp_path)
    assert len(tiny.read_lines(tmp_path / 'metrics.jsonl')) == 1
    assert saved.steps() == (0,)
    assert tiny.run(tiny.make_config(), tmp_path)
    tiny.assert_same_run(tmp_path, finished_run, last=LAST)


# One after another in one run directory, so each also finds what the last one left.
KILLS = (
    # In the warm start; when it is done but not complete on the disk.
    (warm_start.WarmStartData, 'tokens', 7),
    (saving, 'write_commit', 1),
    # Between evaluation and save; in the first step, the evaluations' batches before.
    (checkpoints.Checkpoints, 'save', 1),
    (Verification, 'finish', 5),
    # Between two steps, each with its metrics pending.
    (RunLog, 'step', 2),
    # In the save before step 2, its evaluation written; after that of step 4.
    (saving, 'write_commit', 1),
    (checkpoints.Checkpoints, 'save', 3),
    # With a line of metrics written, and not yet the rollouts that belong to it.
    (MetricWriter, 'write_rollouts', 1),
    # With one checkpoint too many; with an evaluation's line, and not its records.
    (commits, 'remove', 1),
    (MetricWriter, 'write_evaluation', 3),
    (checkpoints.Checkpoints, 'save', 2),
)


@pytest.mark.slow
def test_killed_at_every_stage_and_started_again_it_ends_the_same(
    finished_run, tmp_path
):
    for kill in KILLS:
        with kill_at(*kill), pytest.raises(Killed):
            tiny.run(tiny.make_config(), tmp_path)
    assert tiny.run(tiny.make_config(), tmp_path)
    tiny.assert_same_run(tmp_path, finished_run, last=LAST)


def test_a_finished_run_that_is_started_again_changes_nothing(finished_run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    before = everything(workdir)
    assert tiny.run(tiny.make_config(), workdir)
    assert everything(workdir) == before


def test_a_run_that_lost_files_is_refused_and_goes_on_where_that_is_accepted(
    finished_run, tmp_path, caplog
):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    (workdir / 'config.json').unlink()
    (workdir / 'rollouts' / 'step_00000002.jsonl').unlink()
    (workdir / 'evaluation' / 'test_step_00000000.jsonl').unlink()
    metrics = (workdir / 'metrics.jsonl').read_text().splitlines(keepends=True)
    (workdir / 'metrics.jsonl').write_text(''.join(metrics[:3] + metrics[4:]))
    lost = (
        "lacks what its run wrote: config.json; evaluation/: 'test' of step 0; "
        "metrics.jsonl: 'train' of step 1; rollouts/: of step 2. "
    )
    before = everything(workdir)
    with pytest.raises(ValueError, match=f'{lost}.*--accept_loss'):
        tiny.run(tiny.make_config(), workdir)
    assert everything(workdir) == before
    assert tiny.run(tiny.make_config(), workdir, accept_loss=True)
    assert f'{lost}The run goes on without it' in caplog.text
    # Without the records of its first, the second evaluation knows of no flips.
    last = json.loads(metrics[-1])
    metrics[-1] = json.dumps({k: last[k] for k in last if 'flips' not in k}) + '\n'
    assert (workdir / 'metrics.jsonl').read_text() == ''.join(metrics[:3] + metrics[4:])


def test_a_run_that_lost_every_checkpoint_does_not_silently_begin_anew(
    finished_run, tmp_path
):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    shutil.rmtree(workdir / 'checkpoints')
    before = everything(workdir)
    with pytest.raises(ValueError, match='every checkpoint in checkpoints/'):
        tiny.run(tiny.make_config(), workdir)
    assert everything(workdir) == before


def everything(workdir: pathlib.Path) -> dict[str, bytes]:
    """Every file but the lock."""
    files = (path for path in workdir.rglob('*') if path.is_file())
    return {
        str(path.relative_to(workdir)): path.read_bytes()
        for path in files
        if not path.name.startswith('.lock')
    }


@pytest.mark.slow
def test_the_reference_of_a_kl_and_every_key_survive_a_stop(finished_run, tmp_path):
    """The other run, whose newest parameters are the reference, goes on meanwhile.

    Later it is gone. A run of an older version, which kept no reference, needs it.
    """
    other = tmp_path / 'other'
    shutil.copytree(finished_run, other)
    newest = other / 'checkpoints' / '5'
    newest.rename(tmp_path / '5')
    config = tiny.make_config(
        **tiny.ONLY_STEPS
        | {
            'init__kind': 'checkpoint',
            'init__checkpoint': str(other),
            'stage': 1,
            'advantage__name': 'bootstrap_sampling',
            'reward__flip_wrong': 0.5,
            'loss__kl_coef': 0.1,
            'log__rollouts_every': 1,
            'train__steps': 3,
        }
    )
    assert tiny.run(config, tmp_path / 'a')
    with tiny.stop_before(2):
        assert not tiny.run(config, tmp_path / 'b')
    (tmp_path / '5').rename(newest)
    note = tmp_path / 'b' / 'initial.json'
    note.rename(tmp_path / 'note')
    with pytest.raises(ValueError, match=r'lacks what its run wrote: initial\.json\. '):
        tiny.run(config, tmp_path / 'b')
    (tmp_path / 'note').rename(note)
    ignore = shutil.ignore_patterns('reference')
    shutil.copytree(tmp_path / 'b', tmp_path / 'older', ignore=ignore)
    assert tiny.run(config, tmp_path / 'older')
    shutil.rmtree(other)
    assert tiny.run(config, tmp_path / 'b')
    for name in ('b', 'older'):
        tiny.assert_same_run(tmp_path / 'a', tmp_path / name, last=3)
    assert tiny.metrics(tmp_path / 'b', 'train')[-1]['ref_kl_k3'] > 0
    assert [line['stage'] for line in tiny.metrics(tmp_path / 'b', 'train')] == [1] * 3
    # The second stage has problems of its own at every step.
    for step in (0, 2):
        name = f'rollouts/step_{step:08d}.jsonl'
        seen, new = (
            [row['problem_id'] for row in tiny.read_lines(path / name)]
            for path in (finished_run, tmp_path / 'b')
        )
        assert seen != new


@pytest.mark.parametrize(
    'name', slow_values(ESTIMATORS, quick=['pass_at_1', 'curverl'])
)
def test_an_estimator_trains_and_survives_a_stop_before_each_step(
    name, finished_run, tmp_path
):
    """Of the rewards and of the history; the others are slow."""
    config = tiny.make_config(
        advantage__name=name,
        train__steps=2,
        eval__every=0,
        eval__final_split='',
        checkpoint__every=2,
        log__rollouts_every=1,
    )
    uninterrupted = tiny.warm_copy(finished_run, tmp_path / 'whole')
    assert tiny.run(config, uninterrupted)
    rows = tiny.metrics(uninterrupted, 'train')
    assert any(row['mean_abs_advantage'] > 0 for row in rows)
    # Without weight decay the gradient alone moves them.
    assert any(row['grad_norm'] > 0 for row in rows)
    first, last = (tiny.saved_arrays(uninterrupted, step) for step in (0, 2))
    params = [name for name in first if name.startswith('params')]
    assert params
    assert all((last[name] != first[name]).any() for name in params)

    workdir = tiny.warm_copy(finished_run, tmp_path / 'stopped')
    for stop in range(2):
        with tiny.stop_before(stop):
            assert not tiny.run(config, workdir)
    assert tiny.run(config, workdir)
    tiny.assert_same_run(workdir, uninterrupted, last=2)


@pytest.mark.slow
def test_a_run_with_all_that_is_fast_survives_a_stop(tmp_path):
    """A mesh of its own for sampling, int8, packed rows, and passes without signal."""
    config = tiny.make_config(
        mesh__data=1,
        mesh__rollout=2,
        mesh__decode_tensor=2,
        model__arch__num_kv_heads=2,
        sampling__cache_dtype='int8',
        loss__sampler_weight_cap=2.0,
        train__packing='rows',
        train__steps=3,
    )
    uninterrupted, parts = tmp_path / 'whole', tmp_path / 'parts'
    assert tiny.run(config, uninterrupted, num_devices=4)
    with tiny.stop_before(2):
        assert not tiny.run(config, parts, num_devices=4)
    assert tiny.run(config, parts, num_devices=4)
    tiny.assert_same_run(parts, uninterrupted, last=3)


@pytest.mark.slow
def test_a_run_with_keys_and_values_as_int8_survives_a_stop(finished_run, tmp_path):
    """It draws other tokens than the run without, and the learner weighs them."""
    int8 = {'sampling__cache_dtype': 'int8', 'loss__sampler_weight_cap': 2.0}
    config = tiny.make_config(**int8, train__steps=3)
    uninterrupted, parts = (
        tiny.warm_copy(finished_run, tmp_path / x) for x in ('a', 'b')
    )
    assert tiny.run(config, uninterrupted)
    with tiny.stop_before(2):
        assert not tiny.run(config, parts)
    assert tiny.run(config, parts)
    tiny.assert_same_run(parts, uninterrupted, last=3)
    weights = [line['sampler_weight'] for line in tiny.metrics(uninterrupted, 'train')]
    assert all(0.9 < x < 1.1 for x in weights)
    assert any(abs(x - 1) > 1e-5 for x in weights)


def test_a_run_older_than_the_kept_responses_goes_on(finished_run, tmp_path):
    """Its config lacks the field, and the experiment has it turned on."""
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    assert values['eval'].pop('kept_responses')
    path.write_text(json.dumps(values))
    with tiny.devices(1):
        assert train.main(config=tiny.make_config(), workdir=str(workdir)) == 0
