"""Attention of the newest tokens: the kernel, interpreted, and the plain form."""

import dataclasses
import functools
from unittest import mock

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import attention_kernels, decode_attention
from passk_jax.models.attention import CACHE_AXES, PREFIX_AXES, KeyValues
from passk_jax.models.decode_attention import newest_seen
from passk_jax.models.quantized import quantize
from tests.slow import slow_rows, slow_values

attend_filled = functools.partial(decode_attention.attend_filled, interpret=True)
# Relative to values of deviation 1; bfloat16 rounds weights and results to 2 ** -8.
TOLERANCES = {'float32': 1e-5, 'bfloat16': 2e-2}


def random_inputs(
    *, P=2, N=3, J=4, C=2, H=8, R=32, S=20, slot=7, window=0, dtype='float32'
):
    """Prompts and caches of all lengths: full ones, those of one token, no prompt."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape), dtype)

    query = normal(P, N, 1, J, H) * H**-0.5
    cache = KeyValues(keys=normal(P, C, N, H, R), values=normal(P, C, N, R, H))
    prefix = KeyValues(keys=normal(P, C, H, S), values=normal(P, C, S, H))
    of_prompts = rng.integers(0, S + 1, P)
    of_prompts[0], of_prompts[-1] = S, 0
    before = rng.integers(0, R, (P, N))
    before[0, 0], before[-1, -1] = R - 1, 0
    see = functools.partial(newest_seen, ring=R, window=window)
    seen_prefix, seen = see(*map(jnp.int32, (of_prompts, before, slot)))
    return query, cache, seen, prefix, seen_prefix


def in_int8(query, cache, seen, prefix, seen_prefix):
    return query, quantize(cache), seen, quantize(prefix), seen_prefix


def attend_plainly(*inputs):
    return decode_attention.attend_newest('plain', *inputs)


def assert_close(have, want, tolerance=1e-5):
    assert have.dtype == want.dtype
    have, want = (np.asarray(x, np.float32) for x in (have, want))
    np.testing.assert_allclose(have, want, atol=tolerance, rtol=tolerance)


# Rings of one block, of several, and of several of which the last is shorter.
SHAPES = {
    'one_block': {},
    'one_head': {'J': 2, 'C': 1, 'H': 64, 'R': 16, 'S': 9},
    'no_groups': {'J': 2, 'C': 2, 'R': 1024, 'S': 1536, 'slot': 600},
    'seven_of_a_group': {'J': 14, 'C': 2, 'H': 128, 'R': 1008, 'S': 700, 'slot': 1000},
    'keys_swapped': {'H': 128, 'R': 1000, 'S': 200, 'slot': 999},
    'one_rollout': {'P': 4, 'N': 1, 'H': 12, 'R': 640, 'S': 513, 'slot': 0},
}


@pytest.mark.parametrize('shape', slow_values(SHAPES, quick=['seven_of_a_group']))
@pytest.mark.parametrize('window', slow_values([0, 1, 5, 600], quick=[0, 5]))
@pytest.mark.parametrize('dtype', slow_values(TOLERANCES, quick=['float32']))
@pytest.mark.parametrize('int8', [False, True])
def test_the_kernel_equals_the_plain_form(shape, window, dtype, int8):
    inputs = random_inputs(window=window, dtype=dtype, **SHAPES[shape])
    inputs = in_int8(*inputs) if int8 else inputs
    have = jax.jit(attend_filled)(*inputs)
    assert_close(have, attend_plainly(*inputs), TOLERANCES[dtype])


@pytest.mark.slow
def test_many_rollouts_of_a_prompt_attend_in_sets():
    exact = random_inputs(N=6, R=16)
    with mock.patch.object(decode_attention, '_STEP_NUMBERS', 4 * 2 * 20 * 2):
        for inputs in (exact, in_int8(*exact)):
            assert_close(attend_filled(*inputs), attend_plainly(*inputs))


@pytest.mark.parametrize('cores', slow_values([1, 2]))
def test_the_cores_of_a_device_share_the_heads_if_they_can(cores):
    for C in (4, 3):
        inputs = random_inputs(J=12, C=C)
        with mock.patch.object(sharding, 'num_cores', return_value=cores):
            heads, _ = decode_attention.block_size(inputs[1].values)
            assert heads == (C if C % cores else C // cores)
            assert_close(attend_filled(*inputs), attend_plainly(*inputs))


@pytest.mark.parametrize(
    ('H', 'R', 'keys', 'values'),
    [
        (128, 256, 'hb', 'bh'),
        # Rows of 64 numbers would be padded to 128, columns of 200 to 256.
        (64, 256, 'hb', 'hb'),
        (128, 200, 'bh', 'bh'),
        (64, 200, 'hb', 'hb'),
    ],
)
def test_an_array_is_read_in_the_order_with_the_fewest_pads(H, R, keys, values):
    _, cache, *_ = random_inputs(H=H, R=R)
    stored, axes = decode_attention._order_as_stored(cache.keys, 'hb')
    assert (axes, stored.shape[-1]) == (keys, R if keys == 'hb' else H)
    stored, axes = decode_attention._order_as_stored(cache.values, 'bh')
    assert (axes, stored.shape[-1]) == (values, H if values == 'bh' else R)


@pytest.mark.parametrize('int8', slow_values([False, True], quick=[True]))
@pytest.mark.parametrize('window', slow_values([0, 300], quick=[300]))
def test_blocks_without_a_slot_that_is_seen_are_not_read(window, int8):
    """A weight of 0 would not hide that their values are no numbers."""
    inputs = random_inputs(R=2048, S=1500, slot=100, window=window)
    inputs = in_int8(*inputs) if int8 else inputs
    query, cache, seen, prefix, seen_prefix = inputs

    def spoil(ring, seen, rows):
        width = decode_attention.block_size(cache.values)[1]
        visible = np.asarray(seen.mask(ring.values.shape[-2]))[:, :, 0]
        starts = range(0, visible.shape[-1], width)
        read = [visible[..., i : i + width].any(axis=-1) for i in starts]
        unread = np.repeat(~np.stack(read, -1), width, axis=-1)
        unread = unread[..., : visible.shape[-1]]
        assert unread.any()
        unread = unread[:, None] if rows else unread.all(axis=1)[:, None]
        if int8:
            scales = jnp.where(unread[..., None, :], jnp.nan, ring.scales)
            return dataclasses.replace(ring, scales=scales)
        return KeyValues(
            keys=jnp.where(unread[..., None, :], jnp.nan, ring.keys),
            values=jnp.where(unread[..., None], jnp.nan, ring.values),
        )

    spoiled = spoil(cache, seen, True), seen, spoil(prefix, seen_prefix, False)
    assert np.isnan(attend_plainly(query, *spoiled, seen_prefix)).any()
    assert_close(attend_filled(query, *spoiled, seen_prefix), attend_plainly(*inputs))


@pytest.mark.parametrize(
    ('slots', 'width'),
    slow_rows([(6, 2), (7, 3), (8, 8), (9, 4)], quick=[(7, 3), (8, 8)]),
)
def test_the_list_has_each_block_with_a_slot_that_is_seen_once(slots, width):
    newest, counts = map(
        np.ravel, np.meshgrid(np.arange(slots), np.arange(slots + 1), indexing='ij')
    )
    steps, total = decode_attention._list_blocks(
        jnp.asarray(newest)[:, None], jnp.asarray(counts)[:, None], slots, width
    )
    blocks = -(-slots // width)
    want = [
        {(newest - age) % slots // width for age in range(count)}
        for newest, count in zip(newest, counts, strict=True)
    ]
    have = [divmod(int(step), blocks) for step in steps[: int(total)]]
    assert [number for number, _ in have] == sorted(number for number, _ in have)
    assert len(set(have)) == len(have)
    assert set(have) == {(i, block) for i, parts in enumerate(want) for block in parts}


@pytest.mark.parametrize('window', [0, 1, 3, 50])
def test_a_token_sees_the_tokens_of_the_window_before_it(window):
    S, R, slot = 6, 5, 3
    prompts, before = np.array([6, 2]), np.array([[0, 4, 2], [1, 3, 0]])
    see = functools.partial(newest_seen, ring=R, window=window)
    seen_prefix, seen = see(*map(jnp.int32, (prompts, before, slot)))
    shape = 2, 3, 1
    of_prompts = np.broadcast_to(seen_prefix.mask(S), (*shape, S))
    of_caches = np.broadcast_to(seen.mask(R), (*shape, R))
    for (p, n), length in np.ndenumerate(before):
        position = prompts[p] + length
        first = position - window + 1 if window else 0
        positions = slot - length + np.arange(length + 1)
        visible = prompts[p] + np.arange(length + 1) >= first
        want = np.zeros(R, bool)
        want[positions % R] = visible
        np.testing.assert_array_equal(of_caches[p, n, 0], want)
        slots = np.arange(S)
        want = (slots < prompts[p]) & (slots >= first)
        np.testing.assert_array_equal(of_prompts[p, n, 0], want)


def place(inputs):
    """Puts the inputs where sampling has them."""
    mesh, rows = jax.sharding.get_mesh(), decode_attention._ROW_AXES
    axes = (
        ('batch', 'rollouts', None, 'heads', None),
        CACHE_AXES,
        rows,
        PREFIX_AXES,
        rows,
    )

    def put(names, tree):
        return jax.tree.map(
            lambda x: jax.device_put(
                x, jax.NamedSharding(mesh, sharding.spec_of(names, x.shape))
            ),
            tree,
        )

    return tuple(map(put, axes, inputs))


# In the last, the mesh does not divide the heads of the keys: queries are gathered.
@pytest.mark.parametrize(
    ('sizes', 'gathers'),
    [((1, 2, 2, 2), False), *slow_rows([((2, 1, 1, 4), True)])],
)
@pytest.mark.parametrize(
    ('window', 'int8'), [(9, False), *slow_rows([(0, False), (0, True)])]
)
def test_on_a_mesh_each_device_reads_its_caches(sizes, gathers, window, int8):
    inputs = random_inputs(P=4, N=2, R=48, S=48, window=window)
    inputs = in_int8(*inputs) if int8 else inputs
    want = attend_plainly(*inputs)
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        args = place(inputs)
        run = jax.jit(attend_filled).lower(*args).compile()
        have = run(*args)
    assert_close(have, want)
    lines = run.as_text().splitlines()
    gathered = [line.split('all-gather(')[0] for line in lines if 'all-gather(' in line]
    assert bool(gathered) == gathers
    assert not any('48' in shape for shape in gathered)


def test_only_the_implementation_of_tpus_has_the_kernel():
    inputs = random_inputs()
    with mock.patch.object(decode_attention, 'attend_filled') as kernel:
        for name in attention_kernels.IMPLEMENTATIONS:
            decode_attention.attend_newest(name, *inputs)
    kernel.assert_called_once_with(*inputs)
