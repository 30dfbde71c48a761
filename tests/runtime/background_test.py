"""A thread does jobs, and neither its errors nor its end are those of the process."""

import subprocess
import sys
import threading
import time

import pytest

from passk_jax.runtime import background
from passk_jax.runtime.background import Background
from tests import tiny
from tests.slow import slow_rows


@pytest.fixture
def jobs():
    background = Background()
    yield background
    background.plan({})
    background.wait()


class Gate:
    """A job that waits until it may end."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.may_end.wait(60)


def test_jobs_run_in_order_and_once(jobs):
    ran = []
    table = {name: (lambda name=name: ran.append(name)) for name in 'abc'}
    jobs.plan(table)
    jobs.wait()
    jobs.plan(table)
    jobs.wait()
    assert ran == ['a', 'b', 'c']


def test_a_new_plan_drops_what_has_not_begun(jobs):
    ran, gate = [], Gate()
    jobs.plan({'a': gate, 'b': lambda: ran.append('b')})
    assert gate.begun.wait(60)
    jobs.plan({'a': gate, 'c': lambda: ran.append('c')})
    gate.may_end.set()
    jobs.wait()
    assert ran == ['c']


def test_a_claim_waits_for_a_job_that_is_under_way_alone(jobs, monkeypatch, caplog):
    monkeypatch.setattr(background, '_SILENT_SECONDS', 0.01)
    ran, gate = [], Gate()
    jobs.plan({'a': gate, 'b': lambda: ran.append('b')})
    assert gate.begun.wait(60)
    # It has not begun: the caller compiles by itself.
    jobs.claim('b')
    jobs.claim('unknown')
    assert not gate.may_end.is_set()
    with caplog.at_level('INFO', logger='absl'):
        threading.Timer(0.2, gate.may_end.set).start()
        jobs.claim('a')
    assert gate.may_end.is_set()
    assert 'waiting for the program' in caplog.text
    jobs.wait()
    assert not ran


def test_an_error_is_told_once_and_the_next_job_runs(jobs, caplog):
    ran = []

    def fail():
        raise RuntimeError('no memory\nand much more')

    jobs.plan({'a': fail, 'b': sys.exit, 'c': lambda: ran.append('c')})
    jobs.wait()
    jobs.claim('a')
    assert ran == ['c']
    (record,) = caplog.records
    assert record.message.endswith('so decoding waits: no memory')


def test_no_thread_is_left_without_jobs(jobs):
    jobs.plan({'a': lambda: None})
    jobs.wait()
    time.sleep(0.1)
    assert 'compiler' not in [x.name for x in threading.enumerate()]


ENDS = """
import atexit, sys, threading, time
from passk_jax.runtime import background
background._LEAVE_SECONDS = 0.1
atexit.register(print, 'goodbye')
begun = threading.Event()
def job():
    begun.set()
    time.sleep(600)
with background.leaving_with_status():
    background.BACKGROUND.plan({'a': job, 'b': job})
    begun.wait()
    %s
"""


@pytest.mark.parametrize(
    ('end', 'status'),
    [
        ('pass', 0),
        ('sys.exit()', 0),
        ('sys.exit(42)', 42),
        ('sys.exit("a message")', 1),
        ('raise ValueError', 1),
        ('raise KeyboardInterrupt', 130),
    ],
)
def test_a_command_ends_with_its_status_while_a_job_goes_on(end, status):
    result = run(ENDS % end)
    assert result.returncode == status
    assert result.stdout == 'goodbye\n'


INTERRUPTED = """
import contextlib, os, signal, sys, threading, time
from passk_jax.runtime import background
background._LEAVE_SECONDS = 600 if %r else 0.1
# A shell without job control starts its children deaf to it.
signal.signal(signal.SIGINT, signal.default_int_handler)
begun = threading.Event()
def job():
    begun.set()
    time.sleep(600)
def interrupt():
    while not waits(sys._current_frames()[threading.main_thread().ident]):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
def waits(frame):
    found = []
    while frame:
        found.append(frame.f_code.co_name)
        frame = frame.f_back
    return {'wait_for', '_leave'} <= {*found}
command = background.leaving_with_status() if %r else contextlib.nullcontext()
with command:
    background.BACKGROUND.plan({'a': job})
    begun.wait()
    threading.Thread(target=interrupt, daemon=True).start()
    sys.exit(42)
"""


@pytest.mark.parametrize(('command', 'status'), [(True, 42), (False, 130)])
def test_an_interrupt_ends_the_wait_for_a_job(command, status):
    result = run(INTERRUPTED % (command, command))
    assert result.returncode == status
    assert not result.stderr


COMPILES = """
import sys, threading
import jax
from passk_jax.runtime import background
background._LEAVE_SECONDS = %r
compiling = threading.Event()
def listen(event, *_, **__):
    if 'jaxpr_to_mlir' in event: compiling.set()
jax.monitoring.register_event_duration_secs_listener(listen)
@jax.jit
def many(x):
    for i in range(150): x = jax.nn.softmax(x @ x * i)
    return x
def job():
    many.lower(jax.ShapeDtypeStruct((8, 8), 'float32')).compile()
    print('compiled')
with background.leaving_with_status():
    background.BACKGROUND.plan({'a': job})
    compiling.wait()
    sys.exit(42)
"""


@pytest.mark.parametrize(
    ('seconds', 'printed'), [(0.0, ''), *slow_rows([(60.0, 'compiled\n')])]
)
def test_a_process_that_ends_inside_of_the_compiler_does_not_abort(seconds, printed):
    result = run(COMPILES % seconds)
    assert result.returncode == 42, result.stderr
    assert result.stdout == printed


def run(script):
    command = [sys.executable, '-c', script]
    return subprocess.run(
        command, cwd=tiny.ROOT, capture_output=True, text=True, timeout=100
    )
