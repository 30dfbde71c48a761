import inspect
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from passk_jax.tasks.maze import dataset

_CONFIG = {
    'generator': 'percolation',
    'wall_probability': 0.35,
    'min_path': 3,
    'max_path': 10,
    'sizes': {'test': (5,), 'validation': (), 'train': (4, 5)},
    'counts': {'test': (30,), 'validation': (), 'train': (20, 200)},
    'seed': 0,
}

_PREPARE = f"""
import sys
from passk_jax.tasks.maze import dataset
config = dataset.MazeConfig.create(**{_CONFIG!r})
"""

_OPEN = """
mazes = dataset.open_split(config, 'train', data_dir=sys.argv[1])
assert len(mazes) == 220 and mazes == tuple(config.generate()['train'])
"""

# Stops for ever in the middle of the examples.
_HANG = """
import time
generate = dataset.PasskMaze._generate_examples
def hang(self, mazes):
    for count, example in enumerate(generate(self, mazes)):
        if count == 100:
            print('half-way', flush=True)
            time.sleep(1000)
        yield example
dataset.PasskMaze._generate_examples = hang
"""


def _config(**changes):
    return dataset.MazeConfig.create(**(_CONFIG | changes))


def _start(script, data_dir):
    return subprocess.Popen(
        [sys.executable, '-c', _PREPARE + script, str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_mazes_come_back_in_the_order_they_were_generated(tmp_path):
    config = _config()
    generated = config.generate()
    for split in ('train', 'test'):
        mazes = dataset.open_split(config, split, data_dir=tmp_path)
        assert list(mazes) == generated[split]


def test_a_prepared_data_set_is_not_generated_again(tmp_path, monkeypatch):
    config = _config()
    first = dataset.open_split(config, 'train', data_dir=tmp_path)
    monkeypatch.setattr(dataset.MazeConfig, 'generate', None)
    dataset._read.cache_clear()
    assert dataset.open_split(config, 'train', data_dir=tmp_path) == first


def test_files_are_array_records_of_this_version(tmp_path):
    config = _config()
    dataset.open_split(config, 'train', data_dir=tmp_path)
    home = tmp_path / 'passk_maze' / config.name / dataset.GENERATOR_VERSION
    assert len(list(home.glob('*.array_record*'))) == 2


def test_any_other_parameter_is_another_data_set():
    names = {_config().name}
    changes = {
        'generator': 'wilson',
        'wall_probability': 0.3,
        'min_path': 2,
        'max_path': 9,
        'sizes': {**_CONFIG['sizes'], 'test': (6,)},
        'counts': {**_CONFIG['counts'], 'test': (31,)},
        'seed': 1,
    }
    assert changes.keys() == _CONFIG.keys()
    arguments = inspect.signature(dataset.maze_generator.generate_splits).parameters
    assert changes.keys() == arguments.keys()
    names |= {_config(**{key: value}).name for key, value in changes.items()}
    assert len(names) == len(changes) + 1


def test_nothing_is_said_while_a_data_set_is_made(tmp_path):
    process = _start(_OPEN, tmp_path)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert stdout + stderr == ''


def test_a_kill_while_preparing_leaves_nothing_that_is_used(tmp_path):
    process = _start(_HANG + _OPEN, tmp_path)
    assert process.stdout.readline() == 'half-way\n', process.stderr.read()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    home = tmp_path / 'passk_maze' / _config().name
    assert list(home.glob('incomplete.*'))
    assert not (home / dataset.GENERATOR_VERSION).exists()
    mazes = dataset.open_split(_config(), 'train', data_dir=tmp_path)
    assert list(mazes) == _config().generate()['train']
    assert not list(home.glob('incomplete.*'))


@pytest.mark.slow
def test_processes_that_start_together_share_one_data_set(tmp_path):
    processes = [_start(_OPEN, tmp_path) for _ in range(3)]
    for process in processes:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    home = tmp_path / 'passk_maze' / _config().name
    assert not list(home.glob('incomplete.*'))


@pytest.mark.slow
def test_a_process_that_waits_reads_what_the_other_made(tmp_path):
    first = _start(_HANG + _OPEN, tmp_path)
    assert first.stdout.readline() == 'half-way\n'
    second = _start("print('ready', flush=True)" + _OPEN, tmp_path)
    assert second.stdout.readline() == 'ready\n'
    time.sleep(1)
    assert second.poll() is None  # It waits for the lock of the first.
    first.kill()
    first.communicate(timeout=60)
    _, stderr = second.communicate(timeout=120)
    assert second.returncode == 0, stderr


def test_a_directory_that_cannot_be_used_is_named(tmp_path):
    occupied = tmp_path / 'file'
    occupied.write_text('')
    with pytest.raises(ValueError, match=f'data directory {occupied} cannot be used'):
        dataset.open_split(_config(), 'train', data_dir=occupied)


def test_a_prepared_data_set_may_be_read_only(tmp_path):
    config = _config()
    first = dataset.open_split(config, 'train', data_dir=tmp_path)
    home = tmp_path / 'passk_maze' / config.name
    (home / 'prepare.lock').unlink(missing_ok=True)
    before = sorted(os.listdir(home))
    dataset._read.cache_clear()
    assert dataset.open_split(config, 'train', data_dir=tmp_path) == first
    assert sorted(os.listdir(home)) == before  # No lock, nothing written.


def test_no_directory_means_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    mazes = dataset.open_split(_config(), 'test', data_dir='')
    assert len(mazes) == 30
    assert (pathlib.Path(tmp_path) / '.cache' / 'passk_jax' / 'passk_maze').is_dir()


def test_mazes_that_cannot_be_generated_leave_no_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset.maze_generator, '_PATIENCE', (1000, 20))
    config = _config(min_path=24, max_path=25)
    for _ in range(2):
        with pytest.raises(ValueError, match='0 found'):
            dataset.open_split(config, 'train', data_dir=tmp_path)
