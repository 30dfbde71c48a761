"""Of two processes one fails; the other, which waits for it, leaves at once."""

import time

import pytest

from passk_jax import host_failures
from tests.hosts_test import outputs, start_pair

_SCRIPT = """
import sys, time
from passk_jax import cli, hosts
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
    ('fails', 'who', 'status', 'own', 'said'),
    [
        ('hosts.gather(lambda: check(index))', 0, 2, 'error: a disk', 'a disk'),
        ('if index: raise KeyboardInterrupt', 1, 130, 'Traceback', 'KeyboardInterrupt'),
    ],
)
def test_both_leave_with_one_status_and_say_why(fails, who, status, own, said):
    pair = start_pair(_SCRIPT.replace('FAILS', fails))
    for process in pair:
        for line in process.stdout:
            if line == 'together\n':
                break
    began = time.monotonic()
    texts = [said for _, said in outputs(pair)]
    assert time.monotonic() - began < host_failures._PATIENCE_SECONDS / 2
    assert [process.returncode for process in pair] == [status] * 2, texts
    line = f'error: process {who} failed: {said}'
    assert own in texts[who]
    assert line not in texts[who]
    assert line in texts[1 - who]
    assert 'Traceback' not in texts[1 - who]


def test_alone_there_is_nobody_to_leave_with():
    host_failures.leave(1, 'alone', text='')
