import math

import pytest

from passk_jax import config as configs
from passk_jax.planning import fits, remedies
from passk_jax.planning.analysis import Analysis, Memory, analyse
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.flops import Flops
from passk_jax.planning.programs import PROGRAMS, build
from tests import tiny
from tests.planning.conftest import make_builder, on_devices
from tests.slow import slow_rows, slow_values

BATCHES = {
    'train.num_prompts': 96,
    'train.mini_batch_prompts': 32,
    'train.micro_batch_prompts': 8,
}


def make(**mesh):
    """96 prompts a step: 48 would be no whole number of updates."""
    flat = {key.replace('.', '__'): value for key, value in BATCHES.items()}
    return make_builder(tiny.make_config(**flat), **mesh)


def over(builder, topology, name, *, temporaries, limit):
    program = build(builder, name)
    arguments = shard_bytes(program.arguments)
    memory = Memory(arguments, 0.0, temporaries, program.resident, limit)
    return Analysis(program, topology, memory, Flops(1.0), None)


def ways_of(analysis, builder):
    return remedies.ways_out(
        analysis, builder, fits.fit(analysis, builder), check=applied
    )


def mildest(analysis, builder, degrees):
    return remedies._mildest(analysis, builder, '', degrees, applied)


def applied(overrides):
    """The configuration that the command would make of the overrides."""
    config = tiny.get_config()
    config.update_from_flattened_dict(BATCHES)
    config.update_from_flattened_dict(dict(overrides))
    return configs.from_config_dict(config)


@pytest.mark.parametrize('name', slow_values(PROGRAMS, quick=['train', 'decode']))
@pytest.mark.parametrize(
    ('mesh', 'share'),
    [*slow_rows([({}, 0.8)]), ({'data': 4, 'fsdp': 1, 'rollout': 1}, 0.4)],
)
def test_every_way_out_is_accepted_and_helps(topology, mesh, name, share):
    builder = make(**mesh)
    now = over(builder, topology, name, temporaries=2.0**15, limit=1.0)
    now = over(
        builder, topology, name, temporaries=2.0**15, limit=share * now.memory.total
    )
    ways = ways_of(now, builder)
    assert 1 <= len(ways) <= 3
    for way in ways:
        config = applied(way.overrides)
        sizes = dict(builder.mesh.shape)
        sizes |= {
            key.removeprefix('mesh.'): size
            for key, size in way.overrides.items()
            if key.startswith('mesh.')
        }
        assert math.prod(sizes.values()) == way.num_devices
        assert way.num_devices == 8 or 'chips' in way.cost
        other = builder.changed(way.overrides)
        assert other.train == config.train
        assert other.sampling == config.sampling
        needed = fits.estimate(now, builder, other)
        assert way.saved == now.memory.total - needed > 0
        assert way.enough == (needed <= now.memory.limit)
    assert [way.enough for way in ways] == sorted(
        (way.enough for way in ways), reverse=True
    )


@pytest.mark.slow
def test_what_is_promised_is_saved_by_the_compiler(topology):
    """Compiled with each way out on the same chips, a program is that much smaller."""
    builder = make_builder(tiny.make_config(sampling__max_response_tokens=100))
    now = analyse(build(builder, 'decode'), topology)
    limit = 0.8 * now.memory.total
    memory = Memory(**(vars(now.memory) | {'limit': limit}))
    over_limit = Analysis(now.program, topology, memory, Flops(), None)
    ways = remedies.ways_out(
        over_limit, builder, fits.fit(over_limit, builder), check=lambda overrides: None
    )
    here = [way for way in ways if way.num_devices == 8]
    assert here
    for way in here:
        other = on_devices(builder.changed(way.overrides))
        other = analyse(build(other, 'decode'), topology)
        assert now.memory.total - other.memory.total > 0.5 * way.saved


def test_a_batch_that_is_no_whole_number_of_updates_is_not_proposed(topology):
    builder = make()
    now = over(builder, topology, 'decode', temporaries=0.0, limit=1.0)
    edge = fits.fit(now, builder)
    degrees = [{'train.num_prompts': size} for size in range(95, 0, -1)]
    assert mildest(now, builder, degrees).overrides == {'train.num_prompts': 32}
    assert edge.largest_batch == 0


def test_more_rollout_shards_save_no_state(topology):
    """They hold the parameters alike: only giving them up for 'fsdp' saves some."""
    builder = make(fsdp=1, rollout=4)
    now = over(builder, topology, 'score', temporaries=0.0, limit=1.0)
    state = shard_bytes(builder.state())
    doubled = builder.changed({'mesh.rollout': 8})
    assert shard_bytes(doubled.state()) == state
    degrees = [{'mesh.rollout': 2, 'mesh.fsdp': 2}]
    assert mildest(now, builder, degrees).saved > 0.2 * state


def test_a_mesh_that_cuts_the_cache_no_further_is_dropped(topology):
    """Over fewer prompts and more heads, a cache of two heads' keys stays as large."""
    builder = make()
    cache = fits._count_known_bytes(builder, 'decode')
    now = over(builder, topology, 'decode', temporaries=cache, limit=1.0)
    # A larger 'tensor' cannot divide the only key head further.
    degrees = [{'mesh.rollout': 1, 'mesh.tensor': 4}]
    assert mildest(now, builder, degrees) is None


def test_the_mildest_degree_that_is_enough_is_taken(topology):
    builder = make()
    gradients = shard_bytes(builder.state().params)
    now = over(builder, topology, 'train', temporaries=gradients + 2**20, limit=1.0)
    half = fits.estimate(
        now, builder, builder.changed({'train.micro_batch_prompts': 4})
    )
    now = over(builder, topology, 'train', temporaries=gradients + 2**20, limit=half)
    way = ways_of(now, builder)[0]
    assert way.overrides == {'train.micro_batch_prompts': 4}
    assert way.enough


@pytest.mark.slow
def test_recomputation_is_proposed_where_there_is_none(topology):
    builder = make_builder(tiny.make_config(model__arch__num_layers=4))
    assert builder.policy.arch.remat == 'none'
    now = over(builder, topology, 'train', temporaries=2.0**22, limit=1.0)
    changes = remedies._changes(builder, 'train', fits.Fit(None, None))
    (degrees,) = (change for _, change in changes if 'model.remat' in change[0])
    way = mildest(now, builder, degrees)
    assert way.overrides == {'model.remat': 'full'}


def test_a_cache_that_does_not_fit_may_have_a_limit(topology):
    """Fewer chips do not help where all are alike; rollouts that wait do."""
    config = tiny.make_config(
        sampling__max_response_tokens=1000, sampling__num_rollouts=8
    )
    builder = make_builder(config)
    cache = fits._count_known_bytes(builder, 'decode')
    now = over(builder, topology, 'decode', temporaries=cache, limit=1.0)
    limit = 0.7 * now.memory.total
    now = over(builder, topology, 'decode', temporaries=cache, limit=limit)
    first, *_ = ways_of(now, builder)
    assert first.overrides.keys() == {'sampling.max_cache_bytes'}
    assert first.enough
