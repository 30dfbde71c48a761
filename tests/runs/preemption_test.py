"""A signal is remembered once, a later one is obeyed at once, and nothing is left."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from passk_jax.runs import preemption
from passk_jax.runs.preemption import PreemptionGuard


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_seen_at_the_next_question_and_stays(number):
    with PreemptionGuard() as guard:
        assert not guard.requested(3)
        os.kill(os.getpid(), number)
        assert guard.requested(4)
        assert guard.requested(5)


def test_the_handlers_of_before_are_back_afterwards_even_after_an_error():
    def mine(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with contextlib.suppress(KeyError), PreemptionGuard():
            os.kill(os.getpid(), signal.SIGTERM)
            raise KeyError
        assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


_LOOP = """
import ctypes, sys
from passk_jax.runs.preemption import PreemptionGuard
with PreemptionGuard() as guard:
    print('ready', flush=True)
    while not guard.requested(0):
        pass
    print('asked', flush=True)
    ctypes.PyDLL(None).sleep(60)  # holds the interpreter, as compiled code may
"""


@pytest.mark.parametrize('second', [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_kills_at_once_even_inside_c_code(second):
    process = subprocess.Popen(
        [sys.executable, '-c', _LOOP], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == 'ready\n'
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == 'asked\n'
        time.sleep(0.2)
        process.send_signal(second)
        assert process.wait(timeout=20) == -second
    finally:
        process.kill()
        process.stdout.close()


def test_a_signal_that_comes_twice_at_once_is_one():
    process = subprocess.Popen(
        [sys.executable, '-c', _LOOP], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == 'ready\n'
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(0.1)
        assert process.stdout.readline() == 'asked\n'
        assert process.poll() is None
    finally:
        process.kill()
        process.stdout.close()


_DISTRIBUTED = """
import os, signal, sys, time
import jax
jax.distributed.initialize('localhost:' + sys.argv[1], 1, 0)
from passk_jax.runs.preemption import PreemptionGuard
with PreemptionGuard() as guard:
    assert not guard.requested(0)
    os.kill(os.getpid(), signal.SIGTERM)
    for step in range(1, 200):
        if guard.requested(step):
            print('asked')
            break
        time.sleep(0.05)
"""


def test_under_jax_distributed_the_processes_agree_through_jax():
    import socket

    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = str(free.getsockname()[1])
    result = subprocess.run(
        [sys.executable, '-c', _DISTRIBUTED, port],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stdout == 'asked\n', result.stderr


def test_the_exit_status_is_the_one_launchers_retry_without_counting():
    assert preemption.EXIT_PREEMPTED == 42
