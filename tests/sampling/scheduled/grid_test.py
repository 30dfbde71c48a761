"""Sizes of the grid and who sits where: plain arithmetic."""

import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from passk_jax.sampling.scheduled import grid
from passk_jax.sampling.scheduled.grid import Shard, Size, Work

WORK = Work(
    problems=8,
    rollouts=32,
    prompt_tokens=100,
    response_tokens=256,
    token_bytes=4,
    num_layers=2,
)


def budget(size: Size) -> int:
    return WORK.cache_bytes(size)


def test_without_a_limit_everything_is_decoded_at_one_time():
    assert grid.first_size(WORK, max_bytes=0) == Size(8, 32)


def test_the_memory_that_everything_takes_holds_everything():
    full = budget(Size(8, 32))
    # The prompts once, and the responses, of one layer twice.
    assert full == 4 * (8 * 100 + 8 * 32 * 256 * 3 // 2)
    assert grid.first_size(WORK, max_bytes=full) == Size(8, 32)
    assert grid.first_size(WORK, max_bytes=full - 1) != Size(8, 32)


@pytest.mark.parametrize('part', [2, 3, 5, 10, 30, 50])
def test_the_first_size_fits_and_one_row_more_a_slot_does_not(part):
    limit = budget(Size(8, 32)) // part
    size = grid.first_size(WORK, max_bytes=limit)
    assert budget(size) <= limit
    assert budget(dataclasses.replace(size, rows=size.rows + 1)) > limit


def test_all_problems_have_a_slot_where_there_are_rows_for_them():
    assert grid.first_size(WORK, max_bytes=budget(Size(8, 8))) == Size(8, 8)
    assert grid.first_size(WORK, max_bytes=budget(Size(3, 1))).slots < 8


def test_long_prompts_are_shared_by_more_rows():
    long = dataclasses.replace(WORK, prompt_tokens=4096)
    limit = long.cache_bytes(Size(8, 8))
    assert grid.first_size(long, max_bytes=limit) == Size(8, 8)
    tight = long.cache_bytes(Size(2, 8))
    size = grid.first_size(long, max_bytes=tight)
    assert size.slots < 8
    assert size.rows >= 8


# Of a policy with 1.5 billion parameters: keys and values of 28 layers in bfloat16.
LARGE = Work(
    problems=64,
    rollouts=32,
    prompt_tokens=256,
    response_tokens=4095,
    token_bytes=57_344,
    num_layers=28,
)


@pytest.mark.parametrize(('gib', 'most'), [(20, 87), (24, 105), (28, 121)])
def test_whole_rows_leave_little_memory_free(gib, most):
    """A row for each of 64 problems fits, and so do far more rows in fewer slots."""
    size = grid.first_size(LARGE, max_bytes=gib * 2**30)
    assert size.rows == 2
    assert 0.95 * most <= size.total <= most


def test_a_few_more_rows_are_not_worth_many_fewer_slots():
    """With 19 rows a slot 38 fit, but at the end of a problem 19 wait for one."""
    long = dataclasses.replace(LARGE, prompt_tokens=4096)
    limit = long.cache_bytes(Size(8, 4))
    assert long.cache_bytes(Size(2, 19)) <= limit
    assert grid.first_size(long, max_bytes=limit) == Size(8, 4)


def test_memory_for_no_row_is_an_error():
    least = budget(Size(1, 1))
    assert grid.first_size(WORK, max_bytes=least) == Size(1, 1)
    with pytest.raises(ValueError, match=f'max_cache_bytes={least - 1} .* {least} '):
        grid.first_size(WORK, max_bytes=least - 1)


@hypothesis.example(
    problems=64,
    rollouts=32,
    prompt_tokens=256,
    response_tokens=4095,
    memory=0.056,
    part=2 / 3,
)
@hypothesis.given(
    problems=st.integers(1, 40),
    rollouts=st.integers(1, 70),
    prompt_tokens=st.integers(1, 5000),
    response_tokens=st.integers(1, 5000),
    memory=st.floats(0, 1),
    part=st.sampled_from([1 / 4, 2 / 3]),
)
def test_any_first_size_shrinks_to_less_in_no_more_memory(memory, part, **sizes):
    work = Work(**sizes, token_bytes=4, num_layers=2)
    least = work.cache_bytes(Size(1, 1))
    limit = least + int(memory * max(0, work.cache_bytes(work.everything) - least))
    first = grid.first_size(work, max_bytes=limit)
    assert work.cache_bytes(first) <= limit
    # Nothing else that fits and shares prompts as much decodes in far fewer steps. So
    # hardly more rows fit without more in a slot.
    least = min(grid._shared_rows(work, work.rollouts), work.rollouts, first.rows)
    for rows in range(least, work.rollouts + 1):
        sizes = [Size(slots, rows) for slots in range(1, work.problems + 1)]
        for size in (x for x in sizes if work.cache_bytes(x) <= limit):
            assert work.steps(first) <= 1.06 * work.steps(size)
            assert first.total >= 0.9 * size.total or rows > first.rows
    every = (first, *grid.smaller_sizes(work, first, part=part))
    totals = [size.total for size in every]
    assert totals == sorted(set(totals), reverse=True)
    assert all(work.cache_bytes(size) <= limit for size in every)
    # No row that no rollout could take.
    assert all(size.rows <= work.rollouts for size in every)
    # A program each: their number grows as the logarithm of the rows.
    assert len(every) <= 2 + np.log(max(first.total / 6, 1)) / np.log(1 / part)


def test_one_problem_with_a_long_prompt_shrinks():
    """Its rows share one slot, however few they are."""
    work = Work(
        1, 16, prompt_tokens=256, response_tokens=63, token_bytes=4, num_layers=2
    )
    every = grid.smaller_sizes(work, Size(1, 16), part=2 / 3)
    assert every == (Size(1, 10),)


@pytest.mark.parametrize(('times', 'most'), [(2, 6), (4, 4)])
@pytest.mark.parametrize('tokens', [16, 48, 64, 128, 256, 4096, 32768])
def test_rings_grow_to_the_limit_in_few_steps(tokens, times, most):
    rings = [grid.shortest_ring(tokens)]
    while rings[-1] < tokens:
        rings.append(min(times * rings[-1], tokens))
    assert rings[-1] == tokens
    assert rings == sorted(set(rings))
    assert len(rings) <= most
    assert all(ring % 16 == 0 for ring in rings)


def seated(slots: int = 2, *, rollout_shards: int = 1) -> Shard:
    return grid.seat(WORK, Size(slots, 4), rollout_shards=rollout_shards)


def test_the_first_problems_are_seated_with_all_their_rollouts_waiting():
    shard = seated(rollout_shards=2)
    np.testing.assert_array_equal(shard.problem, [0, 1])
    assert shard.unstarted == [2, 3, 4, 5, 6, 7]
    np.testing.assert_array_equal(shard.waiting[0], [[0, 32], [32, 64]])
    assert shard.outstanding == 64
    assert not shard.all_started


def test_an_empty_slot_takes_the_next_problem():
    shard = seated()
    shard.waiting[1, 0] = [32, 32]
    assert grid.give_work(shard, WORK)
    np.testing.assert_array_equal(shard.problem, [0, 2])
    np.testing.assert_array_equal(shard.waiting[1, 0], [0, 32])
    assert shard.unstarted == [3, 4, 5, 6, 7]


@pytest.mark.parametrize('remaining', [1, 2, 7])
def test_an_empty_slot_takes_half_of_what_waits_for_another(remaining):
    shard = seated()
    shard.unstarted = []
    shard.waiting[:, 0] = [[32 - remaining, 32], [32, 32]]
    assert grid.give_work(shard, WORK)
    np.testing.assert_array_equal(shard.problem, [0, 0])
    first, second = shard.waiting[:, 0]
    assert (first[0], first[1], second[1]) == (32 - remaining, second[0], 32)
    assert second[1] - second[0] == (remaining + 1) // 2


def test_a_slot_with_a_live_row_or_nothing_to_take_gets_nothing():
    shard = seated()
    shard.unstarted = []
    shard.waiting[:, 0] = [[30, 32], [32, 32]]
    shard.rollout[1, 0, 3] = 31
    assert not grid.give_work(shard, WORK)
    shard.rollout[1] = -1
    shard.waiting[0, 0] = [32, 32]
    assert not grid.give_work(shard, WORK)


def test_packing_keeps_every_live_row_with_its_problem():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shard = seated(6, rollout_shards=2)
        shard.problem = rng.integers(0, 4, 6)
        shard.unstarted, shard.waiting[..., 0] = [], shard.waiting[..., 1]
        live = rng.random((6, 2, 4)) < 0.3
        shard.rollout = np.where(live, np.arange(48).reshape(6, 2, 4), -1)
        packed, source = grid.pack(shard, Size(24, 1))
        for r in range(2):
            have = {
                (packed.problem[g], packed.rollout[g, r, k])
                for g, k in np.argwhere(packed.rollout[:, r] >= 0)
            }
            want = {
                (shard.problem[g], shard.rollout[g, r, k])
                for g, k in np.argwhere(shard.rollout[:, r] >= 0)
            }
            assert have == want
            np.testing.assert_array_equal(
                packed.rollout[:, r][source[:, r] >= 0],
                shard.rollout[:, r].reshape(-1)[source[:, r][source[:, r] >= 0]],
            )


def test_rows_that_do_not_fit_are_not_packed():
    shard = seated()
    shard.unstarted, shard.waiting[..., 0] = [], shard.waiting[..., 1]
    shard.rollout[0, 0] = [0, 1, 2, -1]
    shard.rollout[1, 0] = [0, -1, -1, -1]
    # Four rows, but no two problems share a slot.
    assert grid.pack(shard, Size(2, 2)) is None
    assert grid.pack(shard, Size(3, 2)) is not None
