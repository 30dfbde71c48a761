"""Alone a process agrees with itself; tests/multihost_test.py trains with two."""

import json
import math
import subprocess
import sys
import types
from unittest import mock

import jax
import numpy as np
import pytest
from jax._src.clusters import cloud_tpu_cluster

from passk_jax import sharding
from passk_jax.runtime import hosts
from tests import tiny


@pytest.mark.parametrize(
    'value',
    [
        *('many', 'host,2,0', 'host:1234', 'host:1234,2', 'host:1234,2,2', 'a,b:1,2,0'),
        *(
            'host:\u0661\u0662,2,0',
            'host:1,\u0662,0',
            'a b:1,2,0',
            ':1,2,0',
            'a:b:1,2,0',
        ),
        *('host:1,0,0', 'host:1,2,-1', '[::1:1,2,0', 'host:1,2,0\n', 'host:,2,0'),
        *(f'host:{"9" * 5000},2,0', f'host:1,{"9" * 5000},0', 'http://host:1,2,0'),
    ],
)
def test_what_is_neither_alone_nor_a_place_is_refused(value):
    with pytest.raises(
        ValueError, match="must be 'auto' or 'address:port,count,index'"
    ):
        hosts.join_hosts(value)


def test_alone_there_is_nobody_to_wait_for_or_to_ask():
    hosts.join_hosts('')
    hosts.barrier('alone')
    assert hosts.broadcast(lambda: [7]) == [7]
    assert hosts.gather(lambda: {'a': (1,)}) == [{'a': (1,)}]
    with pytest.raises(KeyError, match='here'):
        hosts.gather(lambda: {}['here'])


def test_where_jax_finds_nobody_auto_is_refused(monkeypatch):
    def initialize(**_):
        raise ValueError('coordinator_address should be defined.')

    monkeypatch.setattr(jax.distributed, 'initialize', initialize)
    message = '--hosts=auto: JAX finds no other process here .coordinator_address'
    with pytest.raises(ValueError, match=message):
        hosts.join_hosts('auto')


@pytest.mark.parametrize(
    ('names', 'platforms', 'joins'),
    [
        ('a,b', 'tpu,cpu', True),
        ('a,b', None, True),
        ('a,b', 'cpu', False),
        ('a', 'tpu', False),
        (None, 'tpu', False),
    ],
)
def test_on_a_pod_all_workers_are_the_default(monkeypatch, names, platforms, joins):
    """A worker of several waits for the others, unless it leaves the chips alone."""
    joined = []
    monkeypatch.setattr(jax.distributed, 'initialize', lambda *a, **_: joined.append(a))
    monkeypatch.setattr(hosts, '_watch_peers', lambda: joined.append('watched'))
    monkeypatch.setattr(cloud_tpu_cluster, 'running_in_cloud_tpu_vm', True)
    # No machine that says what it is.
    monkeypatch.setenv('TPU_SKIP_MDS_QUERY', '1')
    monkeypatch.delenv('TPU_PROCESS_ADDRESSES', raising=False)
    if names is None:
        monkeypatch.delenv('TPU_WORKER_HOSTNAMES', raising=False)
    else:
        monkeypatch.setenv('TPU_WORKER_HOSTNAMES', names)
    monkeypatch.setenv('MEGASCALE_NUM_SLICES', '1')
    before = jax.config.jax_platforms
    jax.config.update('jax_platforms', platforms)
    try:
        hosts.join_hosts('')
    finally:
        jax.config.update('jax_platforms', before)
    assert joined == ([(), 'watched'] if joins else [])


def test_what_a_later_jax_hides_of_the_processes_is_only_warned_of(monkeypatch, caplog):
    monkeypatch.setattr(hosts, '_join', pytest.fail)
    before = jax.config.jax_platforms
    jax.config.update('jax_platforms', 'tpu')
    try:
        with monkeypatch.context() as patch:
            patch.delattr('jax._src.clusters.GkeTpuCluster')
            hosts.join_hosts('')
    finally:
        jax.config.update('jax_platforms', before)
    with monkeypatch.context() as patch:
        patch.delattr('jax._src.distributed.global_state')
        hosts._watch_peers()
    pod, state = caplog.messages
    assert 'does not tell whether this is a TPU pod (cannot import' in pod
    assert 'hides its state of the processes' in state


_LONE = r"""
import sys
from passk_jax.runtime import hosts

hosts._SILENT_SECONDS, hosts._JOIN_SECONDS = 0.2, 1
hosts.join_hosts(f'localhost:{sys.argv[1]},3,{sys.argv[2]}')
"""


def test_a_worker_started_alone_says_for_whom_it_waited_and_ends():
    pair = start_pair(_LONE)
    for index, (_, errors) in enumerate(outputs(pair)):
        for doing in ('waits', 'waited 1 seconds'):
            assert (
                f'process {index} {doing} for all 3 processes at localhost:' in errors
            )
        assert 'Check failure' not in errors
        assert pair[index].returncode == 43


@pytest.mark.parametrize('value', ['4', '0,4', '1,0', '1,4,1', 'a,b', '1, 4', '-1,4'])
def test_an_expectation_is_two_numbers(value):
    with pytest.raises(ValueError, match="must be 'processes,chips'"):
        hosts.expect_chips(value)


def test_a_run_with_fewer_or_more_than_expected_is_refused():
    count = jax.device_count()
    hosts.expect_chips('')
    hosts.expect_chips(f'1,{count}')
    for value in (f'2,{count}', f'1,{2 * count}'):
        message = f'found 1 processes with {count} chips, expected {value[0]} with'
        with pytest.raises(ValueError, match=message):
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
import jax
import numpy as np
from passk_jax.runtime import hosts

index = int(sys.argv[2])
hosts.join_hosts(f'localhost:{sys.argv[1]},2,{index}')
hosts.barrier('together')
mesh = jax.make_mesh((2,), ('batch',))
row = jax.NamedSharding(mesh, jax.P('batch'))
three = jax.device_put(np.float32(3), jax.NamedSharding(mesh, jax.P()))
row = jax.make_array_from_callback((2, 1), row, lambda i: np.full((1, 1), i[0].start))

def fail(error):
    if index:
        raise error

said = [hosts.broadcast(lambda: 5 + index)]
said += hosts.gather(lambda: [float('nan'), 0.1, '\0\ud800', 'x' * 999 * index])
for error in (KeyError('mine'), KeyboardInterrupt()):
    try:
        hosts.gather(lambda: fail(error))
    except BaseException as e:
        said.append(f'{type(e).__name__}: {e}')
with jax.set_mesh(mesh):
    said.append([x.tolist() for x in hosts.fetch((three, row, three + 1, row + 1))])
print(json.dumps(said))
"""


def test_two_processes_agree_and_know_what_each_has_made():
    pair = start_pair(_SCRIPT)
    # The last line: gloo says something of its own before.
    lines = [output.splitlines()[-1] for output, _ in outputs(pair)]
    values = [[math.nan, 0.1, '\0\ud800', 'x' * 999 * index] for index in range(2)]
    elsewhere = 'ElsewhereError: process 1 failed'
    fetched = [3.0, [[0], [1]], 4.0, [[1], [2]]]
    expected = [
        [
            5,
            *values,
            f"{elsewhere}: KeyError: 'mine'",
            f'{elsewhere}: KeyboardInterrupt',
        ],
        [5, *values, "KeyError: 'mine'", 'KeyboardInterrupt: '],
    ]
    expected = [[*items, fetched] for items in expected]
    # Compared as text, because NaN is not equal to NaN.
    assert lines == [json.dumps(items) for items in expected]


def outputs(pair):
    """What each of the processes says, until they end."""
    try:
        return [process.communicate(timeout=60) for process in pair]
    finally:
        for process in pair:
            process.kill()


def start_pair(script):
    """Starts two processes with the arguments port and index."""
    port = tiny.free_port()
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


def test_what_each_process_holds_is_fetched_alone_and_the_rest_in_one_program(
    monkeypatch,
):
    mesh = sharding.make_mesh(data=4, fsdp=2, rollout=1, tensor=1)
    some = jax.device_put(np.arange(8.0), jax.NamedSharding(mesh, jax.P('fsdp')))
    everywhere = jax.device_put(np.arange(3), jax.NamedSharding(mesh, jax.P()))
    tree = {'a': some, 'b': [everywhere, (some + 1, everywhere + 1)], 'c': None}
    expected = jax.device_get(tree)
    programs = mock.Mock(side_effect=jax.jit)
    monkeypatch.setattr('jax.process_count', lambda: 2)
    monkeypatch.setattr('jax.jit', programs)
    for part, count in ((tree, 1), (tree['b'][:1], 0)):
        programs.reset_mock()
        fetched = hosts.fetch(part)
        assert programs.call_count == count
        jax.tree.map(np.testing.assert_array_equal, fetched, part)
    assert jax.tree.structure(fetched) == jax.tree.structure(expected['b'][:1])


def test_what_is_gathered_is_in_the_order_of_processes(monkeypatch):
    """Here process 1 has the first devices, as may be on a pod."""
    sent = []

    def allgather(array):
        sent.append(np.array(array))
        remote = np.zeros_like(array)
        if len(sent) == 1:
            remote[:] = 1, 17
        else:
            text = b'{"made": "theirs"}'[:17]
            remote[: len(text)] = np.frombuffer(text, np.uint8)
        return np.stack([remote, array])

    monkeypatch.setattr(hosts.multihost_utils, 'process_allgather', allgather)
    monkeypatch.setattr('jax.process_count', lambda: 2)
    monkeypatch.setattr('jax.process_index', lambda: 0)
    assert hosts._gather_bytes(b'mine') == [b'mine', b'{"made": "theirs"']
    sent.clear()
    # Two processes must not claim the same index.
    monkeypatch.setattr('jax.process_index', lambda: 1)
    with pytest.raises(AssertionError, match='1, 17'):
        hosts._gather_bytes(b'mine')


@pytest.fixture
def joined(monkeypatch):
    """The addresses that JAX is told, which does nothing."""
    monkeypatch.setattr(hosts, '_NAME_SECONDS', 0)
    calls = []
    monkeypatch.setattr(hosts, '_join', lambda *arguments: calls.append(arguments))
    return calls


@pytest.mark.parametrize('port', [0, 65536, 99999])
@pytest.mark.parametrize('index', [0, 1])
def test_a_port_that_there_cannot_be_is_refused(joined, port, index):
    with pytest.raises(ValueError, match=rf'port={port} must lie in \[1, 65535\]'):
        hosts.join_hosts(f'localhost:{port},2,{index}')
    assert not joined


@pytest.mark.parametrize('host', ['nowhere.invalid', 'a..b', 'x' * 64 + '.b', '[::g]'])
@pytest.mark.parametrize('index', [0, 1])
def test_a_host_that_does_not_exist_is_named_at_once(joined, host, index):
    with pytest.raises(ValueError, match='there is no host='):
        hosts.join_hosts(f'{host}:1234,2,{index}')
    assert not joined


def test_a_name_that_comes_to_be_known_is_waited_for(joined, monkeypatch):
    monkeypatch.setattr(hosts, '_NAME_SECONDS', 60)
    monkeypatch.setattr(hosts.time, 'sleep', lambda seconds: None)
    answers = iter([OSError('not yet'), OSError('not yet'), None])

    def look_up(*arguments, **settings):
        if error := next(answers):
            raise error

    monkeypatch.setattr(hosts.socket, 'getaddrinfo', look_up)
    hosts.join_hosts('late:1234,2,1')
    assert joined == [('late:1234', 2, 1)]


@pytest.mark.parametrize('address', ['localhost', '127.0.0.1', '[::1]'])
def test_a_port_in_use_is_refused_where_process_0_would_listen(joined, address):
    with hosts.peers.listen() as server:
        port = server.getsockname()[1]
        with pytest.raises(ValueError, match=f'port={port} cannot be listened at'):
            hosts.join_hosts(f'{address}:{port},2,0')
        assert not joined
        # The others connect there.
        hosts.join_hosts(f'{address}:{port},2,1')
    hosts.join_hosts(f'{address}:{port},2,0')
    assert joined == [(f'{address}:{port}', 2, 1), (f'{address}:{port}', 2, 0)]


def test_bad_hosts_are_one_line_of_the_command(tmp_path):
    with hosts.peers.listen() as server:
        port = server.getsockname()[1]
        process = tiny.start(
            'train', '--config=tests/tiny.py', f'--workdir={tmp_path / "run"}',
            f'--hosts=localhost:{port},2,0',
        )  # fmt: skip
        errors = process.communicate(timeout=300)[1]
    assert process.returncode == 2
    (line,) = [line for line in errors.splitlines() if line.startswith('error: ')]
    assert f'{port=} cannot be listened at' in line
    assert errors.splitlines()[-1] == line
    assert not (tmp_path / 'run').exists()
