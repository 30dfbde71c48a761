"""A process that fails or is gone takes the others with it, each with one line."""

import os
import subprocess
import sys
import time

import pytest

from passk_jax.runtime import peers
from tests import tiny
from tests.runtime.hosts_test import outputs, start_pair

# Reads commands: end well, or fail.
_PROCESS = """
import os, socket, sys
from passk_jax.runtime import peers
peers._NEWS_SECONDS = 0.1
index, server = int(sys.argv[1]), None
if index == 0:
    server = socket.create_server(('localhost', int(sys.argv[2])))
    print('listens', flush=True)
peers.watch(index, 3, server=server, address=('localhost', int(sys.argv[2])))
peers.listen_to(lambda process, news: print(process, news, flush=True))
print('ready', flush=True)
said = sys.stdin.readline()
if said == 'tell\\n':
    peers.tell(['here', index])
    said = sys.stdin.readline()
if said == 'listen\\n':
    peers.listen_to(lambda process, news: print('later:', process, news, flush=True))
    said = sys.stdin.readline()
if said == 'fail\\n':
    peers.fail(2 + index, 'a disk', text='error: of its own\\n')
if said == 'break off\\n':
    peers._watch._connections[0].sendall(b'{"left"')
    os._exit(1)
if said == 'follow\\n':
    peers.fail(1, 'elsewhere', text='error: it follows\\n', elsewhere=True)
"""


@pytest.fixture
def run():
    """Three processes that watch one another."""
    port = str(tiny.free_port())
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
        if index == 0:
            assert processes[0].stdout.readline() == 'listens\n'
    for process in processes:
        assert process.stdout.readline() == 'ready\n'
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
    # An error that follows from that is not the one to show.
    say(run[1], 'fail')
    run[victim].kill()
    for index in {0, 1, 2} - {victim}:
        line = f'error: process {victim} of 3 is gone: start all of them again\n'
        assert ends(run[index]) == (43, line)


def test_whoever_is_gone_in_the_middle_of_a_line_takes_the_others_with_it(run):
    say(run[1], 'break off')
    line = 'error: process 1 of 3 is gone: start all of them again\n'
    assert [ends(run[index]) for index in (0, 2)] == [(43, line)] * 2


@pytest.mark.parametrize('who', [0, 1])
def test_an_error_of_one_ends_all_with_its_status(run, who):
    say(run[2], 'follow')
    say(run[who], 'fail')
    line = f'error: process {who} failed: a disk\n'
    for index, process in enumerate(run):
        local_error = 'error: of its own\n'
        assert ends(process) == (2 + who, local_error if index == who else line)


def test_process_0_hears_the_news_of_all(run):
    for index in (2, 0, 1):
        say(run[index], 'tell')
        assert run[0].stdout.readline() == f"{index} ['here', {index}]\n"
    # Who begins to listen hears what the others told last.
    say(run[0], 'listen')
    heard = {run[0].stdout.readline() for _ in range(2)}
    assert heard == {f"later: {index} ['here', {index}]\n" for index in (1, 2)}
    # Who has told something can still end well, or badly.
    say(run[1], 'end')
    assert ends(run[1]) == (0, '')
    run[2].kill()
    line = 'error: process 2 of 3 is gone: start all of them again\n'
    assert ends(run[0]) == (43, line)


def test_who_ends_well_ends_nobody(run):
    for process in (run[1], run[0], run[2]):
        say(process, 'end')
        assert ends(process) == (0, '')


def test_of_errors_that_all_have_the_first_counts(run):
    for process in run:
        say(process, 'fail')
    status, outputs = zip(*map(ends, run), strict=True)
    assert len(set(status)) == 1
    first = status[0] - 2
    line = f'error: process {first} failed: a disk\n'
    assert outputs[first] == 'error: of its own\n'
    assert outputs[:first] + outputs[first + 1 :] == (line, line)


def test_alone_there_is_nobody_to_leave_with():
    peers.fail(1, 'alone', text='')


def test_alone_one_hears_oneself(monkeypatch):
    heard = []
    monkeypatch.setattr(peers, '_listener', lambda *news: heard.append(news))
    peers.tell('here')
    assert heard == [(0, 'here')]


_SCRIPT = """
import sys, time
from passk_jax import cli
from passk_jax.runtime import hosts
from passk_jax.errors import InputError

port, index = sys.argv[1], int(sys.argv[2])

def check(index):
    if not index:
        raise InputError('a disk')

def main():
    hosts.join_hosts(f'localhost:{port},2,{index}')
    hosts.barrier('together')
    print('together', flush=True)
    FAILS
    hosts.barrier('never')

sys.argv = sys.argv[:1]
cli.run(main)
"""


@pytest.mark.parametrize(
    ('fails', 'who', 'status', 'local_error', 'reason'),
    [
        ('hosts.gather(lambda: check(index))', 0, 2, 'error: a disk', 'a disk'),
        ('if index: raise KeyboardInterrupt', 1, 130, 'Traceback', 'KeyboardInterrupt'),
    ],
)
def test_both_leave_with_one_status_and_say_why(
    fails, who, status, local_error, reason
):
    pair = start_pair(_SCRIPT.replace('FAILS', fails))
    for process in pair:
        for line in process.stdout:
            if line == 'together\n':
                break
    began = time.monotonic()
    texts = [output for _, output in outputs(pair)]
    assert time.monotonic() - began < peers._PATIENCE_SECONDS / 2
    assert [process.returncode for process in pair] == [status] * 2, texts
    line = f'error: process {who} failed: {reason}'
    assert local_error in texts[who]
    assert line not in texts[who]
    assert line in texts[1 - who]
    assert 'Traceback' not in texts[1 - who]
