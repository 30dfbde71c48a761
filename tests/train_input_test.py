"""Bad input to a whole run: what it says, and that nothing good is lost."""

import contextlib
import errno
import os
import pathlib
import re
import resource
import shutil
from unittest import mock

import pytest

from passk_jax import train
from passk_jax.runs import commits
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.setup import first_problem
from tests import tiny


def test_a_directory_below_a_file_is_refused(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(ValueError, match=r'file/run cannot be created or written'):
        tiny.run(tiny.make_config(), tmp_path / 'file' / 'run')


def test_a_directory_of_another_config_is_refused_and_untouched(finished_run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    other = tiny.make_config(advantage__k=3)
    with pytest.raises(ValueError, match=r'advantage.k: 2 there, 3 now'):
        tiny.run(other, workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)


def test_a_new_run_whose_gold_is_judged_wrong_ends_before_step_0(
    finished_run, tmp_path, monkeypatch
):
    monkeypatch.setattr(first_problem, 'right_response', lambda *_: 'no idea')
    with pytest.raises(ValueError, match="as a response, 'no idea', is judged wrong"):
        tiny.run(tiny.make_config(), tmp_path / 'new')
    assert not (tmp_path / 'new' / 'metrics.jsonl').exists()
    assert not any((tmp_path / 'new' / 'checkpoints').iterdir())
    # A run that has begun shows no first problem.
    shutil.copytree(finished_run, tmp_path / 'begun')
    assert tiny.run(tiny.make_config(), tmp_path / 'begun')


def test_a_run_goes_on_from_before_a_corrupted_checkpoint(
    finished_run, tmp_path, caplog
):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    corrupt(workdir / 'checkpoints' / '5' / 'opt_state')
    assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)
    words = (
        r'checkpoints/5 is corrupted: .*\. The run goes on from step 4; .*/5\.corrupt'
    )
    assert re.search(words, caplog.text)


def test_a_run_without_an_intact_checkpoint_is_refused(finished_run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    for step in (4, 5):
        corrupt(workdir / 'checkpoints' / str(step) / 'params')
    with pytest.raises(ValueError, match=r'checkpoints/4 is corrupted.*: none; to'):
        tiny.run(tiny.make_config(), workdir)


def corrupt(directory: pathlib.Path) -> None:
    """Flips a bit of every byte in the middle of each file of data.

    Orbax leaves bytes that it never reads, so that a single bit may change nothing.
    """
    for file in directory.rglob('d/*'):
        content = bytearray(file.read_bytes())
        for place in range(len(content) // 4, len(content) // 2):
            content[place] ^= 1
        file.write_bytes(content)


@contextlib.contextmanager
def files_at_most(size: int):
    """No file can grow beyond this; what the kernel says is as of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_stops_the_run_and_keeps_the_last_checkpoint(
    finished_run, tmp_path
):
    """At the last file of a checkpoint; runs/saving_test.py fills a real disk."""
    write = commits.atomic_write_text

    def write_until_full(path, text):
        if 'checkpoints/4' in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, text)

    workdir = tiny.warm_copy(finished_run, tmp_path)
    message = r'checkpoints/4 could not be saved .*\[0, 2\].*No space left on device'
    with (
        mock.patch.object(commits, 'atomic_write_text', write_until_full),
        pytest.raises(ValueError, match=message),
    ):
        tiny.run(tiny.make_config(), workdir)
    assert Checkpoints(workdir / 'checkpoints', keep=2).steps() == (0, 2)
    assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)


def test_metrics_that_cannot_be_written_stop_the_run(finished_run, tmp_path):
    """A line of metrics that is cut short is made again."""
    evaluation = train.RunLog.evaluation

    def on_a_full_disk(self, step, split, values, rows):
        size = (tmp_path / 'metrics.jsonl').stat().st_size
        full = files_at_most(size + 10) if step == 4 else contextlib.nullcontext()
        with full:
            evaluation(self, step, split, values, rows)

    workdir = tiny.warm_copy(finished_run, tmp_path)
    with (
        mock.patch.object(train.RunLog, 'evaluation', on_a_full_disk),
        pytest.raises(ValueError, match=r'cannot write .*metrics.jsonl'),
    ):
        tiny.run(tiny.make_config(), workdir)
    assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)


@pytest.mark.slow
def test_prompts_beyond_the_limit_are_an_error_or_dropped_as_asked(tmp_path):
    """A 3x3 maze is 12 tokens, a 4x4 maze of the validation split 20."""
    limit = tiny.ONLY_STEPS | {
        'eval__every': 1,
        'train__steps': 1,
        'data__max_prompt_tokens': 12,
    }
    with pytest.raises(ValueError, match=r'problem 2 has 20 tokens.*max_prompt_tokens'):
        tiny.run(tiny.make_config(**limit, data__overlong='error'), tmp_path)
    # The directory is not lost to the config that could not run.
    assert tiny.run(tiny.make_config(**limit, data__overlong='drop'), tmp_path)
    assert [r['num_problems'] for r in tiny.metrics(tmp_path, 'validation')] == [2, 2]


def test_a_limit_that_no_prompt_meets_is_an_error(tmp_path):
    config = tiny.make_config(data__max_prompt_tokens=11, data__overlong='drop')
    with pytest.raises(ValueError, match=r'all 48 prompts are longer.*12 tokens'):
        tiny.run(config, tmp_path)


@pytest.mark.parametrize('split', ['train', 'test'])
def test_an_empty_split_is_an_error(split, tmp_path):
    empty = {f'task__params__{split}_{field}': () for field in ('sizes', 'counts')}
    with pytest.raises(ValueError, match=rf"split '{split}' of the maze task is empty"):
        tiny.run(tiny.make_config(**empty), tmp_path)


def test_a_batch_of_more_problems_than_there_are_is_an_error(tmp_path):
    config = tiny.make_config(task__params__train_counts=(7,))
    with pytest.raises(ValueError, match=r'num_prompts=8 is more than the 7 problems'):
        tiny.run(config, tmp_path)


def test_a_mesh_that_does_not_fit_the_devices_is_an_error(tmp_path):
    config = tiny.make_config(mesh__data=3, mesh__fsdp=1)
    with pytest.raises(ValueError, match=r"'data': 3.* does not fit 1 devices"):
        tiny.run(config, tmp_path)


def test_the_loop_names_them(tmp_path, caplog):
    config = tiny.make_config(model__param_dtype='bfloat16')
    stop = mock.patch.object(train, 'begin_run', side_effect=KeyError)
    with stop, pytest.raises(KeyError):
        tiny.run(config, tmp_path)
    assert 'model.param_dtype=bfloat16' in caplog.text
