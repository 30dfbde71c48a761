"""Alone a process agrees with itself; tests/multihost_test.py trains with two."""

import json
import math
import socket
import subprocess
import sys
import types

import jax
import numpy as np
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
    assert hosts.gather(lambda: {'a': (1,)}) == [{'a': (1,)}]
    with pytest.raises(KeyError, match='here'):
        hosts.gather(lambda: {}['here'])


@pytest.mark.parametrize('value', ['4', '0,4', '1,0', '1,4,1', 'a,b', '1, 4', '-1,4'])
def test_an_expectation_is_two_numbers(value):
    with pytest.raises(ValueError, match="must be 'processes,chips'"):
        hosts.expect_chips(value)


def test_a_run_with_fewer_or_more_than_expected_is_refused():
    count = jax.device_count()
    hosts.expect_chips('')
    hosts.expect_chips(f'1,{count}')
    for value in (f'2,{count}', f'1,{2 * count}'):
        said = f'found 1 processes with {count} chips, expected {value[0]} with'
        with pytest.raises(ValueError, match=said):
            hosts.expect_chips(value)


def test_the_two_cores_of_a_chip_are_one_chip(monkeypatch):
    places = [(s, (x, 0, 0)) for s in range(2) for x in range(2) for _ in range(2)]
    cores = [
        types.SimpleNamespace(platform='tpu', slice_index=s, coords=x, id=i)
        for i, (s, x) in enumerate(places)
    ]
    monkeypatch.setattr(jax, 'devices', lambda: cores)
    hosts.expect_chips('1,4')


_SCRIPT = r"""
import json, sys
from passk_jax import hosts

index = int(sys.argv[2])
hosts.join_hosts(f'localhost:{sys.argv[1]},2,{index}')
hosts.barrier('together')

def fail(error):
    if index:
        raise error

said = [hosts.agreed(5 + index)]
said += hosts.gather(lambda: [float('nan'), 0.1, '\0\ud800', 'x' * 999 * index])
for error in (KeyError('mine'), KeyboardInterrupt()):
    try:
        hosts.gather(lambda: fail(error))
    except BaseException as e:
        said.append(f'{type(e).__name__}: {e}')
print(json.dumps(said))
"""


def test_two_processes_agree_and_know_what_each_has_made():
    pair = start_pair(_SCRIPT)
    # The last line: gloo says something of its own before.
    lines = [said.splitlines()[-1] for said, _ in outputs(pair)]
    made = [[math.nan, 0.1, '\0\ud800', 'x' * 999 * index] for index in range(2)]
    elsewhere = 'ElsewhereError: process 1 failed'
    expected = [
        [5, *made, f"{elsewhere}: KeyError: 'mine'", f'{elsewhere}: KeyboardInterrupt'],
        [5, *made, "KeyError: 'mine'", 'KeyboardInterrupt: '],
    ]
    # As text, because NaN is not equal to NaN.
    assert lines == [json.dumps(each) for each in expected]


def outputs(pair):
    """What each of the processes says, until they end."""
    try:
        return [process.communicate(timeout=60) for process in pair]
    finally:
        for process in pair:
            process.kill()


def start_pair(script):
    """Starts two processes with the arguments port and index."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        port = probe.getsockname()[1]
    return [
        subprocess.Popen(
            [sys.executable, '-c', script, str(port), str(index)],
            cwd=tiny.ROOT,
            env=tiny.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def test_what_is_gathered_is_in_the_order_of_processes(monkeypatch):
    """Here process 1 has the first devices, as may be on a pod."""
    sent = []

    def allgather(mine):
        sent.append(np.array(mine))
        theirs = np.zeros_like(mine)
        if len(sent) == 1:
            theirs[:] = 1, 17
        else:
            text = b'{"made": "theirs"}'[:17]
            theirs[: len(text)] = np.frombuffer(text, np.uint8)
        return np.stack([theirs, mine])

    monkeypatch.setattr(hosts.multihost_utils, 'process_allgather', allgather)
    monkeypatch.setattr('jax.process_count', lambda: 2)
    monkeypatch.setattr('jax.process_index', lambda: 0)
    assert hosts._gather_bytes(b'mine') == [b'mine', b'{"made": "theirs"']
    sent.clear()
    # Neither may take the place of the other.
    monkeypatch.setattr('jax.process_index', lambda: 1)
    with pytest.raises(AssertionError, match='1, 17'):
        hosts._gather_bytes(b'mine')
