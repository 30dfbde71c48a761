import dataclasses

import jax
import pytest

from passk_jax.planning import fits
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.flops import Flops
from passk_jax.planning.programs import shard_bytes
from tests import tiny
from tests.planning.conftest import make_builder

# Eight prompts a step and an update, four a pass, of five response tokens.
CONFIG = {'train__num_prompts': 64, 'train__mini_batch_prompts': 32}


@pytest.fixture
def builder():
    made = make_builder(tiny.make_config(train__micro_batch_prompts=8, **CONFIG))
    with jax.sharding.use_abstract_mesh(made.mesh.abstract_mesh):
        yield made


def analysed(builder, topology, name, *, temporaries, limit):
    program = builder.build(name)
    arguments = shard_bytes(program.arguments)
    memory = Memory(arguments, 0.0, temporaries, program.resident, limit)
    return Analysis(program, topology, memory, Flops(1.0), None)


def shorter(builder, tokens):
    sampling = dataclasses.replace(builder.config.sampling, max_response_tokens=tokens)
    config = dataclasses.replace(builder.config, sampling=sampling)
    return dataclasses.replace(builder, config=config)


def test_the_longest_response_of_a_decode_step_just_fits(builder, topology):
    now = analysed(builder, topology, 'decode', temporaries=100.0, limit=1.0)
    roomy = dataclasses.replace(now.memory, limit=2 * now.memory.total)
    edge = fits.fit(dataclasses.replace(now, memory=roomy), builder)
    assert edge.longest_response > builder.config.sampling.max_response_tokens
    for more, fitting in ((0, True), (128, False)):
        longer = shorter(builder, edge.longest_response + more)
        then = analysed(
            longer, topology, 'decode', temporaries=100.0, limit=roomy.limit
        )
        assert then.memory.fits == fitting


def test_temporaries_of_training_grow_with_the_tokens_of_a_pass(builder, topology):
    config, activations = builder.config, 1000.0
    temporaries = shard_bytes(builder.state().params) + activations
    now = analysed(builder, topology, 'train', temporaries=temporaries, limit=0.0)
    T = config.sampling.max_response_tokens
    # A prompt's tokens are shared by its rollouts.
    prompt = config.data.max_prompt_tokens / config.sampling.num_rollouts
    per_token = activations / (T + prompt) + shard_bytes(builder.rollouts()) / T
    limit = now.memory.total + 100.5 * per_token
    roomy = dataclasses.replace(
        now, memory=dataclasses.replace(now.memory, limit=limit)
    )
    assert fits.fit(roomy, builder).longest_response == T + 100


def test_a_pass_may_have_as_many_prompts_as_divide_an_update(builder, topology):
    now = analysed(builder, topology, 'train', temporaries=2.0**20, limit=2.0**22)
    # Four times the activations are four times eight prompts, less what else is there.
    assert fits.fit(now, builder).largest_batch == 16


def test_a_measured_slope_is_taken_for_the_models(builder, topology):
    now = analysed(builder, topology, 'train', temporaries=2.0**20, limit=2.0**22)
    edge = fits.fit(now, builder, per_token=float(2**16))
    room = 2**22 - now.memory.total
    assert edge.longest_response == 5 + room // 2**16


def test_a_long_response_fills_whole_tiles(builder, topology):
    now = analysed(builder, topology, 'decode', temporaries=0.0, limit=2.0**24)
    assert fits.fit(now, builder).longest_response % 128 == 0


def test_batches_are_shared_by_all_devices_and_divide_an_update(builder, topology):
    for limit in (2**21, 2**22, 2**23):
        now = analysed(builder, topology, 'train', temporaries=2.0**20, limit=limit)
        largest = fits.fit(now, builder).largest_batch
        assert largest == 0 or 32 % largest == 0
        assert largest % 2 == 0


def test_no_prefill_is_limited_by_the_length_of_responses(builder, topology):
    now = analysed(builder, topology, 'prefill', temporaries=1.0, limit=2.0**24)
    assert fits.fit(now, builder).longest_response is None


@pytest.mark.parametrize(('temporaries', 'limit'), [(1.0, 0.0), (None, 2.0**24)])
def test_there_is_no_edge_without_a_limit_or_temporaries(
    builder, topology, temporaries, limit
):
    now = analysed(builder, topology, 'train', temporaries=temporaries, limit=limit)
    edge = fits.fit(now, builder)
    assert (edge.longest_response, edge.largest_batch) == (None, None)


@pytest.mark.parametrize('name', ['train', 'score', 'prefill', 'decode'])
def test_there_are_three_ways_out_of_any_overflow(builder, topology, name):
    now = analysed(builder, topology, name, temporaries=2.0**20, limit=2.0**17)
    ways = fits.ways_out(now, builder, fits.fit(now, builder))
    assert 1 <= len(ways) <= 3
    assert len(set(ways)) == len(ways)


def test_a_smaller_pass_is_the_cheapest_way_out_of_training(builder, topology):
    gradients = shard_bytes(builder.state().params)
    small = analysed(builder, topology, 'train', temporaries=gradients, limit=1.0)
    limit = small.memory.total + 0.7 * 2**20
    now = analysed(
        builder, topology, 'train', temporaries=gradients + 2**20, limit=limit
    )
    ways = fits.ways_out(now, builder, fits.fit(now, builder))
    assert ways[0] == '--config.train.micro_batch_prompts=4'


def test_a_smaller_pass_that_is_not_enough_says_so(builder, topology):
    now = analysed(builder, topology, 'train', temporaries=2.0**20, limit=2.0**10)
    ways = fits.ways_out(now, builder, fits.fit(now, builder))
    assert ways[0].startswith('--config.train.micro_batch_prompts=4, which alone')


def test_replicas_can_share_the_state_instead(topology):
    builder = make_builder(data=2, fsdp=1)
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        now = analysed(builder, topology, 'prefill', temporaries=1.0, limit=2.0**10)
        ways = fits.ways_out(now, builder, fits.fit(now, builder))
    assert any('--config.mesh.data=1 --config.mesh.fsdp=2' in way for way in ways)


def test_recomputation_is_proposed_where_there_is_none(builder, topology):
    now = analysed(builder, topology, 'train', temporaries=2.0**20, limit=2.0**17)
    assert builder.config.model.remat == 'none'
    ways = fits.ways_out(now, builder, fits.fit(now, builder))
    assert any('remat=full' in way for way in ways)
