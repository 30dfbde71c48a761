"""Alone a process agrees with itself; tests/multihost_test.py has two."""

import socket
import subprocess
import sys

import pytest

from passk_jax import hosts
from tests import tiny


@pytest.mark.parametrize(
    'value',
    ['many', 'host,2,0', 'host:1234', 'host:1234,2', 'host:1234,2,2', 'a,b:1,2,0'],
)
def test_what_is_neither_alone_nor_a_place_is_refused(value):
    with pytest.raises(
        ValueError, match="must be 'auto' or 'address:port,count,index'"
    ):
        hosts.join_hosts(value)


def test_alone_there_is_nobody_to_wait_for_or_to_ask():
    hosts.join_hosts('')
    hosts.barrier('alone')
    assert hosts.agreed(7) == 7


_SCRIPT = """
import sys
from passk_jax import hosts
hosts.join_hosts(f'localhost:{sys.argv[1]},2,{sys.argv[2]}')
hosts.barrier('together')
print(hosts.agreed(5 + int(sys.argv[2])))
"""


def test_the_number_is_that_of_process_0_on_every_process():
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    pair = [
        subprocess.Popen(
            [sys.executable, '-c', _SCRIPT, str(port), str(index)],
            cwd=tiny.ROOT,
            env=tiny.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    # The last line: gloo says something of its own before.
    said = [process.communicate(timeout=120)[0].split()[-1] for process in pair]
    assert said == ['5', '5']
