"""Alone a process agrees with itself; tests/multihost_test.py has two."""

import json
import math
import socket
import subprocess
import sys
import types

import jax
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

def fail():
    if index:
        raise KeyError('mine')

said = [hosts.agreed(5 + index)]
said += hosts.gather(lambda: [float('nan'), 0.1, '\0\ud800', 'x' * 999 * index])
try:
    hosts.gather(fail)
except Exception as e:
    said.append(f'{type(e).__name__}: {e}')
print(json.dumps(said))
"""


def test_two_processes_agree_and_know_what_each_has_made():
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
    lines = [process.communicate(timeout=120)[0].splitlines()[-1] for process in pair]
    made = [[math.nan, 0.1, '\0\ud800', 'x' * 999 * index] for index in range(2)]
    expected = [
        [5, *made, "InputError: process 1 failed: KeyError: 'mine'"],
        [5, *made, "KeyError: 'mine'"],
    ]
    # As text, because NaN is not equal to NaN.
    assert lines == [json.dumps(each) for each in expected]
