import importlib.util
import pathlib
import subprocess
import sys

import pytest

from passk_jax.cli import passk


def run(*arguments: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    """Runs what the script of an installed package runs; ``cwd`` is not on its path."""
    return subprocess.run(
        [sys.executable, '-P', '-c', f'{IMPORT}; passk.main()', *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
    )


ROOT = pathlib.Path(__file__).resolve().parents[2]
IMPORT = f'import sys; sys.path.append({str(ROOT)!r}); from passk_jax.cli import passk'


@pytest.mark.parametrize('name', passk.COMMANDS)
def test_every_command_is_a_module_that_runs(name):
    package = importlib.util.find_spec(f'passk_jax.{name}')
    module = package.origin
    if package.submodule_search_locations:
        module = pathlib.Path(package.submodule_search_locations[0]) / '__main__.py'
    assert 'cli.run(main)' in pathlib.Path(module).read_text()


def test_every_module_with_a_command_is_one_of_them():
    sources = (ROOT / 'passk_jax').rglob('*.py')
    runs = [path for path in sources if '\n    cli.run(main)' in path.read_text()]
    names = {p.parent.name if p.stem == '__main__' else p.stem for p in runs}
    assert names == set(passk.COMMANDS)


def test_a_command_runs_from_any_directory_as_its_module_does(tmp_path):
    arguments = ['--task=reasoning_gym', '--index=-1']
    ours = run('tasks', *arguments, cwd=tmp_path)
    module = subprocess.run(
        [sys.executable, '-m', 'passk_jax.tasks', *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ours.returncode == module.returncode == 2
    assert ours.stderr == module.stderr
    assert 'must lie in' in ours.stderr


@pytest.mark.slow
def test_a_command_without_its_flags_shows_its_example(tmp_path):
    ended = run('train', cwd=tmp_path)
    assert ended.returncode == 2
    assert 'error: --config is required, for example:' in ended.stderr


@pytest.mark.parametrize(
    ('arguments', 'status', 'stream', 'words'),
    [
        ([], 2, 'stdout', 'usage: passk COMMAND'),
        (['--help'], 0, 'stdout', 'usage: passk COMMAND'),
        (['--version'], 0, 'stdout', '.'),
        (['trian'], 2, 'stderr', "error: unknown command 'trian'; try train\n"),
        (['setup'], 2, 'stderr', 'try train, evaluate, compare, score, export'),
        (['--config=x'], 2, 'stderr', 'unknown command'),
    ],
)
def test_what_is_no_command_is_answered(
    arguments, status, stream, words, monkeypatch, capsys
):
    monkeypatch.setattr(sys, 'argv', ['passk', *arguments])
    monkeypatch.setattr(passk.importlib.metadata, 'version', lambda name: '1.2')
    if arguments == ['--version']:
        passk.main()
    else:
        with pytest.raises(SystemExit) as exit_:
            passk.main()
        assert exit_.value.code == status
    assert words in getattr(capsys.readouterr(), stream[3:])
