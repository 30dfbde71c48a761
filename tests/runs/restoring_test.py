"""A checkpoint comes back as it was written, or a restore says why not."""

import dataclasses
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.learning.optimizer import make_optimizer
from passk_jax.learning.state import state_shapes
from passk_jax.runs import arrays, commits, restoring
from passk_jax.runs import checkpoints as checkpoint
from passk_jax.runs.commits import CorruptionError
from passk_jax.setup import setup as setup_lib
from tests import tiny
from tests.runs import states
from tests.slow import slow_values


def test_every_mismatch_of_shape_dtype_or_path_is_listed_and_nothing_is_cast(tmp_path):
    checkpoints = states.saved(tmp_path, 1)
    target = states.target(states.state(1))
    target['params'] = {
        'layers': [{'kernel': jax.ShapeDtypeStruct((8, 16), jnp.bfloat16)}],
        'head': jax.ShapeDtypeStruct((16, 4), jnp.bfloat16),
        'extra': jax.ShapeDtypeStruct((2,), jnp.int32),
    }
    with pytest.raises(ValueError, match='does not fit') as error:
        checkpoints.restore(**target)
    message = str(error.value)
    assert 'layers.0.kernel is float32[8, 16] in the checkpoint, not bf' in message
    assert 'head is bfloat16[16, 8] in the checkpoint, not bfloat16[16, 4]' in message
    assert 'extra is not in the checkpoint' in message
    with pytest.raises(ValueError, match='head is in the checkpoint only'):
        checkpoints.restore(
            params={'layers': target['params']['layers']},
            opt_state=target['opt_state'],
        )


def test_a_missing_or_empty_directory_is_named(tmp_path):
    target = states.target(states.state()['params'])
    with pytest.raises(ValueError, match=r'nowhere.checkpoints does not exist'):
        checkpoint.restore_params(tmp_path / 'nowhere', target)
    assert not (tmp_path / 'nowhere').exists()
    checkpoints = checkpoint.Checkpoints(tmp_path / 'run' / 'checkpoints', keep=1)
    assert checkpoints.latest_step() is None
    with pytest.raises(ValueError, match=r'run.checkpoints is empty'):
        checkpoint.restore_params(tmp_path / 'run', target)


def test_a_step_that_was_not_saved_is_named_beside_those_that_were(tmp_path):
    with pytest.raises(ValueError, match=r'step=5 .* there is \(3, 4\)'):
        states.saved(tmp_path, 3, 4).restore(**states.target(states.state()), step=5)


@pytest.mark.parametrize(
    'damage',
    slow_values(
        [states.truncate, states.flip, pathlib.Path.unlink], quick=[states.flip]
    ),
)
def test_damage_to_any_file_is_found_or_harmless(tmp_path, damage):
    """Damage is harmless to the files that Orbax writes and never reads."""
    states.saved(tmp_path / 'good', 2, 5)
    files = [p for p in (tmp_path / 'good' / '5').rglob('*') if p.is_file()]
    found_in = set()
    assert len(files) > 10
    for i, file in enumerate(files):
        directory = tmp_path / str(i)
        shutil.copytree(tmp_path / 'good', directory)
        name = file.relative_to(tmp_path / 'good')
        damage(directory / name)
        checkpoints = checkpoint.Checkpoints(directory, keep=5)
        try:
            restored = checkpoints.restore(**states.target(states.state()))
        except CorruptionError:
            found_in.add(name)
        else:
            # Without its commit it is not a checkpoint.
            lost = name.name == 'commit.json'
            assert restored.step == (2 if lost else 5)
            states.assert_same(restored.params, states.state(restored.step)['params'])
            states.assert_same(
                restored.opt_state, states.state(restored.step)['opt_state']
            )
        assert checkpoints.restore(**states.target(states.state()), step=2).step == 2
    assert {'params', 'opt_state'} <= {name.parts[1] for name in found_in}


def test_every_process_has_the_commit_that_process_0_reads(tmp_path, monkeypatch):
    """Its own file system shows it another one, a damaged one or none."""
    states.saved(tmp_path, 3)
    path = tmp_path / '3'
    read = commits.read_commit(path)
    as_process_1(monkeypatch, {'damage': '', **dataclasses.asdict(read)})
    states.flip(path / 'commit.json')
    assert restoring.commit_of(path) == read
    # It comes while this process waits.
    (path / 'commit.json').rename(tmp_path / 'hidden')
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        (tmp_path / 'hidden').rename(path / 'commit.json')

    monkeypatch.setattr(restoring.time, 'sleep', sleep)
    assert restoring.commit_of(path) == read
    assert waited == [1]
    (path / 'commit.json').unlink()
    monkeypatch.setattr(restoring, '_UNSEEN_SECONDS', -1)
    with pytest.raises(ValueError, match=r'process 0 sees .*/3, and process 1 does'):
        restoring.commit_of(path)
    as_process_1(monkeypatch, {'damage': 'it is wet'})
    with pytest.raises(CorruptionError, match=r'3 is corrupted: it is wet'):
        restoring.commit_of(path)


def as_process_1(monkeypatch, of_process_0):
    """Makes this process 1 of 2, which does nothing for process 0."""
    monkeypatch.setattr('jax.process_index', lambda: 1)
    monkeypatch.setattr('jax.process_count', lambda: 2)
    monkeypatch.setattr(restoring.hosts, 'gather', lambda make: [of_process_0, make()])


@pytest.mark.parametrize(
    'sizes',
    slow_values([(8, 1, 1, 1), (2, 2, 1, 2), (1, 2, 2, 2)], quick=[(1, 2, 2, 2)]),
)
def test_a_run_comes_back_bit_for_bit_on_any_mesh(finished_run, sizes):
    """The run saved it on one device."""
    axes = ('data', 'fsdp', 'rollout', 'tensor')
    mesh = {f'mesh__{axis}': size for axis, size in zip(axes, sizes, strict=True)}
    config = tiny.make_config(**mesh, train__micro_batch_prompts=8, eval__batch_size=8)
    setup = setup_lib.make_setup(config)
    optimizer = make_optimizer(config.optimizer, num_updates=1)
    shapes = state_shapes(setup.policy, optimizer, setup.mesh)
    _, restored = restoring.restore(
        finished_run / 'checkpoints' / '5',
        {'params': shapes.params, 'opt_state': shapes.opt_state},
    )
    written = tiny.saved_arrays(finished_run, 5)
    read = {
        f'{item}/{name}': leaf
        for item, tree in restored.items()
        for name, leaf in arrays.flatten(tree).items()
    }
    assert read.keys() == written.keys()
    for name, leaf in read.items():
        assert np.asarray(leaf).tobytes() == written[name].tobytes(), name
    assert len({len(leaf.sharding.device_set) for leaf in read.values()}) == 1
