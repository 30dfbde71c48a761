"""Only a commit makes a checkpoint; older formats are read or refused by name."""

import jax
import jax.numpy as jnp
import pytest

from passk_jax.runs import checkpoints as checkpoint
from passk_jax.runs import commits
from tests.runs import states


@pytest.mark.parametrize('other', [1, 4])
def test_a_checkpoint_of_another_format_is_refused(other, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, '_FORMAT', other)
    params = {f'layers.{i}.norm.scale': jnp.ones(2) for i in range(3)}
    checkpoints = states.saved(tmp_path / 'run' / 'checkpoints', 1)
    checkpoint.save_cached_params(tmp_path / 'warm', params, fingerprint={'seed': 1})
    monkeypatch.undo()
    words = rf'format {other}, and .* before layers were stacked.*git\.json'
    with pytest.raises(ValueError, match=words):
        checkpoints.restore(**states.target(states.state()))
    stacked = {'layers.norm.scale': jax.ShapeDtypeStruct((3, 2), jnp.float32)}
    with pytest.raises(ValueError, match=words) as error:
        checkpoint.restore_params(tmp_path / 'run', stacked)
    assert 'layers.0' not in str(error.value)
    with pytest.raises(ValueError, match=words):
        checkpoint.restore_cached_params(
            tmp_path / 'warm', stacked, fingerprint={'seed': 2}
        )


def test_half_a_checkpoint_is_none(tmp_path):
    (tmp_path / '3').mkdir()
    checkpoints = states.saved(tmp_path, 2)
    assert checkpoints.steps() == (2,)
    checkpoints.save(3, **states.state(3), meta={})
    assert checkpoints.steps() == (2, 3)


def test_a_checkpoint_of_the_format_before_is_restored_and_its_files_are_checked(
    tmp_path,
):
    state, memory = states.state(), {'history': jnp.arange(6).reshape(2, 3)}
    items = state | {'memory': memory}
    states.write_format_2(tmp_path / '3', items, {'step': 3})
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=5)
    found = checkpoints.restore(**states.target(items))
    assert found.meta == {'step': 3}
    states.assert_same({'params': found.params, 'opt_state': found.opt_state}, state)
    states.assert_same(found.memory, memory)
    with pytest.raises(ValueError, match='memory: history is in the checkpoint only'):
        checkpoints.restore(**states.target(state), memory={})
    checkpoints.save(4, **items, meta={})
    assert checkpoints.steps() == (3, 4)
    with pytest.raises(ValueError, match='newer checkpoint, 4'):
        checkpoints.save(3 - 1, **items, meta={})
    files = [p for p in (tmp_path / '3' / 'params').rglob('*') if p.is_file()]
    file = max(files, key=lambda p: p.stat().st_size)
    states.flip(file)
    with pytest.raises(commits.CorruptionError, match='is not what was written'):
        checkpoints.restore(**states.target(items), step=3)
    # It is removed as any other is.
    other = checkpoint.Checkpoints(tmp_path, keep=1)
    other.save(5, **items, meta={})
    assert other.steps() == (5,)
    assert [path.name for path in tmp_path.iterdir()] == ['5']


def test_checkpoints_of_other_arrays_have_other_identities(tmp_path):
    identities = []
    for name, digest in (('a', '0f'), ('b', '0f'), ('c', '1f')):
        path = tmp_path / name
        path.mkdir()
        arrays = {'params': {'w': f'float32[2] {digest}'}}
        commits.write_commit(path, commits.Commit({'step': 5}, arrays))
        identities.append(commits.identity(path))
    # The same arrays, evaluated later.
    commits.add_metrics(tmp_path / 'b', {'test/pass_at_1': 0.5})
    assert commits.read_commit(tmp_path / 'b').meta['metrics'] == {
        'test/pass_at_1': 0.5
    }
    identities.append(commits.identity(tmp_path / 'b'))
    assert identities[0] == identities[1] == identities[3] != identities[2]


def test_a_commit_reads_back_and_every_change_of_it_shows(tmp_path):
    commit = commits.Commit({'a': [1, 0.1]}, {'params': {'w': 'float32[2] 0f'}})
    commits.write_commit(tmp_path, commit)
    assert commits.read_commit(tmp_path) == commit
    path = tmp_path / commits.COMMIT
    text = path.read_text()
    others = (text.replace('0.1', '0.2'), text.replace('0f', '1f'), text[:-9], '[]', '')
    for changed in others:
        assert changed != text
        path.write_text(changed)
        for read in (commits.read_commit, commits.identity):
            with pytest.raises(commits.CorruptionError, match=r'commit\.json'):
                read(tmp_path)
