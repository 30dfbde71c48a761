"""The programs of scheduled sampling: memory, and what crosses devices."""

import dataclasses
import math
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.sampling import plain_loop
from passk_jax.sampling.scheduled import device
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.state import State
from passk_jax.types import Prompts
from tests.models import oracle

P, S, N, T = 4, 8, 64, 257


def lowered(policy, *, mesh=None, stride: int = 1, **options):
    """:func:`device.advance` of a whole batch, and the shapes it is called with."""
    params = policies.param_shapes(
        policy, mesh or sharding.one_device_mesh(jax.devices()[0])
    )
    request = plain_loop.checked_request(
        policy,
        num_rollouts=N,
        max_response_tokens=T,
        options=sampling_options(**options),
        stop_tokens=(),
    )
    ints = jax.ShapeDtypeStruct((P,), jnp.int32)
    prompts = Prompts(jax.ShapeDtypeStruct((P, S), jnp.int32), ints, ints)
    params = jax.eval_shape(lambda x: policies.prepare_decoding(policy, x), params)
    problems = jax.eval_shape(
        lambda *args: device.prefill(policy, *args),
        params,
        prompts,
        jax.random.key(0),
    )
    shards = (1, 1)
    if mesh is not None:
        shards = sharding.num_shards('batch', P), sharding.num_shards('rollouts', N)
    decoder = Decoder(policy, stride, params, request)
    state = jax.eval_shape(
        lambda *args: device.begin(*args, num_prompts=P, rows=N, ring=T - 1),
        decoder,
        problems,
        jax.ShapeDtypeStruct((P, shards[1], 2), jnp.int32),
    )
    stop = StopWhen(np.int32(0), np.zeros(shards[0], bool), np.int32(100))
    arguments = decoder, problems, state, stop
    if mesh is not None and mesh.size == 1:
        # Otherwise the program would be for the default device.
        where = sharding.replicated(mesh)
        arguments = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), arguments
        )
    return device.advance.lower(*arguments), state


def num_bytes(tree) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def test_the_cache_is_written_where_it_lies(two_layers):
    policy, _ = two_layers
    program, state = lowered(policy)
    memory = program.compile().memory_analysis()
    assert memory.alias_size_in_bytes >= num_bytes(state.layers)
    assert memory.alias_size_in_bytes == pytest.approx(num_bytes(state), rel=0.01)


@pytest.mark.parametrize('sizes', [(2, 2, 1, 1), (2, 1, 4, 1)])
def test_only_the_question_whether_to_go_on_crosses_devices(policy, sizes):
    count = np.prod(sizes)
    mesh = sharding.make_mesh(
        **dict(zip(sharding.MESH_AXES, sizes, strict=True)),
        devices=jax.devices()[:count],
    )
    with jax.set_mesh(mesh):
        text = lowered(policy, mesh=mesh)[0].compile().as_text()
    collectives = re.findall(
        r'= (\S+) (all-\w+|collective-\w+|reduce-scatter)(?:-start)?\(', text
    )
    inside = [line for line in text.splitlines() if 'decode/while/body' in line]
    assert inside
    assert not [line for line in inside if re.search(r' (all|collective)-\w+\(', line)]
    assert all('[]' in shape or len(shape) < 40 for shape, _ in collectives)


def test_a_free_row_has_no_tokens_to_read():
    empty = State(*[None] * 4, layers=(), index=jnp.int32(9), record=None, steps=None)
    state = dataclasses.replace(
        empty, rollout=np.array([[3, -1], [0, -1]]), position=np.array([[5, 5], [0, 1]])
    )
    cache = device.cache_of(state)
    np.testing.assert_array_equal(cache.lengths, [[4, 0], [0, 0]])


def test_no_two_rows_write_to_one_place():
    # Two slots of one problem, with free rows in both.
    rollout = np.array([[3, -1, -1], [5, -1, 4], [-1, -1, -1]])
    numbers = np.asarray(device.record_numbers(rollout, 6))
    np.testing.assert_array_equal(numbers[rollout >= 0], [3, 5, 4])
    past = numbers[rollout < 0]
    assert (past >= 6).all()
    assert len(set(past)) == len(past)


@pytest.mark.parametrize(
    'how', [{}, {'temperature': 0.0}, {'top_p': 0.9, 'top_k': 50, 'min_p': 0.01}]
)
def test_no_logits_cross_devices(how):
    policy = oracle.tiny_policy(vocab_size=8192, num_layers=1, embed_dim=16)
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=1, tensor=4)
    with jax.set_mesh(mesh):
        text = lowered(policy, mesh=mesh, **how)[0].compile().as_text()
    inside = [line for line in text.splitlines() if 'decode/while/body' in line]
    results = [
        math.prod(map(int, shape.split(',')))
        for line in inside
        for shape in re.findall(r'\w\[([\d,]+)\]', line.partition(' all-')[0])
        if re.search(r' all-\w+\(', line)
    ]
    # Of each row on a device, one number for each of its 64 blocks.
    assert results
    assert max(results) <= P // 2 * N * 64
    assert not re.search(r' (collective-permute|reduce-scatter)', '\n'.join(inside))


TPU = """
import sys
import jax
from passk_jax.planning import topologies
(device, *_) = topologies.connect(topologies.parse('v5e:2x2'))
from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.sampling.distribution import traced_options
from tests.models import oracle
from tests.sampling.scheduled import device_test
mesh = sharding.make_mesh(data=1, fsdp=1, rollout=1, tensor=1, devices=[device])
device_test.P, device_test.N, device_test.T, device_test.S = 8, 32, 1025, 256
policy = oracle.tiny_policy(
    vocab_size=1024, num_layers=4, embed_dim=256, num_heads=4, num_kv_heads=2,
    head_dim=128, mlp_dim=512, dtype='bfloat16', attention=sys.argv[1],
)
with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    program, state = device_test.lowered(policy, mesh=mesh, stride=8)
compiled = program.compile()
assert 'S(1)' in compiled.as_text(), 'not a program of a TPU'
memory = compiled.memory_analysis()
cache = device_test.num_bytes(state.layers)
print(memory.temp_size_in_bytes / cache, memory.alias_size_in_bytes / cache)
"""


@pytest.mark.slow
@pytest.mark.parametrize('attention', ['plain', 'splash'])
def test_on_a_tpu_decoding_needs_little_beside_the_cache(attention):
    pytest.importorskip('libtpu')
    command = [sys.executable, '-c', TPU, attention]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    temporary, aliased = map(float, result.stdout.split()[-2:])
    assert temporary < 0.05
    assert aliased >= 1
