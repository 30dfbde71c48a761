"""Every second of a loop belongs to a phase, and none lasts for ever."""

import os
import subprocess
import sys
import threading

import pytest

from passk_jax.runs.phases import EXIT_HUNG, Phases
from passk_jax.runtime import peers
from tests import tiny


def test_seconds_belong_to_the_phase_that_they_are_spent_in():
    now = [10.0]
    phases = Phases(longest_seconds=0, clock=lambda: now[0])
    for name, seconds in [('decode', 2), ('verify', 1), ('decode', 4)]:
        phases.begin(name, 0)
        now[0] += seconds
    now[0] += 0.5
    assert phases.take()[0] == {'start': 0, 'decode': 6.5, 'verify': 1}
    now[0] += 3
    # The phase goes on, and its first seconds are not counted twice.
    assert phases.take()[0] == {'decode': 3}


def test_cpu_seconds_are_counted_beside_them():
    now, computed = [10.0], [3.0]
    phases = Phases(
        longest_seconds=0, clock=lambda: now[0], cpu_clock=lambda: computed[0]
    )
    for name, seconds in [('decode', 2), ('evaluate', 5), ('verify', 1)]:
        phases.begin(name, 0)
        computed[0] += seconds
    # An evaluation is no part of a step.
    phases.drop('evaluate')
    assert phases.take()[1] == 3
    assert phases.take()[1] == 0
    computed[0] += 0.5
    assert phases.take()[1] == 0.5
    assert Phases(longest_seconds=0).take()[1] >= 0


# Two processes of a run, or one, of which the second hangs in a phase.
_HANGS = r"""
import sys, time
from passk_jax.runtime import peers
from passk_jax.runs.phases import Phases

index, count, port = map(int, sys.argv[1:])

def stuck():
    time.sleep(60)

if count > 1:
    server = peers.listen() if index == 0 else None
    if server is not None:
        print(server.getsockname()[1], flush=True)
    peers.watch(index, count, server=server, address=('localhost', port))
last = index == count - 1
with Phases(longest_seconds=1 if last else 0) as phases:
    phases.begin('decode', 6)
    time.sleep(0.6)
    phases.begin('verify', 7)
    stuck()
"""


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, '-c', _HANGS, *map(str, arguments)],
        cwd=tiny.ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize('count', [1, 2])
def test_a_phase_without_an_end_ends_all_with_their_stacks(count):
    processes = [start(0, count, 0)]
    if count == 2:
        processes.append(start(1, 2, int(processes[0].stdout.readline())))
    errors = [process.communicate(timeout=60)[1] for process in processes]
    # The phase before had ended in time.
    what = 'verify of step 7 has gone on for 1 seconds\n'
    if count == 1:
        assert errors[0].endswith(f'error: {what}')
    else:
        assert errors[0].endswith(f'error: process 1 failed: {what}')
        assert errors[1].endswith(f'error: {what}')
    for process, text in zip(processes, errors, strict=True):
        assert process.returncode == EXIT_HUNG
        assert ' in stuck\n' in text


def test_while_nothing_moves_process_0_says_where_everybody_is(caplog):
    with Phases(longest_seconds=0, heartbeat_seconds=0.2) as phases:
        phases.begin('verify', 7)
        # Simulates a message from another process.
        peers._listener(1, ['gather', 7, 'b'])
        for _ in range(100):
            if caplog.messages:
                break
            threading.Event().wait(0.05)
        assert phases.slowest(7) is None
    (message, *_) = caplog.messages
    assert message.startswith('no news: verify of step 7 for 0 s: process 0 (')
    assert message.endswith('; gather of step 7 for 0 s: process 1 (b)')


def test_the_watchers_have_their_settings():
    watching = {'log__watchdog_seconds': 600, 'log__heartbeat_seconds': 7}
    phases = Phases.of(tiny.make_config(**watching).log)
    assert (phases._longest, phases._heartbeat) == (600, 7)


def test_while_there_is_news_there_is_no_heartbeat(caplog):
    with Phases(longest_seconds=0, heartbeat_seconds=0.2) as phases:
        for step in range(30):
            phases.begin('verify', step)
            threading.Event().wait(0.02)
    assert not caplog.messages


def test_what_ends_in_time_or_has_no_limit_goes_on():
    # Threads that the tests before left may end at any time.
    before = set(threading.enumerate())
    with Phases(longest_seconds=0):
        assert not set(threading.enumerate()) - before
    with Phases(longest_seconds=3600) as phases:
        phases.begin('decode', 0)
        (watcher,) = set(threading.enumerate()) - before
    watcher.join(5)
    assert not watcher.is_alive(), 'the thread outlives its run'
