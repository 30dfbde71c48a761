"""Only a commit makes a checkpoint; other formats are refused by name."""

import jax
import jax.numpy as jnp
import pytest

from passk_jax.runs import checkpoints as checkpoint
from passk_jax.runs import commits
from tests.runs import states


@pytest.mark.parametrize('other', [2, 4])
def test_a_checkpoint_of_another_format_is_refused(other, tmp_path, monkeypatch):
    monkeypatch.setattr(commits, '_FORMAT', other)
    params = {f'layers.{i}.norm.scale': jnp.ones(2) for i in range(3)}
    checkpoints = states.saved(tmp_path / 'run' / 'checkpoints', 1)
    checkpoint.save_cached_params(tmp_path / 'warm', params, fingerprint={'seed': 1})
    monkeypatch.undo()
    words = rf'format {other}, and this program reads 3: .*git\.json'
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


def test_a_checkpoint_from_before_there_were_commits_is_refused_and_stays(tmp_path):
    (tmp_path / '3').mkdir()
    (tmp_path / '3' / 'meta.json').write_text('{"format": 2}')
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=5)
    assert checkpoints.steps() == (3,)
    for read in (
        lambda: checkpoints.restore(**states.target(states.state())),
        lambda: commits.newest_meta(tmp_path),
    ):
        with pytest.raises(ValueError, match=r'format before 3, and .* reads 3: '):
            read()
    checkpoints.save(4, **states.state(4), meta={})
    assert checkpoints.steps() == (3, 4)


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
    variants = (
        text.replace('0.1', '0.2'),
        text.replace('0f', '1f'),
        text[:-9],
        '[]',
        '',
    )
    for changed in variants:
        assert changed != text
        path.write_text(changed)
        for read in (commits.read_commit, commits.identity):
            with pytest.raises(commits.CorruptionError, match=r'commit\.json'):
                read(tmp_path)
