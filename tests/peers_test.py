"""When a process of a run is gone, the others end in seconds, each with one line."""

import os
import socket
import subprocess
import sys
import time

import pytest

from tests import tiny

# Reads commands: end well, or fail with a status.
_PROCESS = """
import socket, sys
from passk_jax import peers
peers._NEWS_SECONDS = 0.1
index, server = int(sys.argv[1]), None
if index == 0:
    server = socket.create_server(('localhost', int(sys.argv[2])))
peers.watch(index, 3, server=server, address=('localhost', int(sys.argv[2])))
print('ready', flush=True)
said = sys.stdin.readline()
if said == 'fail\\n':
    peers.fail(2, 'error: of its own\\n')
"""


@pytest.fixture
def run():
    """Three processes that watch one another."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = str(probe.getsockname()[1])
    processes = []
    for index in range(3):
        processes.append(
            subprocess.Popen(
                [sys.executable, '-c', _PROCESS, str(index), port],
                cwd=tiny.ROOT,
                env=os.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        assert processes[-1].stdout.readline() == 'ready\n'
    # Process 0 takes the others in one by one.
    time.sleep(0.5)
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def say(process, what):
    process.stdin.write(f'{what}\n')
    process.stdin.flush()


def ends(process):
    """The exit status of a process and what it said; it must end soon."""
    process.wait(timeout=10)
    return process.returncode, process.stderr.read()


@pytest.mark.parametrize('victim', [0, 2])
def test_whoever_is_killed_takes_the_others_with_it(run, victim):
    run[victim].kill()
    for index in {0, 1, 2} - {victim}:
        line = (
            f'error: process {victim} of 3 is gone, so process {index} ends too: '
            'start all of them again\n'
        )
        assert ends(run[index]) == (43, line)


def test_an_error_of_one_keeps_its_status_and_ends_the_others(run):
    say(run[1], 'fail')
    assert ends(run[1]) == (2, 'error: of its own\n')
    for index in (0, 2):
        status, said = ends(run[index])
        assert status == 43
        assert said.startswith('error: process 1 of 3 is gone')


def test_who_ends_well_ends_nobody(run):
    for process in (run[1], run[0], run[2]):
        say(process, 'end')
        assert ends(process) == (0, '')


def test_an_error_that_all_have_is_reported_by_all(run):
    for process in run:
        say(process, 'fail')
    assert [ends(process) for process in run] == [(2, 'error: of its own\n')] * 3
