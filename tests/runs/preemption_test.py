"""A signal is remembered once, a later one is obeyed at once, and nothing is left."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from passk_jax.runs import preemption
from passk_jax.runs.preemption import PreemptionGuard


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_seen_at_the_next_question_and_stays(number):
    with PreemptionGuard() as guard:
        assert not guard.interrupted()
        os.kill(os.getpid(), number)
        assert guard.interrupted()
        assert guard.interrupted()


def test_the_handlers_of_before_are_back_afterwards_even_after_an_error():
    def handler(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, handler)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with contextlib.suppress(KeyError), PreemptionGuard():
            os.kill(os.getpid(), signal.SIGTERM)
            raise KeyError
        assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


_LOOP = """
import ctypes, sys
from passk_jax.runs.preemption import PreemptionGuard
with PreemptionGuard() as guard:
    print('ready', flush=True)
    while not guard.interrupted():
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


# Process 1 is told to stop.
_DISTRIBUTED = """
import os, signal, sys, time
import jax
index = int(sys.argv[2])
jax.distributed.initialize('localhost:' + sys.argv[1], 2, index)
from passk_jax.runs.preemption import PreemptionGuard
with PreemptionGuard() as guard:
    for question in range(2000):
        if question == 5 and index == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        if guard.interrupted():
            assert guard.interrupted()
            print('asked', question)
            break
        # One is ahead of the other, as hosts are.
        time.sleep(0.01 * (1 + index))
"""


def test_under_jax_distributed_all_processes_stop_at_the_same_question():
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = str(free.getsockname()[1])
    pair = [
        subprocess.Popen(
            [sys.executable, '-c', _DISTRIBUTED, port, str(index)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in pair]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith('asked ')


def test_the_exit_status_is_the_one_launchers_retry_without_counting():
    assert preemption.EXIT_PREEMPTED == 42
