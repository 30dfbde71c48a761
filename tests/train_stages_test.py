"""A run of several stages: what changes at a border, and what goes on."""

import json

import numpy as np
import pytest

from passk_jax import evaluate, train
from passk_jax.runs.saved_config import stage_of
from passk_jax.setup import checks
from tests import tiny

LAST, BORDER = 5, 3
STAGES = {
    'pass_at_1': {
        'start': BORDER,
        'reset_optimizer': True,
        'advantage': {'name': 'pass_at_1'},
    },
}
FOUR = {'optimizer__warmup_updates': 4, 'log__rollouts_every': 1}


def make_config(stages=STAGES, **overrides):
    return tiny.make_config(**{'stages': stages, **FOUR, **overrides})


@pytest.fixture(scope='module')
def staged(finished_run, tmp_path_factory):
    """An uninterrupted run of two stages."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('staged'))
    assert tiny.run(make_config(), workdir)
    return workdir


@pytest.fixture(scope='module')
def plain(finished_run, tmp_path_factory):
    """The same run without a second stage."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('plain'))
    assert tiny.run(make_config({}), workdir)
    return workdir


def dump(workdir, step):
    return tiny.read_lines(workdir / 'rollouts' / f'step_{step:08d}.jsonl')


@pytest.mark.slow
def test_before_the_border_it_is_the_run_without_a_second_stage(staged, plain):
    for step in range(BORDER):
        assert tiny.metrics(staged, 'train')[step] == tiny.metrics(plain, 'train')[step]
        assert dump(staged, step) == dump(plain, step)


def test_each_line_has_its_stage(staged):
    stages = [row['stage'] for row in tiny.metrics(staged, 'train')]
    assert stages == [0] * BORDER + [1] * (LAST - BORDER)
    # Every second step, and the last.
    stages = [row['stage'] for row in tiny.metrics(staged, 'validation')]
    assert stages == [0, 0, 1, 1]


def test_a_later_stage_sees_other_problems_and_estimates_otherwise(staged, plain):
    setup = tiny.make_setup(make_config(stage=1))
    problems, _ = setup.train_batches()[BORDER]
    ids = [row['problem_id'] for row in dump(staged, BORDER)]
    assert sorted(set(ids)) == sorted({problem.id for problem in problems})
    assert set(ids) != {row['problem_id'] for row in dump(plain, BORDER)}
    for step, estimated in ((BORDER - 1, pass_at_2), (BORDER, pass_at_1)):
        rows = dump(staged, step)
        groups = {}
        for row in rows:
            groups.setdefault(row['problem_id'], []).append(row)
        mixed = 0
        for group in groups.values():
            correct = np.array([row['correct'] for row in group])
            got = [row['advantage'] for row in group]
            np.testing.assert_allclose(got, estimated(correct), atol=1e-5)
            mixed += 0 < correct.sum() < 4
        assert mixed


def pass_at_1(correct):
    """sqrt(w / c) and -sqrt(c / w)."""
    c = correct.sum()
    w = len(correct) - c
    return (
        np.where(correct, np.sqrt(w / c), -np.sqrt(c / w)) if c and w else 0 * correct
    )


def pass_at_2(correct):
    """With q, the probability that both of a group are wrong."""
    c, n = correct.sum(), len(correct)
    w = n - c
    q = w * (w - 1) / (n * (n - 1))
    if q in (0, 1):
        return 0.0 * correct
    right = np.sqrt(q / (1 - q))
    return np.where(correct, right, -c / w * right)


def test_the_rate_warms_up_again_only_if_the_optimizer_is_reset(staged, finished_run):
    rates = [row['learning_rate'] for row in tiny.metrics(staged, 'train')]
    quarter = 1e-2 / 4
    assert rates == pytest.approx(
        [quarter, 2 * quarter, 3 * quarter, quarter, 2 * quarter]
    )
    counts = count_of(staged, LAST)
    assert counts == {LAST - BORDER}


def test_kept_the_optimizer_goes_on(finished_run, tmp_path):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    stages = {'pass_at_1': STAGES['pass_at_1'] | {'reset_optimizer': False}}
    assert tiny.run(make_config(stages), workdir)
    rates = [row['learning_rate'] for row in tiny.metrics(workdir, 'train')]
    assert rates[-2:] == pytest.approx([1e-2, 1e-2])
    assert count_of(workdir, LAST) == {LAST}


def count_of(workdir, step):
    """What the optimizer has counted."""
    arrays = tiny.saved_arrays(workdir, step)
    return {int(x) for name, x in arrays.items() if name.endswith('count')}


def test_stopped_before_every_step_it_ends_the_same(staged, finished_run, tmp_path):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    with tiny.stop_once_before_every_step():
        for _ in range(LAST + 1):
            assert not tiny.run(make_config(), workdir)
        assert tiny.run(make_config(), workdir)
    tiny.assert_same_run(workdir, staged, last=LAST)


@pytest.mark.slow
def test_a_reference_is_only_in_the_stage_with_a_kl(finished_run, tmp_path):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    stages = {
        'kl': {'start': 2, 'reset_optimizer': False, 'loss': {'kl_coef': 0.1}},
        'none': {'start': 4, 'reset_optimizer': False},
    }
    assert tiny.run(make_config(stages), workdir)
    has = ['ref_kl_k3' in row for row in tiny.metrics(workdir, 'train')]
    assert has == [False, False, True, True, False]


def test_the_command_evaluates_a_step_with_the_noise_of_its_stage(staged):
    # Steps that have a checkpoint and an evaluation.
    for step in (4, LAST):
        with tiny.devices(1):
            evaluate.main(workdir=str(staged), split='validation', step=step)
        name = f'validation_step_{step:08d}.jsonl'
        by_command = staged / 'evaluation' / 'by_command' / name
        assert by_command.read_bytes() == (staged / 'evaluation' / name).read_bytes()


def test_a_run_after_it_is_of_the_stage_after_its_last(staged, tmp_path):
    source = {'init__kind': 'checkpoint', 'init__checkpoint': str(staged)}
    assert stage_of(-1, tiny.make_config(**source).init, tmp_path) == 2


def test_every_stage_is_checked_before_anything_begins(tmp_path):
    def stages(advantage):
        return {'bad': {'start': 2, 'reset_optimizer': False, 'advantage': advantage}}

    workdir = str(tmp_path / 'none')
    with pytest.raises(ValueError, match=r"stages\.bad: unknown estimator 'no_such'"):
        train.main(config=make_config(stages({'name': 'no_such'})), workdir=workdir)
    with pytest.raises(ValueError, match=r'stages\.bad: .*every response'):
        train.main(config=make_config(stages({'k': 4})), workdir=workdir)
    assert not (tmp_path / 'none').exists()


def test_the_parameters_that_any_stage_reads_cannot_change_on_resume():
    assert 'advantage.beta' in checks.may_differ(make_config())
    stages = {
        'rs': {'start': 2, 'reset_optimizer': False, 'advantage': {'name': 'rs_grpo'}}
    }
    assert 'advantage.beta' not in checks.may_differ(make_config(stages))


def test_the_saved_configuration_has_the_stages(staged):
    saved = json.loads((staged / 'config.json').read_text())
    assert saved['stages'] == STAGES
