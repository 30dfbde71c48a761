"""The checkpoints of a run come back bit for bit on any mesh, the newest first."""

import shutil
from unittest import mock

import jax
import jax.numpy as jnp
import pytest

from passk_jax.runs import checkpoints as checkpoint
from passk_jax.runs import commits, restoring
from passk_jax.runs.commits import CorruptionError
from passk_jax.runs.retention import Retention
from tests.runs import states


def test_a_restored_state_is_bitwise_the_saved_one_optimizer_included(tmp_path):
    states.saved(tmp_path, 7)
    restored = checkpoint.Checkpoints(tmp_path, keep=5).restore(
        **states.target(states.state(7))
    )
    states.assert_same(
        {'params': restored.params, 'opt_state': restored.opt_state}, states.state(7)
    )
    assert restored.step == 7
    assert restored.meta == {'seed': 3, 'name': 'a', 'step': 7}


def test_a_memory_is_restored_too_and_none_leaves_the_checkpoint_as_it_was(tmp_path):
    memory = {'history': jnp.arange(12).reshape(3, 4)}
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=5)
    checkpoints.save(1, **states.state(), memory={}, meta={})
    checkpoints.save(2, **states.state(), memory=memory, meta={})
    checkpoints.wait()
    assert [(tmp_path / step / 'memory').exists() for step in '12'] == [False, True]
    restored = checkpoints.restore(
        **states.target(states.state()), memory=states.target(memory)
    )
    states.assert_same(restored.memory, memory)
    # An older checkpoint, without memory, is read too.
    restored = checkpoints.restore(**states.target(states.state()), memory={}, step=1)
    assert restored.memory == {}
    with pytest.raises(ValueError, match='memory: history is not in the checkpoint'):
        checkpoints.restore(
            **states.target(states.state()), memory=states.target(memory), step=1
        )


@pytest.mark.parametrize(('saved_on', 'restored_on'), [(4, 2), (2, 8), (8, 1)])
def test_a_state_saved_on_one_mesh_restores_onto_another(
    tmp_path, saved_on, restored_on
):
    params = {'w': jnp.arange(64.0).reshape(8, 8) / 7}
    placed = jax.device_put(params, states.sharding(saved_on, 'fsdp'))
    checkpoint.Checkpoints(tmp_path, keep=1).save(
        1, params=placed, opt_state={}, meta={}
    )
    sharding = states.sharding(restored_on, None, 'fsdp')
    restored = checkpoint.Checkpoints(tmp_path, keep=1).restore(
        params=states.target(params, sharding), opt_state={}
    )
    states.assert_same(restored.params, params)
    assert restored.params['w'].sharding == sharding


def test_only_the_newest_are_kept_and_the_newest_is_restored(tmp_path):
    checkpoints = states.saved(tmp_path, 2, 10, 9 + 2, keep=2)
    assert checkpoints.steps() == (10, 11)
    assert checkpoints.latest_step() == 11
    assert checkpoints.restore(**states.target(states.state())).meta['step'] == 11
    assert (
        checkpoints.restore(**states.target(states.state()), step=10).meta['step'] == 10
    )


def test_every_process_does_what_process_0_sees(tmp_path, monkeypatch):
    checkpoints = states.saved(tmp_path / 'checkpoints', 2, 3, keep=2)
    # This host's file system lags: it lacks the newest or still shows a removed one.
    for of_process_0 in ([2], [2, 3, 4]):
        monkeypatch.setattr(
            checkpoint.hosts, 'broadcast', lambda make, seen=of_process_0: seen
        )
        assert checkpoints.steps() == tuple(of_process_0)
        assert checkpoint.find_step(tmp_path) == of_process_0[-1]


def test_saving_a_saved_step_again_changes_nothing(tmp_path):
    checkpoints = states.saved(tmp_path, 4)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob('*')}
    checkpoints.save(4, **states.state(4), meta={})
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob('*')} == before


def test_saving_a_step_before_the_newest_is_refused(tmp_path):
    with pytest.raises(ValueError, match='newer checkpoint, 4'):
        states.saved(tmp_path, 4, 3)


def test_a_corrupted_checkpoint_is_set_aside_if_there_is_another(tmp_path, caplog):
    checkpoints = states.saved(tmp_path, 2, 5)
    states.flip(tmp_path / '5' / 'commit.json')

    def run():
        restored = checkpoints.restore(**states.target(states.state()))
        if restored.step == 2 and elsewhere:
            raise elsewhere.pop()
        return restored.step

    elsewhere = []
    shutil.copytree(tmp_path / '2', tmp_path / '4.corrupted')
    assert checkpoint.from_intact(run, tmp_path) == 2
    assert '5 is corrupted: commit.json is not what was written. The run' in caplog.text
    assert sorted(p.name for p in tmp_path.iterdir()) == ['2', '5.corrupted']
    # Another run's is not this run's to move.
    elsewhere = [CorruptionError(tmp_path / 'other' / '2', 'it is wet')]
    with pytest.raises(CorruptionError, match='other/2'):
        checkpoint.from_intact(run, tmp_path)
    elsewhere = [CorruptionError(tmp_path / '2', 'it is wet')]
    with pytest.raises(CorruptionError, match=r'2 is corrupted: .*: none; to'):
        checkpoint.from_intact(run, tmp_path)
    assert checkpoints.steps() == (2,)


def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(ValueError, match=r'file.checkpoints is unusable'):
        checkpoint.Checkpoints(tmp_path / 'file' / 'checkpoints', keep=1)


def test_parameters_alone_come_from_another_run_the_newest_unless_a_step_is_named(
    tmp_path,
):
    states.saved(tmp_path / 'checkpoints', 1, 4)
    before = sorted(tmp_path.rglob('*'))
    params, _ = checkpoint.restore_params(
        tmp_path, states.target(states.state()['params'])
    )
    states.assert_same(params, states.state(4)['params'])
    older, step = checkpoint.restore_params(
        tmp_path, states.target(states.state()['params']), step=1
    )
    assert step == 1
    states.assert_same(older, states.state(1)['params'])
    assert sorted(tmp_path.rglob('*')) == before


def test_a_checkpoint_that_its_run_removes_meanwhile_is_not_called_corrupted(tmp_path):
    states.saved(tmp_path / 'checkpoints', 1, 4)
    target = states.target(states.state()['params'])
    read = restoring.arrays.read

    def remove_and_read(path, flat):
        commits.remove(path)
        return read(path, flat)

    with mock.patch.object(restoring.arrays, 'read', remove_and_read):
        message = r'4 was removed while it was read.*of the steps \(1,\) now'
        with pytest.raises(ValueError, match=message):
            checkpoint.restore_params(tmp_path, target)


def test_cached_parameters_come_back_for_the_same_fingerprint_only(tmp_path):
    directory = tmp_path / 'warm_start'
    params, target = states.state()['params'], states.target(states.state()['params'])
    fingerprint = {'seed': 0, 'steps': 10, 'sizes': (5, 7)}
    cached = checkpoint.restore_cached_params(
        directory, target, fingerprint=fingerprint
    )
    assert cached is None
    checkpoint.save_cached_params(directory, params, fingerprint=fingerprint)
    cached = checkpoint.restore_cached_params(
        directory, target, fingerprint=fingerprint
    )
    states.assert_same(cached, params)
    other = {'seed': 1, 'steps': 10, 'sizes': (5, 7), 'new': True}
    with pytest.raises(ValueError, match='another new, seed; delete'):
        checkpoint.restore_cached_params(directory, target, fingerprint=other)


def test_parameters_are_not_cached_over_others(tmp_path):
    params = states.state()['params']
    checkpoint.save_cached_params(tmp_path, params, fingerprint={})
    with pytest.raises(ValueError, match='holds parameters already'):
        checkpoint.save_cached_params(tmp_path, params, fingerprint={})


def test_a_new_run_keeps_its_parameters_and_a_resumed_one_reads_them(tmp_path):
    """Though a run of the same names died here before it began."""
    for value in (1.0, 0.0):
        new = {'head': jnp.full((8, 16), value)}
        target = states.target(new)
        states.assert_same(checkpoint.keep_frozen(tmp_path, new, target), new)
        states.assert_same(checkpoint.keep_frozen(tmp_path, {}, target), new)
        states.assert_same(checkpoint.restore_frozen(tmp_path, target), new)


def test_what_is_to_be_kept_stays(tmp_path):
    keep = Retention(1, every=4, best='test/pass_at_1')
    values = {0: 0.1, 2: 0.5, 4: 0.5, 6: float('nan'), 8: 0.2, 9: None}
    with checkpoint.Checkpoints(tmp_path, keep=keep) as checkpoints:
        for step, value in values.items():
            metrics = {} if value is None else {'test/pass_at_1': value}
            meta = {'metrics': metrics}
            checkpoints.save(step, params={'w': jnp.ones(2)}, opt_state={}, meta=meta)
    assert checkpoints.steps() == (0, 2, 4, 8, 9)


def test_the_best_stays_though_its_run_stopped_before_the_evaluation(tmp_path):
    keep = Retention(1, best='test/pass_at_1')
    params = {'w': jnp.ones(2)}
    evaluated = {'metrics': {'test/pass_at_1': 0.5}}
    with checkpoint.Checkpoints(tmp_path, keep=keep) as checkpoints:
        checkpoints.save(3, params=params, opt_state={}, meta={'step': 3})
    with checkpoint.Checkpoints(tmp_path, keep=keep) as checkpoints:
        checkpoints.save(3, params=params, opt_state={}, meta=evaluated)
        # It stops here again, before it has evaluated.
        checkpoints.save(3, params=params, opt_state={}, meta={'metrics': {}})
        checkpoints.save(4, params=params, opt_state={}, meta={})
        assert checkpoints.steps() == (3, 4)
        target = {'params': params, 'opt_state': {}}
        restored = checkpoints.restore(step=3, **target)
    assert restored.meta == {'step': 3} | evaluated
