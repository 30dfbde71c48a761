import dataclasses

import pytest

from passk_jax.planning import fits
from passk_jax.planning.analysis import Analysis, Memory, analyse
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.flops import Flops
from passk_jax.planning.programs import PICTURES, PROGRAMS, build
from tests import tiny
from tests.planning.conftest import make_builder, make_pictured, on_devices
from tests.slow import slow_values


@pytest.fixture
def builder():
    """Eight prompts a pass, 32 an update, 64 a step."""
    batches = {'train__num_prompts': 64, 'train__mini_batch_prompts': 32}
    return make_builder(tiny.make_config(train__micro_batch_prompts=8, **batches))


def analysed(builder, topology, name, *, temporaries, limit):
    program = build(builder, name)
    arguments = shard_bytes(program.arguments)
    memory = Memory(arguments, 0.0, temporaries, program.resident, limit)
    return Analysis(program, topology, memory, Flops(1.0), None)


def limited(analysis, limit):
    memory = dataclasses.replace(analysis.memory, limit=limit)
    return dataclasses.replace(analysis, memory=memory)


@pytest.mark.parametrize('name', PROGRAMS)
def test_what_is_not_changed_is_not_estimated_anew(builder, topology, name):
    now = analysed(builder, topology, name, temporaries=2.0**20, limit=0.0)
    assert fits.estimate(now, builder, builder.changed({})) == now.memory.total


def test_what_a_device_holds_is_counted_and_not_scaled(builder, topology):
    now = analysed(builder, topology, 'decode', temporaries=0.0, limit=0.0)
    other = builder.changed({'mesh.fsdp': 4, 'mesh.rollout': 1, 'mesh.data': 1})
    program = build(other, 'decode')
    want = shard_bytes(program.arguments) + program.resident
    assert fits.estimate(now, builder, other) == want


@pytest.mark.slow
def test_the_estimate_of_another_pass_is_near_the_compilers(topology):
    # Long enough that activations are most of it.
    flat = {'train.micro_batch_prompts': 4, 'sampling.max_response_tokens': 100}
    builder = on_devices(make_builder(tiny.make_config()).changed(flat))
    now = analyse(build(builder, 'train'), topology)
    for micro in (2, 8):
        other = builder.changed({'train.micro_batch_prompts': micro})
        real = analyse(build(on_devices(other), 'train'), topology)
        have = fits.estimate(now, builder, other) - now.memory.total
        assert have == pytest.approx(real.memory.total - now.memory.total, rel=0.25)


@pytest.mark.slow
def test_a_tower_that_is_trained_has_activations():
    frozen, trained = make_pictured(), make_pictured(trained=True)
    have, want = (
        fits.count_bytes(x, 'train') - fits.count_initial_bytes(x, 'train')
        for x in (trained, frozen)
    )
    # All that its blocks keep of every patch, besides its gradient.
    gradient = shard_bytes(trained.state().params) - shard_bytes(frozen.state().params)
    patches, _ = trained.patches
    vision, train = trained.policy.arch.vision, trained.train
    one = 4 * train.micro_batch_prompts * patches * vision.embed_dim * vision.depth
    assert have - want - gradient > one / trained.mesh.size
    features = shard_bytes(frozen.prompts().features)
    counters = (fits.count_bytes, fits.count_initial_bytes)
    total, initial = (count(frozen, PICTURES) for count in counters)
    assert total - initial == features


def test_a_single_layer_is_not_smaller_for_being_computed_anew(builder, topology):
    """And of several layers the one at work is still there."""
    saved = []
    for layers in (1, 4):
        arch = dataclasses.replace(builder.policy.arch, num_layers=layers)
        policy = dataclasses.replace(builder.policy, arch=arch)
        deep = dataclasses.replace(builder, policy=policy)
        now = analysed(deep, topology, 'train', temporaries=2.0**24, limit=1.0)
        other = deep.changed({'model.remat': 'full'})
        saved.append(now.memory.total - fits.estimate(now, deep, other))
    assert saved[0] == pytest.approx(0, abs=1)
    assert saved[1] > 0


def test_a_smaller_pass_is_promised_no_more_than_it_keeps(builder, topology):
    """What it computes anew is smaller too, but by how much the compiler knows."""
    builder = builder.changed({'model.remat': 'full'})
    now = analysed(builder, topology, 'train', temporaries=2.0**24, limit=1.0)
    half = builder.changed({'train.micro_batch_prompts': 4})
    saved = now.memory.total - fits.estimate(now, builder, half)
    stored, anew = fits._backward(builder)
    assert anew > 0
    assert saved == pytest.approx(stored - fits._backward(half)[0])


def test_the_longest_response_of_a_decode_step_just_fits(builder, topology):
    def analyze_builder(builder):
        # The plain loop makes its cache itself.
        size = fits._count_known_bytes(builder, 'decode')
        return analysed(builder, topology, 'decode', temporaries=size, limit=1.0)

    now = analyze_builder(builder)
    roomy = limited(now, 20 * now.memory.total)
    longest = fits.fit(roomy, builder).longest_response
    assert longest > builder.sampling.max_response_tokens
    assert longest % 128 == 0
    for more, fitting in ((0, True), (128, False)):
        longer = builder.changed({'sampling.max_response_tokens': longest + more})
        assert (analyze_builder(longer).memory.total <= roomy.memory.limit) == fitting


@pytest.mark.parametrize('name', ['train', 'score', 'decode'])
@pytest.mark.parametrize('share', slow_values([0.7, 8.0], quick=[0.7]))
def test_edges_are_where_the_estimate_meets_the_limit(builder, topology, name, share):
    """Whether it fits now, or not."""
    now = analysed(builder, topology, name, temporaries=2.0**20, limit=1.0)
    now = limited(now, share * now.memory.total)
    edge = fits.fit(now, builder)
    batch = 'train.num_prompts'
    if name != 'decode':
        batch = 'train.micro_batch_prompts'
        assert edge.largest_batch in (0, 2, 4, 8, 16, 32)
    else:
        assert edge.largest_batch % 32 == 0
    sizes = {'sampling.max_response_tokens': edge.longest_response}
    sizes[batch] = edge.largest_batch
    for key, size in sizes.items():
        if size:
            other = builder.changed({key: size})
            assert fits.estimate(now, builder, other) <= now.memory.limit


def test_no_prefill_is_limited_by_the_length_of_responses(builder, topology):
    now = analysed(builder, topology, 'prefill', temporaries=1.0, limit=2.0**24)
    assert fits.fit(now, builder).longest_response is None


@pytest.mark.parametrize(('temporaries', 'limit'), [(1.0, 0.0), (None, 2.0**24)])
def test_there_is_no_edge_without_a_limit_or_temporaries(
    builder, topology, temporaries, limit
):
    now = analysed(builder, topology, 'train', temporaries=temporaries, limit=limit)
    assert fits.fit(now, builder) == fits.Fit(None, None)
