"""A run directory takes one run at a time, of one config, or says why not."""

import json
import os
import re
import subprocess
import sys

import pytest

from passk_jax.runs import directory
from passk_jax.runs.directory import prepare_workdir
from passk_jax.runtime import cores

_CONFIG = {
    'name': 'a',
    'seed': 0,
    'mesh': {'data': 1},
    'train': {'steps': 5, 'lr': 0.1},
}


def _prepare(path, config=_CONFIG, **kwargs):
    with prepare_workdir(path, json.dumps(config), **kwargs) as workdir:
        return workdir


def _begin(path):
    """A run that got as far as writing metrics."""
    workdir = _prepare(path)
    (workdir / 'metrics.jsonl').touch()
    return workdir


def test_the_first_run_writes_its_config_and_the_codes_revision(tmp_path):
    workdir = _prepare(tmp_path / 'new' / 'run')
    assert workdir == tmp_path / 'new' / 'run'
    assert json.loads((workdir / 'config.json').read_text()) == _CONFIG
    git = json.loads((workdir / 'git.json').read_text())
    assert git.keys() == {'revision', 'dirty', 'diff_sha256', 'processor'}
    assert git['processor'] == cores.processor() != ''


def test_another_processor_is_a_warning_and_an_old_run_has_none(tmp_path, caplog):
    path = _begin(tmp_path) / 'git.json'
    git = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in git.items() if k != 'processor'}))
    _prepare(tmp_path)
    assert not caplog.text
    path.write_text(json.dumps(git | {'processor': 'Z80'}))
    _prepare(tmp_path)
    assert "started with {'processor': 'Z80'}; this is {'processor': " in caplog.text


def test_the_same_config_resumes_and_rewrites_nothing(tmp_path):
    _begin(tmp_path)
    before = (tmp_path / 'config.json').stat().st_mtime_ns
    _prepare(tmp_path)
    assert (tmp_path / 'config.json').stat().st_mtime_ns == before


def test_another_config_is_refused_by_every_key_that_differs(tmp_path):
    _begin(tmp_path)
    other = {'name': 'a', 'seed': 1, 'mesh': {'data': 1}, 'train': {'steps': 5, 'k': 4}}
    with pytest.raises(ValueError, match='choose another workdir') as error:
        _prepare(tmp_path, other)
    lines = str(error.value).splitlines()[1:]
    assert [line.strip() for line in lines] == [
        'seed: 0 there, 1 now',
        'train.k: absent there, 4 now',
        'train.lr: 0.1 there, absent now',
    ]
    assert json.loads((tmp_path / 'config.json').read_text()) == _CONFIG


@pytest.mark.parametrize('begun', ['metrics.jsonl', 'checkpoints/0'])
def test_a_run_that_failed_before_it_began_does_not_keep_its_directory(tmp_path, begun):
    other = _CONFIG | {'seed': 1}
    _prepare(tmp_path)
    _prepare(tmp_path, other)
    assert json.loads((tmp_path / 'config.json').read_text()) == other
    (tmp_path / begun).parent.mkdir(exist_ok=True)
    (tmp_path / begun).touch()
    with pytest.raises(ValueError, match='seed: 1 there, 0 now'):
        _prepare(tmp_path)


def test_a_run_may_go_on_elsewhere_where_that_is_allowed(tmp_path):
    _begin(tmp_path)
    moved = _CONFIG | {'mesh': {'data': 8}}
    _prepare(tmp_path, moved, may_differ=('mesh.',))
    with pytest.raises(ValueError, match=r'mesh.data: 1 there, 8 now'):
        _prepare(tmp_path, moved, may_differ=('mes', 'mesh'))


@pytest.mark.parametrize('name', ['config.json', 'git.json'])
def test_a_run_that_lost_a_file_is_refused_or_goes_on_with_the_loss_stated(
    tmp_path, name, caplog
):
    (_begin(tmp_path) / name).unlink()
    with pytest.raises(
        ValueError, match=f'lacks what its run wrote: {name}; the curves.*--accept_loss'
    ):
        _prepare(tmp_path, missing=lambda path: ['the curves'])
    assert not (tmp_path / name).exists()
    _prepare(tmp_path, accept_loss=True)
    assert f'lacks what its run wrote: {name}. The run goes on' in caplog.text
    # Until the next time, for files that it wrote are there.
    _prepare(tmp_path)


def test_a_run_that_has_not_begun_has_nothing_to_lose(tmp_path):
    (_prepare(tmp_path) / 'git.json').unlink()
    _prepare(tmp_path, missing=lambda path: ['the curves'])


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path):
    workdir = _begin(tmp_path)
    folders = [workdir, workdir / 'rollouts', workdir / 'evaluation']
    unrelated = []
    for folder in folders:
        folder.mkdir(exist_ok=True)
        (folder / '.curves.png.abc_1234.unfinished').touch()
        unrelated.append(folder / '.config.json.original')
        unrelated[-1].touch()
    # An export may be writing this one.
    unrelated.append(workdir / '.hf.abc_1234.unfinished')
    unrelated[-1].mkdir()
    before = set(workdir.rglob('*'))
    _prepare(tmp_path)
    removed = before - set(workdir.rglob('*'))
    assert removed == {f / '.curves.png.abc_1234.unfinished' for f in folders}
    assert all(other.exists() for other in unrelated)


@pytest.mark.parametrize('content', [b'\xff', b'[1]', b'{"revision": '])
def test_a_damaged_git_json_is_a_lost_one(tmp_path, content):
    (_begin(tmp_path) / 'git.json').write_bytes(content)
    with pytest.raises(ValueError, match=r'lacks what its run wrote: git\.json\.'):
        _prepare(tmp_path)


def test_process_0_alone_looks_for_what_is_lost(tmp_path, monkeypatch):
    """A shared file system may show another one later what was written there."""
    (_begin(tmp_path) / 'git.json').unlink()
    with pytest.raises(ValueError, match='lacks what its run wrote'):
        _prepare(tmp_path)
    monkeypatch.setattr('jax.process_index', lambda: 1)
    assert _prepare(tmp_path) == tmp_path


@pytest.mark.parametrize('content', [b'{"name": ', b'\xff', b'[]'])
def test_a_config_file_that_is_damaged_is_named(tmp_path, content):
    (_begin(tmp_path) / 'config.json').write_bytes(content)
    with pytest.raises(ValueError, match=r'config.json is not a config'):
        _prepare(tmp_path)


@pytest.mark.parametrize(
    'name',
    ['config.json', 'git.json', 'metrics.jsonl', 'sources.json', 'digests.jsonl'],
)
@pytest.mark.parametrize('make', [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_the_place_of_one_is_named(tmp_path, name, make):
    _begin(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    with pytest.raises(ValueError, match=f'{name} is in the way: a run makes a file'):
        _prepare(tmp_path)


@pytest.mark.parametrize('where', ['inner', 'checkpoints/5', 'a/b/c', '../link/inner'])
@pytest.mark.parametrize('begun', [True, False])
def test_a_run_inside_another_is_refused_and_leaves_nothing(tmp_path, where, begun):
    outer = tmp_path / 'outer'
    _prepare(outer)
    if begun:
        _begin(outer)
    (tmp_path / 'link').symlink_to(outer)
    before = sorted(outer.rglob('*'))
    with pytest.raises(ValueError, match=r'lies inside the run in .*(outer|link): '):
        _prepare(outer / where)
    assert sorted(outer.rglob('*')) == before
    # Beside it there may be others, and a model's directory is no run.
    _prepare(tmp_path / 'beside')
    (tmp_path / 'config.json').write_text('{}')
    _prepare(tmp_path / 'one_more')


def test_a_directory_below_a_file_is_refused_with_its_path(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(ValueError, match=r'file/run cannot be created'):
        _prepare(tmp_path / 'file' / 'run')


def test_a_directory_that_takes_no_files_is_refused():
    with pytest.raises(ValueError, match='/proc cannot be created or written'):
        _prepare('/proc', min_free_bytes=0)


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match='MiB left on its disk'):
        _prepare(tmp_path, min_free_bytes=1 << 60)
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_is_not_silently_a_local_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match='mount the bucket'):
        _prepare('gs://bucket/run')
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_is_refused_and_told_who_runs_there(tmp_path):
    script = (
        'import sys\n'
        'from passk_jax.runs.directory import prepare_workdir\n'
        'try:\n'
        '    with prepare_workdir(sys.argv[1], "{}"): print("entered")\n'
        'except ValueError as error: print(error)\n'
    )
    command = [sys.executable, '-c', script, str(tmp_path)]
    with prepare_workdir(tmp_path, '{}'):
        refused = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f'in use by process {os.getpid()} on' in refused.stdout
    allowed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert allowed.stdout == 'entered\n'


def test_a_note_of_the_holder_that_is_damaged_is_no_matter(tmp_path):
    with prepare_workdir(tmp_path, '{}'):
        for note in (b'[1]', b'\xff'):
            (tmp_path / '.lock_holder.json').write_bytes(note)
            with pytest.raises(ValueError, match='in use by another process'):
                _prepare(tmp_path)


@pytest.mark.parametrize('name', ['checkpoints', 'reference', 'rollouts', 'tokenizer'])
def test_a_file_in_place_of_a_directory_is_named_at_once(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f'/{name} is in the way'):
        _prepare(tmp_path)


def test_a_killed_run_does_not_lock_its_directory(tmp_path):
    script = (
        'import os, signal, sys\n'
        'from passk_jax.runs.directory import prepare_workdir\n'
        'with prepare_workdir(sys.argv[1], "{}"):\n'
        '    os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    killed = subprocess.run([sys.executable, '-c', script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert _prepare(tmp_path, {}) == tmp_path


def test_a_directory_that_is_gone_at_the_end_does_not_hide_why_a_run_ended(tmp_path):
    workdir = tmp_path / 'run'
    with pytest.raises(KeyError), prepare_workdir(workdir, '{}'):  # noqa: PT012
        (workdir / '.lock_holder.json').unlink()
        (workdir / '.lock_holder.json').mkdir()
        raise KeyError


def _git(path, *arguments):
    identity = ['-c', 'user.name=a', '-c', 'user.email=a@b.c']
    command = ['git', '-C', str(path), *identity, *arguments]
    subprocess.run(command, check=True, capture_output=True)


def _commit(path):
    """A repository with one file."""
    path.mkdir(exist_ok=True)
    _git(path, 'init')
    (path / 'code.py').write_bytes(b'a = 1\r\n')
    _git(path, 'add', '.')
    _git(path, 'commit', '-m', 'one')


@pytest.fixture
def code(tmp_path, monkeypatch):
    """The one file of a repository that the program believes to lie in."""
    _commit(tmp_path / 'code')
    file = tmp_path / 'code' / 'code.py'
    place = file.parent / 'runs' / 'directory.py'
    monkeypatch.setattr(directory, '__file__', str(place))
    return file


def test_changes_since_the_revision_are_kept_and_can_be_applied(code, tmp_path):
    changed = b'a = 2\r\n# \xff\n'
    code.write_bytes(changed)
    workdir = _prepare(tmp_path / 'run')
    _git(code.parent, 'checkout', '.')
    _git(code.parent, 'apply', str(workdir / 'git.diff'))
    assert code.read_bytes() == changed
    _git(code.parent, 'checkout', '.')
    _prepare(tmp_path / 'run')
    assert not (workdir / 'git.diff').exists(), 'it began anew, without changes'
    assert not json.loads((workdir / 'git.json').read_text())['dirty']


def test_the_changes_stay_those_that_the_run_began_with(code, tmp_path):
    code.write_text('a = 2\n')
    diff = _begin(tmp_path / 'run') / 'git.diff'
    before = diff.read_bytes()
    code.write_text('a = 3\n')
    _prepare(tmp_path / 'run')
    assert diff.read_bytes() == before


def test_very_large_changes_are_cut_and_it_says_so(code, tmp_path):
    code.write_text('a = 2\n' * 300_000)
    diff = (_prepare(tmp_path / 'run') / 'git.diff').read_bytes()
    assert 1 << 20 < len(diff) < (1 << 20) + 100
    assert re.search(rb'\n\[cut here: 1048576 of 2\d{6} bytes\]\n$', diff)


def test_code_that_was_sent_as_an_archive_has_the_revision_that_came_with_it(tmp_path):
    code = tmp_path / 'passk_jax'
    code.mkdir()
    sent = {'revision': 'ab12', 'dirty': True, 'diff_sha256': 'cd34'}
    (tmp_path / 'git.json').write_text(json.dumps(sent))
    (tmp_path / 'git.diff').write_bytes(b'changes')
    assert directory.git_state(code) == sent
    assert directory.git_diff(code) == b'changes'
    (tmp_path / 'git.json').write_text('{')
    assert directory.git_state(code) == dict.fromkeys(sent)


def test_the_git_state_follows_changes_and_is_null_without_git(tmp_path, monkeypatch):
    nothing = {'revision': None, 'dirty': None, 'diff_sha256': None}
    assert directory.git_state(tmp_path) == nothing

    _commit(tmp_path)
    clean = directory.git_state(tmp_path)
    assert len(clean['revision']) == 40
    assert (clean['dirty'], clean['diff_sha256']) == (False, None)
    (tmp_path / 'code.py').write_text('a = 2\n')
    changed = directory.git_state(tmp_path)
    assert changed['revision'] == clean['revision']
    assert changed['dirty']
    assert len(changed['diff_sha256']) == 64
    monkeypatch.setenv('PATH', '')
    assert directory.git_state(tmp_path) == nothing
