"""The parent's end of a worker, without a pool."""

import signal
import subprocess
import threading
import time

import pytest

from passk_jax.verifiers import worker_process
from passk_jax.verifiers.worker_process import WorkerProcess


def wait_for(worker):
    """The next thing a worker says: its start is ``None``."""
    was_started = worker.started
    end = time.monotonic() + 60
    while time.monotonic() < end:
        reply = worker.receive()
        if reply is not None or worker.started != was_started:
            return reply
        time.sleep(0.01)
    raise AssertionError('no reply')


@pytest.fixture
def worker():
    process = WorkerProcess(
        'tests.verifiers.judged:judge', memory_bytes=2**29, start_deadline_s=60.0
    )
    yield process
    process.kill()


def test_a_worker_is_idle_between_tasks(worker):
    assert not worker.idle
    assert worker.deadline > time.monotonic() + 30
    assert wait_for(worker) is None
    assert worker.idle
    worker.send(('a', 'a'), 5.0)
    assert (worker.idle, worker.task, worker.num_tasks) == (False, ('a', 'a'), 1)
    assert worker.deadline < time.monotonic() + 6
    assert wait_for(worker) == ('returned', True)
    assert worker.idle


def test_a_long_request_arrives_whole(worker):
    wait_for(worker)
    worker.send(('x' * 10**6, 'x' * 10**6), 20.0)
    assert wait_for(worker) == ('returned', True)


def test_the_end_of_a_process_is_seen(worker):
    wait_for(worker)
    assert not worker.has_ended
    worker.send(('a', 'kill:'), 20.0)
    with pytest.raises(EOFError):
        wait_for(worker)
    worker._process.wait()
    assert worker.has_ended
    worker.send(('a', 'a'), 20.0)  # Into a closed pipe.
    with pytest.raises(EOFError):
        worker.receive()
    worker.kill()


def test_a_worker_finds_its_function_below_a_directory_with_a_colon(
    tmp_path, monkeypatch
):
    (tmp_path / '12:30').mkdir()
    (tmp_path / '12:30' / 'judge_there.py').write_text('def judge(a, b): return a == b')
    monkeypatch.syspath_prepend(str(tmp_path / '12:30'))
    process = WorkerProcess(
        'judge_there:judge', memory_bytes=2**29, start_deadline_s=60.0
    )
    try:
        assert wait_for(process) is None
        assert process.started
        process.send(('a', 'a'), 20.0)
        assert wait_for(process) == ('returned', True)
    finally:
        process.kill()


BEGINS = '7 (a) b) S ' + ' '.join(['1'] * 19 + ['4096'] + ['1'] * 26 + ['0', '0'])
PLAIN = '7 (a) b) S ' + ' '.join(['1'] * 19 + ['4096'] + ['1'] * 28)
KERNEL = '7 (a) b) S ' + ' '.join(['1'] * 19 + ['0'] + ['1'] * 26 + ['0', '0'])


def process_in(folder, *, environ, stat):
    """What /proc says of a new process that sleeps."""
    process = subprocess.Popen(['sleep', '300'], start_new_session=True)
    (folder / str(process.pid)).mkdir()
    (folder / str(process.pid) / 'environ').write_text(environ)
    (folder / str(process.pid) / 'stat').write_text(stat)
    return process


def test_a_process_that_begins_a_program_ends_too(worker, tmp_path, monkeypatch):
    """Its environment is empty at first; that of others may stay so."""
    wait_for(worker)
    late = process_in(tmp_path, environ='', stat=BEGINS)
    processes = [
        process_in(tmp_path, environ='', stat=stat) for stat in (PLAIN, KERNEL)
    ]
    mark = f'A=1\0{worker_process._MARK}={worker._mark}\0'
    monkeypatch.setattr(worker_process, '_PROCESSES', tmp_path)
    timer = threading.Timer(
        0.3, (tmp_path / str(late.pid) / 'environ').write_text, [mark]
    )
    timer.start()
    try:
        worker.kill()
        assert late.wait(10) == -signal.SIGKILL
        assert [other.poll() for other in processes] == [None, None]
    finally:
        for process in (late, *processes):
            process.kill()
            process.wait()
