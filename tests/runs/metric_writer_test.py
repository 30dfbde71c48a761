"""No metrics line is lost, none is there twice, and equal runs give equal bytes."""

import dataclasses
import json
import math
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.report.run_data import read_lines
from passk_jax.runs.metric_writer import MetricWriter
from passk_jax.runs.records import Lines, missing_records
from tests import tiny
from tests.runs.trackers_test import tensorboard_events


def _open(path, *, resume_step=0, **log):
    log = dataclasses.replace(tiny.make_config().log, **log)
    writer = MetricWriter(path, log=log, resume_step=resume_step, config={'name': 'a'})
    writer.stage = 2
    return writer


def _run(path, *, start, stop):
    with _open(path, resume_step=start) as writer:
        for step in range(start, stop):
            if step % 2 == 0:
                writer.write(step, {'pass_at_1': step / 7}, split='validation')
                writer.write_evaluation('validation', step, [{'id': 1, 'n': step}])
            writer.write(step, {'reward': jnp.float32(step / 3)}, split='train')
            writer.write_diagnostics(step, {'mass': np.arange(2) + step / 3})
            writer.write_timing(step, {'seconds': 0.5})
            writer.write_rollouts(step, [{'step': step}])


def _contents(path):
    return {
        p.relative_to(path).as_posix(): p.read_bytes()
        for p in sorted(path.rglob('*'))
        if p.is_file()
    }


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize('resume_step', [0, 1, 2, 4])
def test_a_resumed_run_leaves_the_bytes_of_an_uninterrupted_one(tmp_path, resume_step):
    uninterrupted, resumed = tmp_path / 'whole', tmp_path / 'resumed'
    for path, stop in ((uninterrupted, 6), (resumed, 5)):
        path.mkdir()
        _run(path, start=0, stop=stop)
    _run(resumed, start=resume_step, stop=6)
    assert _contents(resumed) == _contents(uninterrupted)


@pytest.mark.parametrize('cut', range(1, 60, 7))
def test_a_line_cut_short_by_a_kill_is_made_again_once(tmp_path, cut):
    uninterrupted, killed = tmp_path / 'whole', tmp_path / 'killed'
    for path in (uninterrupted, killed):
        path.mkdir()
        _run(path, start=0, stop=4)
    metrics = killed / 'metrics.jsonl'
    metrics.write_bytes(metrics.read_bytes()[:-cut])
    _run(killed, start=2, stop=4)
    assert _contents(killed) == _contents(uninterrupted)


def test_what_was_made_after_the_checkpoint_is_gone_when_the_run_resumes(tmp_path):
    _run(tmp_path, start=0, stop=6)
    _open(tmp_path, resume_step=3).close()
    assert [line['step'] for line in _lines(tmp_path / 'metrics.jsonl')] == [
        0, 0, 1, 2, 2,
    ]  # fmt: skip
    for name in ('timing', 'diagnostics'):
        lines = _lines(tmp_path / f'{name}.jsonl')
        assert [line['step'] for line in lines] == [0, 1, 2]
    assert sorted(p.name for p in (tmp_path / 'rollouts').iterdir()) == [
        f'step_{step:08d}.jsonl' for step in range(3)
    ]
    assert sorted(p.name for p in (tmp_path / 'evaluation').iterdir()) == [
        'validation_step_00000000.jsonl',
        'validation_step_00000002.jsonl',
    ]


def _missing(path, *, resume_step=4, diagnostics_every=0):
    return missing_records(
        Lines(path),
        resume_step=resume_step,
        splits_due=lambda step: ('validation',) if step % 2 == 0 else (),
        rollouts_every=1,
        diagnostics_every=diagnostics_every,
    )


def test_everything_before_the_resumed_step_must_be_there(tmp_path):
    _run(tmp_path, start=0, stop=4)
    assert _missing(tmp_path) == []
    metrics = tmp_path / 'metrics.jsonl'
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(''.join(lines[1:-1]))
    (tmp_path / 'rollouts' / 'step_00000001.jsonl').unlink()
    (tmp_path / 'evaluation' / 'validation_step_00000002.jsonl').unlink()
    assert _missing(tmp_path) == [
        "metrics.jsonl: 'validation' of step 0",
        'rollouts/: of step 1',
        "evaluation/: 'validation' of step 2",
        "metrics.jsonl: 'train' of step 3",
    ]
    assert _missing(tmp_path, resume_step=1) == [
        "metrics.jsonl: 'validation' of step 0"
    ]
    assert _missing(tmp_path, resume_step=0) == []


def test_diagnostics_must_be_there_of_the_steps_that_have_them(tmp_path):
    _run(tmp_path, start=0, stop=4)
    path = tmp_path / 'diagnostics.jsonl'
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join([*lines[:1], *lines[3:]]))
    assert _missing(tmp_path) == []
    assert _missing(tmp_path, diagnostics_every=3) == []
    assert _missing(tmp_path, diagnostics_every=2) == ['diagnostics.jsonl: of step 2']
    lines[1] = '{"step": 1, "mass": "high"}\n'
    path.write_text(''.join(lines))
    with pytest.raises(ValueError, match=r'diagnostics.jsonl, line 2 is damaged'):
        _missing(tmp_path)


def test_only_numbers_of_a_diagnosis_are_shown(tmp_path):
    values = {'a': 0.5, 'b': jnp.arange(2), 'c': math.nan}
    with _open(tmp_path, tensorboard=True) as writer:
        writer.write_diagnostics(3, values)
    assert (tmp_path / 'diagnostics.jsonl').read_text() == (
        '{"step": 3, "a": 0.5, "b": [0, 1]}\n'
    )
    events = tensorboard_events(tmp_path / 'tensorboard')
    tags = [value.tag for event in events for value in event.summary.value]
    assert tags == ['diagnostics/a']


def test_of_a_long_loss_the_first_steps_are_named(tmp_path):
    (words, *_) = _missing(tmp_path, resume_step=100)
    assert words == "metrics.jsonl: 'train' of step 0, 1, 2, 3, 4 and 95 more"


def test_a_run_that_took_a_step_had_a_checkpoint(tmp_path):
    assert _missing(tmp_path, resume_step=None) == []
    with _open(tmp_path) as writer:
        writer.write(0, {}, split='validation')
        assert _missing(tmp_path, resume_step=None) == []
        writer.write(0, {}, split='train')
    (words,) = _missing(tmp_path, resume_step=None)
    assert words == 'every checkpoint in checkpoints/'


@pytest.mark.parametrize(
    'line',
    [
        b'{"step": 0, "spl',
        b'{"step": 0, "split": "\xff"}',
        b'{"step": "0"}',
        b'{"split": "train"}',
        b'{"step": 0, "split": []}',
        b'{"step": 0, "split": "train", "reward": "high"}',
        b'[0]',
        b'7',
    ],
)
def test_a_damaged_line_is_an_error_with_its_number(tmp_path, line):
    _run(tmp_path, start=0, stop=3)
    metrics = tmp_path / 'metrics.jsonl'
    lines = metrics.read_bytes().splitlines(keepends=True)
    lines[1] = line + b'\n'
    metrics.write_bytes(b''.join(lines))
    for read in (lambda: _open(tmp_path, resume_step=3), lambda: _missing(tmp_path)):
        with pytest.raises(ValueError, match=r'metrics.jsonl, line 2 is damaged'):
            read()
    assert metrics.read_bytes() == b''.join(lines)


def test_resuming_takes_only_line_feeds_for_the_ends_of_lines(tmp_path):
    line = '{"step": 0, "split": "a\u2028b\x85c"}\n'
    (tmp_path / 'metrics.jsonl').write_text(line + '{"step": 1}\n')
    _open(tmp_path, resume_step=1).close()
    assert (tmp_path / 'metrics.jsonl').read_text() == line


def test_a_line_survives_a_kill_right_after_it_was_written(tmp_path):
    script = (
        'import os, signal, sys\n'
        'from tests.runs.metric_writer_test import _open\n'
        'writer = _open(sys.argv[1], tensorboard=True)\n'
        'writer.write(0, {"reward": 0.5}, split="train")\n'
        'os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    subprocess.run([sys.executable, '-c', script, str(tmp_path)], check=False)
    assert (tmp_path / 'metrics.jsonl').read_text() == (
        '{"step": 0, "stage": 2, "split": "train", "reward": 0.5}\n'
    )


def test_values_are_sorted_and_have_the_fewest_digits_that_give_them_back(tmp_path):
    values = {
        'z': jnp.float32(0.1),
        'a': 0.1,
        'm': np.int64(3),
        'b': jnp.bfloat16(0.5),
        'c': np.float64(1 / 3),
        'd': jnp.float32(1 / 3),
        'e': np.float32(1e-30),
    }
    with _open(tmp_path) as writer:
        writer.write(7, values, split='test')
    assert (tmp_path / 'metrics.jsonl').read_text() == (
        '{"step": 7, "stage": 2, "split": "test", "a": 0.1, "b": 0.5, '
        '"c": 0.3333333333333333, "d": 0.33333334, "e": 1e-30, "m": 3, "z": 0.1}\n'
    )


def test_undefined_values_are_left_out_and_infinite_ones_refused(tmp_path):
    with _open(tmp_path) as writer:
        writer.write(0, {'a': math.nan, 'b': None, 'c': jnp.nan}, split='train')
        with pytest.raises(ValueError, match='loss of step 1 is inf'):
            writer.write(1, {'loss': jnp.float32(jnp.inf)}, split='train')
        writer.write_rollouts(1, [{'entropy': math.nan, 'n': np.arange(2)}])
    (line,) = _lines(tmp_path / 'metrics.jsonl')
    assert line == {'step': 0, 'stage': 2, 'split': 'train'}
    dump = tmp_path / 'rollouts' / 'step_00000001.jsonl'
    assert _lines(dump) == [{'entropy': None, 'n': [0, 1]}]


@pytest.mark.parametrize(
    'text', ['\ud800', 'a\u2028b\r\n\x85', '\x00\x1b[31m', '"}\n{']
)
def test_whatever_a_response_is_its_record_is_read_again(text, tmp_path):
    with _open(tmp_path) as writer:
        writer.write_rollouts(1, [{'response': text}, {'response': ''}])
    rows = read_lines(tmp_path / 'rollouts' / 'step_00000001.jsonl')
    assert rows == [{'response': text}, {'response': ''}]


def test_a_metric_cannot_take_the_name_of_the_step(tmp_path):
    with _open(tmp_path) as writer, pytest.raises(ValueError, match=r"\['step'\]"):
        writer.write(0, {'step': 3}, split='train')


def test_a_directory_that_takes_no_files_is_an_error_with_its_path():
    with pytest.raises(ValueError, match='cannot write in /proc'):
        _open('/proc')


def test_a_full_disk_is_an_error_with_the_file(tmp_path):
    with _open(tmp_path) as writer:
        writer._streams['metrics'].close()
        writer._streams['metrics'] = open('/dev/full', 'wb')  # noqa: SIM115
        with pytest.raises(ValueError, match=r'cannot write /dev/full: .*No space'):
            writer.write(0, {'a': 1}, split='train')
        # Nothing is left to flush at closing.
        writer._streams['metrics'] = open('/dev/null', 'wb')  # noqa: SIM115


class _FullDisk:
    """A stream of tensorboardX's, say, or of Python's, with something to flush."""

    name = 'events'

    def write(self, text):
        raise OSError(28, 'No space left on device')

    def close(self):
        raise OSError(28, 'No space left on device while closing')


def test_the_error_of_a_full_disk_outlives_those_of_closing(tmp_path, caplog):
    """tensorboardX raises its own when it closes, and so does a stream."""
    writer = _open(tmp_path, tensorboard=True)
    timing = writer._streams['timing']
    writer._streams['metrics'].close()
    writer._trackers[0].close()
    writer._streams['metrics'] = writer._trackers[0].writer = _FullDisk()
    with pytest.raises(ValueError, match=r'cannot write events: .*on device$'), writer:
        writer.write(0, {'a': 1}, split='train')
    assert timing.closed, 'nor do they keep anything from closing'
    assert caplog.text.count('while closing') == 2


def test_a_disk_that_is_full_only_at_closing_is_an_error_too(tmp_path):
    writer = _open(tmp_path)
    writer._streams['metrics'].close()
    writer._streams['metrics'] = _FullDisk()
    with pytest.raises(ValueError, match=r'cannot write in /.*while closing'):
        writer.close()


def test_a_run_does_not_wait_for_a_thread_of_tensorboard_that_has_ended(tmp_path):
    """A full disk ends it; it took ten values more, and then the run stood still."""
    with _open(tmp_path, tensorboard=True) as writer:
        writer._trackers[0].writer.file_writer.event_writer._worker.stop()
        values = {f'a{i}': 1.0 for i in range(30)}
        written = threading.Thread(
            target=writer.write,
            args=(0, values),
            kwargs={'split': 'train'},
            daemon=True,
        )
        written.start()
        written.join(timeout=20)
        assert not written.is_alive()


class _Tracker:
    """Remembers what it gets."""

    def __init__(self):
        self.rows = []

    def write(self, values, step):
        self.rows.append((step, values))

    def close(self):
        self.rows.append('closed')


def test_a_tracker_gets_the_numbers_under_the_names_of_their_kind(tmp_path):
    tracker = _Tracker()
    with _open(tmp_path, aliases='trl') as writer:
        writer._trackers.append(tracker)
        writer.write(1, {'response_length': 3.0, 'stopped': 0.25}, split='train')
        writer.write(1, {'response_length': 4.0}, split='test')
        writer.write_diagnostics(1, {'mass': np.arange(2), 'stopped': 0.5})
        writer.write_timing(1, {'seconds': 2.0})
    assert tracker.rows == [
        (
            1,
            {
                'train/response_length': 3.0,
                'train/stopped': 0.25,
                'train/completions/mean_length': 3.0,
                'train/completions/clipped_ratio': 0.75,
            },
        ),
        (1, {'test/response_length': 4.0}),
        (1, {'diagnostics/stopped': 0.5}),
        (1, {'timing/seconds': 2.0}),
        'closed',
    ]
    assert 'completions' not in (tmp_path / 'metrics.jsonl').read_text()


def test_other_processes_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr('jax.process_index', lambda: 1)
    _run(tmp_path, start=0, stop=2)
    assert list(tmp_path.iterdir()) == []
