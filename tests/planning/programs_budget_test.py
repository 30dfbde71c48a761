"""A limit of the cache in the plan: what sampling would decode at one time."""

import math

import jax
import pytest

from passk_jax.planning import decoding
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.programs import build
from passk_jax.sampling import sampler
from tests import tiny
from tests.planning.conftest import make_builder

LONG = {'sampling__max_response_tokens': 100, 'sampling__num_rollouts': 8}


def needed(builder) -> float:
    prompts = builder.prefix(builder.train.num_prompts)
    return shard_bytes((prompts, builder.cache().layers))


@pytest.fixture
def limited():
    free = make_builder(tiny.make_config(**LONG))
    limit = int(needed(free) * 0.6)
    config = tiny.make_config(**LONG, sampling__max_cache_bytes=limit)
    return free, make_builder(config), limit


def test_what_waits_takes_no_memory(limited):
    free, builder, limit = limited
    assert free.rows() == (8, 8)
    G, K = builder.rows()
    assert G * K < 64
    program = build(builder, 'decode')
    _, slots, state, _ = program.arguments
    assert state.last.shape == (G, K)
    assert slots.problem.shape == (G,)
    assert needed(builder) <= limit
    # Every problem has a slot, so the prompts are there once.
    assert G == 8
    assert program.resident == build(free, 'decode').resident
    assert program.useful_flops == pytest.approx(
        build(free, 'decode').useful_flops * G * K / 64
    )


def test_problems_that_wait_for_a_slot_are_there_besides(limited):
    free, _, limit = limited
    config = tiny.make_config(**LONG, sampling__max_cache_bytes=limit * 2 // 3)
    builder = make_builder(config)
    G, _ = builder.rows()
    assert G < 8
    # Besides those in the slots, only the next few prompts have run.
    work, first = builder.fit_grid()
    window = 8 // work.problems * work.window(first)
    assert 0 < window < 8
    problems = shard_bytes(decoding.slots(builder, window))
    assert build(builder, 'decode').resident == build(free, 'decode').resident + (
        problems
    )
    # And as many run first as there are slots.
    assert build(builder, 'prefill').num_tokens == G * builder.data.max_prompt_tokens


def test_a_decode_step_of_fewer_rows_compiles(limited):
    _, builder, _ = limited
    decode = build(builder, 'decode')
    with jax.sharding.use_abstract_mesh(decode.mesh.abstract_mesh):
        compiled = decode.function.lower(*decode.arguments).compile()
    cache = shard_bytes(builder.cache().layers)
    assert compiled.memory_analysis().alias_size_in_bytes >= cache


def test_it_is_what_the_sampler_begins_with(limited):
    _, builder, limit = limited
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        work, first = sampler.fit_grid(
            builder.policy,
            num_prompts=8,
            num_rollouts=8,
            prompt_tokens=builder.data.max_prompt_tokens,
            max_response_tokens=100,
            max_cache_bytes=limit,
        )
    cells = 8 // work.problems * (8 // work.rollouts)
    assert math.prod(builder.rows()) == cells * first.total


def test_a_limit_for_no_row_is_refused():
    builder = make_builder(tiny.make_config(**LONG, sampling__max_cache_bytes=1))
    with pytest.raises(ValueError, match='max_cache_bytes=1 is too small'):
        build(builder, 'decode')
