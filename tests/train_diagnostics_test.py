"""A run with diagnostics is the run without them, and has one more file."""

import shutil

import numpy as np
import pytest

from passk_jax import train
from passk_jax.diagnostics.step import Diagnose
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.runs.metric_writer import MetricWriter
from tests import changed, tiny
from tests.train_resume_test import LAST, Killed, kill_at

EVERY_STEP = {'log__diagnostics_every': 1}


@pytest.fixture(scope='module')
def diagnosed_run(finished_run, tmp_path_factory):
    """A run whose every step is diagnosed; for reading only."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('run') / 'diagnosed')
    assert tiny.run(tiny.make_config(**EVERY_STEP), workdir)
    return workdir


def test_diagnostics_change_no_other_byte(finished_run, diagnosed_run, tmp_path):
    assert not (finished_run / 'diagnostics.jsonl').exists()
    copy = tmp_path / 'copy'
    shutil.copytree(diagnosed_run, copy)
    (copy / 'diagnostics.jsonl').unlink()
    tiny.assert_same_run(copy, finished_run, last=LAST)


def test_a_line_describes_the_responses_of_its_step(diagnosed_run):
    rows = tiny.read_lines(diagnosed_run / 'diagnostics.jsonl')
    assert [row['step'] for row in rows] == list(range(LAST))
    for row in rows[::2]:
        name = f'rollouts/step_{row["step"]:08d}.jsonl'
        dump = tiny.read_lines(diagnosed_run / name)
        lengths = np.array([x['length'] for x in dump])
        reaching = [(lengths > t).sum() for t in range(lengths.max())]
        assert row['responses_by_position'] == reaching
        sums = np.dot(row['entropy_by_position'], reaching)
        expected = sum(x['mean_entropy'] * x['length'] for x in dump)
        assert sums == pytest.approx(expected, rel=1e-5)
        right, wrong, problems = np.zeros((3, 5))
        for first in range(0, len(dump), 4):
            group = dump[first : first + 4]
            c = sum(x['rewarded'] for x in group)
            problems[c] += 1
            right[c] += sum(abs(x['advantage']) for x in group if x['rewarded'])
            wrong[c] += sum(abs(x['advantage']) for x in group if not x['rewarded'])
        assert row['problems_by_right'] == problems.tolist()
        np.testing.assert_allclose(row['mass_right_by_right'], right, rtol=1e-5)
        np.testing.assert_allclose(row['mass_wrong_by_right'], wrong, rtol=1e-5)


def test_the_norm_of_the_gradient_is_the_learners(diagnosed_run):
    """A step of the tiny run is one update, so both have the same gradient."""
    rows = tiny.read_lines(diagnosed_run / 'diagnostics.jsonl')
    norms = [row['grad_norm'] for row in tiny.metrics(diagnosed_run, 'train')]
    squares = [
        row['gradient_signal/pass_at_k'] + row['gradient_noise/pass_at_k']
        for row in rows
    ]
    np.testing.assert_allclose(squares, np.square(norms), rtol=1e-4)


def test_a_diagnosed_run_that_is_interrupted_ends_the_same(
    finished_run, diagnosed_run, tmp_path
):
    workdir = tiny.warm_copy(finished_run, tmp_path / 'run')
    config = tiny.make_config(**EVERY_STEP)
    # With a line of metrics and none of diagnostics; with both; between two steps.
    for kill in (
        (MetricWriter, 'write_diagnostics', 2),
        (MetricWriter, 'write_rollouts', 2),
    ):
        with kill_at(*kill), pytest.raises(Killed):
            tiny.run(config, workdir)
    with tiny.stop_before(3):
        assert not tiny.run(config, workdir)
    assert tiny.run(config, workdir)
    tiny.assert_same_run(workdir, diagnosed_run, last=LAST)


def test_a_run_that_lost_its_diagnostics_is_refused(diagnosed_run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(diagnosed_run, workdir)
    (workdir / 'diagnostics.jsonl').unlink()
    with pytest.raises(ValueError, match=r'lacks .*: diagnostics\.jsonl: of step 0, 1'):
        tiny.run(tiny.make_config(**EVERY_STEP), workdir)


def test_only_the_steps_that_are_due_are_diagnosed(tmp_path):
    settings = tiny.ONLY_STEPS | {'log__diagnostics_every': 2, 'train__steps': 4}
    config = tiny.make_config(
        **settings,
        advantage__name='canonical_k',
        reward__flip_wrong=0.5,
        train__dynamic_sampling_rounds=1,
    )
    assert tiny.run(config, tmp_path)
    rows = tiny.read_lines(tmp_path / 'diagnostics.jsonl')
    assert [row['step'] for row in rows] == [0, 2]
    signals = [name for name in rows[0] if name.startswith('gradient_signal/')]
    assert [name.partition('/')[2] for name in signals] == [
        'canonical_k',
        'pass_at_1',
        'rloo',
    ]


def test_a_diagnosis_gets_its_settings():
    settings = {'log__diagnostics_every': 2, 'log__difficulty_bins': 3}
    setup = tiny.make_setup(changed.make_config(**settings))
    assert train.make_diagnose(setup) == Diagnose(
        BatchLoss(setup.policy, 0.7, setup.config.loss),
        setup.mesh,
        name='pass_at_k',
        num_rollouts=6,
        k=3,
        # 24 prompts, 4 a pass; 2 of 6 rollouts a pass.
        num_chunks=6,
        rollout_parts=3,
        difficulty_bins=3,
    )
