"""Packing moves responses into fewer rows and back, and nothing else."""

import functools
import itertools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.learning import packing
from passk_jax.learning.packing import Packing

WIDTH = 16

pack = jax.jit(packing.pack, static_argnames='width')
order_by_size = jax.jit(packing.order_by_size, static_argnames='parts')


def make_lengths(prompts=6, rollouts=8, seed=0, mean=4.0):
    rng = np.random.default_rng(seed)
    lengths = np.ceil(rng.lognormal(np.log(mean), 0.9, (prompts, rollouts)))
    return np.clip(lengths, 1, WIDTH).astype(np.int32)


def occupied(lengths, layout: Packing, num_rows):
    """How many tokens lie at each slot."""
    count = np.zeros((len(lengths), num_rows, WIDTH), int)
    for p, n in np.ndindex(lengths.shape):
        start = int(layout.offsets[p, n])
        count[p, int(layout.rows[p, n]), start : start + lengths[p, n]] += 1
    return count


@pytest.mark.parametrize('seed', range(5))
def test_no_two_tokens_share_a_slot_and_none_is_lost(seed):
    lengths = make_lengths(seed=seed)
    layout = pack(lengths, width=WIDTH)
    count = occupied(lengths, layout, lengths.shape[1])
    assert count.max() == 1
    np.testing.assert_array_equal(count.sum(axis=(1, 2)), lengths.sum(axis=1))
    used = count.any(axis=2).sum(axis=1)
    np.testing.assert_array_equal(layout.num_rows, used)
    # The rows in use are the first ones, and no two of them would fit into one.
    for rows, fill in zip(layout.num_rows, count.sum(axis=2), strict=True):
        assert (fill[:rows] > 0).all()
        smallest = np.sort(fill[:rows])[:2]
        assert rows == 1 or smallest.sum() > WIDTH


def test_responses_of_full_width_need_a_row_each():
    layout = pack(np.full((2, 4), WIDTH, np.int32), width=WIDTH)
    np.testing.assert_array_equal(layout.num_rows, 4)
    np.testing.assert_array_equal(layout.offsets, 0)


def test_what_is_packed_is_unpacked_in_its_place():
    lengths = make_lengths()
    P = len(lengths)
    inside = np.arange(WIDTH) < lengths[..., None]
    tokens = np.where(inside, np.arange(1, inside.size + 1).reshape(inside.shape), 7)
    layout = pack(lengths, width=WIDTH)
    rows = int(layout.num_rows.max())
    captured = []

    def keep(packed, starts, _):
        captured.extend((packed, starts))
        return packed.astype(np.float32)

    arrays = tokens.astype(np.int32), None
    back = packing.apply_in_rows(keep, arrays, lengths, layout, rows=rows)
    packed, starts = captured
    assert packed.shape == starts.shape == (P, rows, WIDTH)
    np.testing.assert_array_equal(back, np.where(inside, tokens, 0))
    # Slots of no response are pads, each of which starts itself.
    empty = occupied(lengths, layout, rows) == 0
    np.testing.assert_array_equal(np.asarray(packed)[empty], 0)
    slots = np.broadcast_to(np.arange(WIDTH), starts.shape)
    np.testing.assert_array_equal(np.asarray(starts)[empty], slots[empty])
    assert (np.asarray(starts) <= slots).all()


def test_gradients_go_back_through_unpacking_and_none_goes_to_a_pad():
    lengths = make_lengths()
    layout = pack(lengths, width=WIDTH)
    rows = int(layout.num_rows.max())
    values = jnp.ones((len(lengths), rows, WIDTH))
    slots = packing.token_slots(lengths, layout, width=WIDTH, rows=rows)

    def total(values):
        return packing.unpack(values, slots, num_rollouts=lengths.shape[1]).sum()

    expected = occupied(lengths, layout, rows)
    np.testing.assert_array_equal(jax.jit(jax.grad(total))(values), expected)


@pytest.mark.parametrize('sizes', [1, 2, 5, 16, 31, 32, 100])
def test_row_counts_are_few_and_end_with_a_row_a_response(sizes):
    counts = packing.row_counts(32, sizes=sizes)
    assert list(counts) == sorted(set(counts))
    assert len(counts) <= sizes
    assert counts[-1] == 32
    # A micro-batch that just misses a size runs no more than twice what it needs.
    assert all(larger <= 2 * smaller for smaller, larger in itertools.pairwise(counts))


@pytest.mark.parametrize('sizes', [1, 2, 4, 8])
def test_the_branch_holds_the_rows_and_the_one_below_would_not(sizes):
    counts = packing.row_counts(8, sizes=sizes)
    zeros = np.zeros((2, 8), np.int32)

    @jax.jit
    def rows_of(num_rows):
        layout = Packing(zeros, zeros, num_rows)
        return packing.switch_on_rows(lambda r: jnp.int32(r or 8), layout, sizes=sizes)

    for needed in range(1, 9):
        rows = rows_of(np.array([1, needed]))
        assert rows == min(count for count in counts if count >= needed)


@pytest.mark.parametrize('parts', [1, 2, 4])
def test_prompts_of_like_size_come_together_and_go_back(parts):
    sizes = np.random.default_rng(0).permutation(8)
    order = order_by_size(sizes, parts=parts)
    moved = packing.reorder(sizes, order)
    # Part i takes i, i + parts, ...
    groups = np.asarray(moved).reshape(-1, parts).T
    np.testing.assert_array_equal(np.sort(groups.ravel()), np.arange(8))
    assert (groups.max(axis=1)[:-1] < groups.min(axis=1)[1:]).all()
    back = packing.reorder(moved, jnp.argsort(order, axis=1))
    np.testing.assert_array_equal(back, sizes)


@pytest.mark.parametrize('packed', [False, True])
def test_what_is_cut_up_is_joined_in_its_place(packed):
    lengths = make_lengths(prompts=8)
    layout = pack(lengths, width=WIDTH) if packed else None
    x = np.arange(16).reshape(8, 2)
    parts, join = packing.cut((x, layout), layout, parts=4)
    assert parts[0].shape == (4, 2, 2)
    np.testing.assert_array_equal(join(parts[0]), x)
    if packed:
        # The problems that need most rows are in the last part.
        assert parts[1].num_rows[-1].min() == np.sort(layout.num_rows)[-2]


def test_interleaving_keeps_every_row_once_and_is_undone():
    x = np.arange(12).reshape(6, 2)
    parts = packing.interleave(x, 3)
    assert parts[1].tolist() == [[2, 3], [8, 9]]
    assert np.array_equal(packing.deinterleave(parts), x)


def test_on_a_mesh_prompts_and_rollouts_stay_on_their_devices():
    mesh = sharding.make_mesh(data=2, fsdp=2, rollout=2, tensor=1)
    lengths = make_lengths(prompts=8)
    with jax.set_mesh(mesh):
        layout = jax.jit(functools.partial(packing.pack, width=WIDTH))(lengths)
        order = packing.order_by_size(layout.num_rows, parts=2)
    # Two prompts a device: each row of the order is one device's.
    np.testing.assert_array_equal(np.sort(order, axis=1), [[0, 1]] * 4)
    for half in range(2):
        part = slice(4 * half, 4 * half + 4)
        alone = pack(lengths[:, part], width=WIDTH)
        np.testing.assert_array_equal(layout.rows[:, part], alone.rows)
        np.testing.assert_array_equal(layout.offsets[:, part], alone.offsets)
        assert (layout.num_rows >= alone.num_rows).all()


def test_long_tails_are_packed_with_little_padding():
    """Log-normal lengths, mean 57, at most 256; 32 rollouts: each size on its own."""
    rng = np.random.default_rng(0)
    lengths = np.ceil(rng.lognormal(np.log(39), 0.87, (32, 32)))
    lengths = np.clip(lengths, 1, 256).astype(np.int32)
    layout = pack(lengths, width=256)
    padding = 1 - lengths.sum() / (256 * layout.num_rows.sum())
    assert lengths.mean() / 256 < 0.25
    assert padding < 0.1
