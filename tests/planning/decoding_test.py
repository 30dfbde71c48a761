import dataclasses

import jax
import numpy as np
import pytest

from passk_jax import sampling
from passk_jax.models import policy as policies
from passk_jax.planning import decoding, hlo_costs
from passk_jax.planning.builder import shard_bytes
from passk_jax.sampling.scheduled import device, host
from passk_jax.sampling.vocabulary_rows import Rows
from passk_jax.types import Prompts
from tests import tiny
from tests.planning.conftest import make_builder

# Half of the cache that all rows together need, so rows have to wait.
SCHEDULED = {
    'sampling__max_response_tokens': 100,
    'sampling__num_rollouts': 8,
    'sampling__max_cache_bytes': 50_000,
}


def shapes_and_places(tree):
    return jax.tree.map(lambda x: (x.shape, str(x.dtype)), tree)


def sampled(builder, monkeypatch):
    """Samples, and returns the arguments of the first call that decodes."""
    calls = []

    class Enough(Exception):  # noqa: N818
        pass

    def watched(*arguments):
        calls.append(arguments)
        raise Enough

    monkeypatch.setattr(host.device, 'advance', watched)
    prompts = builder.prompts()
    placed = Prompts(
        np.ones(prompts.tokens.shape, np.int32),
        np.full(prompts.lengths.shape, 3, np.int32),
        np.arange(len(prompts.lengths.shape) * 8, dtype=np.int32),
    )
    with jax.set_mesh(builder.mesh):
        params = policies.init_params(builder.policy, jax.random.key(0), builder.mesh)
        placed = jax.device_put(placed, jax.tree.map(lambda x: x.sharding, prompts))
        try:
            sampling.sample(
                builder.policy,
                params,
                placed,
                key=sampling.step_key(
                    seed=0, purpose=sampling.Purpose.ROLLOUTS, step=0
                ),
                num_rollouts=builder.sampling.num_rollouts,
                max_response_tokens=builder.sampling.max_response_tokens,
                options=builder.sampling.options,
                stop_tokens=(),
                max_cache_bytes=builder.sampling.max_cache_bytes,
            )
        except Enough:
            return calls[0]
    raise AssertionError('sampling ran the plain loop')


@pytest.mark.parametrize('int8', [False, True])
def test_the_schedule_is_called_with_what_is_planned(monkeypatch, int8):
    builder = make_builder(tiny.make_config(**SCHEDULED))
    policy = dataclasses.replace(builder.policy, quantizes_cache=int8)
    builder = dataclasses.replace(builder, policy=policy)
    assert decoding.is_scheduled(builder)
    call = decoding.call(builder)
    assert call.function is device.advance
    decoder, slots, state, stop = sampled(builder, monkeypatch)
    planned = call.arguments
    assert (decoder.policy, decoder.stride) == (builder.policy, call.steps)
    # The first ring is shorter than the last, which is planned.
    ring = state.layers[0].values.shape[3]
    longest = planned[2].layers[0].values.shape[3]
    assert ring <= longest
    state = dataclasses.replace(state, layers=())
    expected = dataclasses.replace(planned[2], layers=())
    for have, want in (
        (decoder, planned[0]),
        (slots, planned[1]),
        (state, expected),
        (stop, planned[3]),
    ):
        assert shapes_and_places(have) == shapes_and_places(want)
    for have, want in zip(
        *map(jax.tree.leaves, ((slots, state), (planned[1], expected))), strict=True
    ):
        assert have.sharding.is_equivalent_to(want.sharding, have.ndim)


def test_short_responses_decode_in_the_plain_loop(builder):
    assert not decoding.is_scheduled(builder)
    call = decoding.call(builder)
    assert call.steps == 1
    assert not jax.tree.leaves(call.resident)


def test_the_next_problems_without_a_slot_stay_besides():
    builder = make_builder(tiny.make_config(**SCHEDULED))
    G, _ = builder.rows()
    assert G < 8
    work, first = builder.fit_grid()
    window = 8 // work.problems * work.window(first)
    problems = decoding.call(builder).resident
    assert shard_bytes(problems) == shard_bytes(decoding.slots(builder, window)) > 0


def test_a_step_gathers_a_number_for_each_block_and_never_logits_or_the_head():
    """Against a count by hand, of a vocabulary that is no small part of the weights."""
    builder = make_builder(tiny.make_config(**SCHEDULED), fsdp=4, rollout=1)
    # 'tensor' divides the heads, or rows of one slot would gather their queries.
    sizes = {'vocab_size': 4096, 'num_kv_heads': 2}
    arch = dataclasses.replace(
        builder.policy.arch, **sizes, tie_embeddings=False, dtype='float32'
    )
    policy = dataclasses.replace(builder.policy, arch=arch)
    builder = dataclasses.replace(builder, policy=policy)
    call = decoding.call(builder)
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        text = call.function.lower(*call.arguments).compile().as_text()
    have = hlo_costs.count(text, num_devices=8, loop_steps=call.steps)
    # Half of a row's blocks are on the other device of 'tensor'. Its hidden state is
    # summed after the look-up and twice a layer: half to sum, half to have the sum. So
    # are the maximum, the mean score, the token and its score.
    G, K = builder.rows()
    rows = G * K / 4
    blocks = arch.vocab_size / Rows(arch.vocab_size).block_tokens
    sums = 2 * rows * ((2 * arch.num_layers + 1) * arch.embed_dim + 4) * 4 / 2
    assert have.collectives['all-gather'].size == rows * blocks * 4 / 2
    assert abs(have.collectives['all-reduce'].size - sums) < 0.15 * sums
