import dataclasses
import functools

import pytest

from passk_jax import plan
from passk_jax.planning import fits, search, summary
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.flops import Flops
from passk_jax.planning.programs import PROGRAMS, build
from tests import tiny
from tests.planning.conftest import make_builder

SIZES = {
    'sampling__num_rollouts': 16,
    'sampling__max_response_tokens': 64,
    'train__num_prompts': 16,
    'train__mini_batch_prompts': 8,
    # A prompt a device.
    'train__micro_batch_prompts': 2,
    'model__remat': 'full',
}
NAMES = ('train', 'prefill', 'decode')


@pytest.fixture
def config():
    return tiny.make_config(**SIZES)


class Compiler:
    """Says what programs need, as a function of their settings, and what was asked."""

    def __init__(self, topology, limit, **temporaries):
        self.topology, self.limit, self.temporaries = topology, limit, temporaries
        self.requests = []

    def __call__(self, builder, name):
        train, shape = builder.train, dict(builder.mesh.shape)
        cache = builder.sampling.max_cache_bytes
        setting = (train.micro_batch_rollouts, train.micro_batch_prompts, cache)
        self.requests.append((name, *setting, *shape.values()))
        program = build(builder, name)
        temporaries = self.temporaries.get(name, lambda builder: 0.0)(builder)
        arguments = shard_bytes(program.arguments)
        memory = Memory(arguments, 0.0, temporaries, program.resident, self.limit)
        return Analysis(program, self.topology, memory, Flops(1.0), None)

    def names(self):
        return [name for name, *_ in self.requests]


def run_search(config, compiler, names=NAMES, **mesh):
    builder = make_builder(config, **{'tensor': 1, 'fsdp': 2, 'rollout': 4} | mesh)
    lines = []
    result = search.search(
        builder,
        names,
        compiler,
        check=functools.partial(plan._check, config),
        tell=lines.append,
        first={},
    )
    return builder, result, lines


def residual_bytes(builder):
    """What a pass keeps, as the estimates have it, and gradients and logits."""
    return fits._count_known_bytes(builder, 'train')


def test_what_fits_is_compiled_once_and_not_changed(config, topology):
    compiler = Compiler(topology, 1e12)
    _, result, lines = run_search(config, compiler)
    assert (result.overrides, result.over, lines) == ({}, None, [])
    assert compiler.names() == list(NAMES)
    assert [analysis.program.name for analysis in result.analyses] == list(NAMES)


def test_the_mildest_part_of_the_rollouts_is_taken_that_fits(config, topology):
    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    eight = builder.changed({'train.micro_batch_rollouts': 8})
    limit = fits.count_initial_bytes(builder, 'train') + residual_bytes(eight)
    compiler = Compiler(topology, limit, train=residual_bytes)
    _, result, lines = run_search(config, compiler, names=('train',))
    assert result.over is None
    assert result.overrides['train.micro_batch_rollouts'] == 8
    # Once to learn how much is too much, and once to see that it no longer is.
    assert len(compiler.requests) == 2
    assert lines[0].startswith('train needs ')
    assert lines[0].endswith('next: --config.train.micro_batch_rollouts=8')


def test_a_program_that_no_change_touches_is_not_compiled_again(config, topology):
    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    eight = builder.changed({'train.micro_batch_rollouts': 8})
    limit = fits.count_initial_bytes(builder, 'train') + residual_bytes(eight)
    decode = fits.count_initial_bytes(builder, 'decode')
    compiler = Compiler(topology, limit, train=residual_bytes)
    _, result, _ = run_search(config, compiler, names=('decode', 'train'))
    assert limit > decode
    assert result.over is None
    assert compiler.names() == ['decode', 'train', 'train']


def test_weights_that_decoding_has_no_room_for_are_split_in_sampling(topology):
    config = tiny.make_config(**SIZES, model__arch__num_kv_heads=2)
    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    two = builder.changed({'mesh.decode_tensor': 2})
    limit = fits.count_initial_bytes(two, 'decode')
    assert fits.count_initial_bytes(builder, 'decode') > limit
    compiler = Compiler(topology, limit)
    _, result, _ = run_search(config, compiler, names=('prefill', 'decode'))
    assert result.over is None
    assert result.overrides == {'mesh.decode_tensor': 2}
    assert compiler.names() == ['prefill', 'prefill', 'decode']
    touched = {x for x in PROGRAMS if search._touched(x, {'mesh.decode_tensor'})}
    assert touched == {'weights', 'prefill', 'decode'}


def test_decoding_gets_a_limit_of_its_cache_and_training_stays(config, topology):
    def cache_bytes(builder):
        return fits.count_bytes(builder, 'decode') - fits.count_initial_bytes(
            builder, 'decode'
        )

    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    cache = shard_bytes((builder.prefix(16), builder.cache()))
    limit = fits.count_bytes(builder, 'decode') - 0.3 * cache
    compiler = Compiler(topology, limit, decode=cache_bytes)
    _, result, _ = run_search(config, compiler)
    assert result.over is None
    assert result.overrides.keys() == {'sampling.max_cache_bytes'}
    assert compiler.names() == ['train', 'prefill', 'decode', 'decode']
    assert result.analyses[-1].memory.total <= limit
    assert plan._check(config, result.overrides) is None


@pytest.mark.slow
def test_settings_that_are_less_than_hoped_are_followed_by_stricter_ones(
    config, topology
):
    """The compiler needs as much for every part until it has a rollout a device."""

    def stubborn(builder):
        parts = builder.train.micro_batch_rollouts or 16
        return 1e6 if parts > 4 else 1e3

    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    limit = fits.count_initial_bytes(builder, 'train') + 6e5
    compiler = Compiler(topology, limit, train=stubborn)
    _, result, lines = run_search(config, compiler, names=('train',))
    assert result.over is None
    assert result.overrides['train.micro_batch_rollouts'] <= 4
    assert len(set(compiler.requests)) == len(compiler.requests)
    assert len(lines) == len(compiler.requests) - 1


def test_a_state_that_is_too_large_gets_another_mesh_of_the_same_devices(
    config, topology
):
    builder = make_builder(config, tensor=1, fsdp=1, rollout=8)
    spread = builder.changed({'mesh.fsdp': 4, 'mesh.rollout': 2})
    limit = fits.count_initial_bytes(spread, 'prefill') + 1e3
    assert limit < fits.count_initial_bytes(builder, 'prefill')
    compiler = Compiler(topology, limit)
    _, result, _ = run_search(config, compiler, names=('prefill',), fsdp=1, rollout=8)
    assert result.over is None
    assert result.builder.mesh.size == 8
    assert result.builder.mesh.shape['fsdp'] >= 4
    assert plan._check(config, result.overrides) is None


def test_an_estimate_that_promises_little_comes_before_a_hopeful_one(config, topology):
    """What shapes do not explain may shrink with a pass, but is not counted on."""

    def backward_bytes(builder):
        return residual_bytes(builder) + extra

    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    eight, four = (
        builder.changed({'train.micro_batch_rollouts': size}) for size in (8, 4)
    )
    extra = 4 * (residual_bytes(eight) - residual_bytes(four))
    limit = fits.count_initial_bytes(builder, 'train') + backward_bytes(four) + 1
    compiler = Compiler(topology, limit, train=backward_bytes)
    sizes = search._Sizes('train', builder, functools.partial(plan._check, config))
    sizes.add(compiler(builder, 'train'), {})
    enough = {}
    for sizes.hopeful in (False, True):
        for size in (8, 4):
            settings = {'train.micro_batch_rollouts': size}
            enough[sizes.hopeful, size] = sizes.enough(settings)
    assert enough == {
        **{(False, 8): False, (False, 4): True},
        **{(True, 8): True, (True, 4): True},
    }
    compiler.requests.clear()
    _, result, _ = run_search(config, compiler, names=('train',))
    assert result.over is None
    assert result.overrides == {'train.micro_batch_rollouts': 4}
    assert len(compiler.requests) == 2


def test_another_mesh_changes_every_program(config, topology):
    def wide(builder):
        return 0.0 if builder.mesh.shape['fsdp'] == 4 else 1e9

    compiler = Compiler(topology, 5e8, prefill=wide)
    names = ('decode', 'prefill')
    _, result, _ = run_search(config, compiler, names=names)
    assert result.over is None
    fours = [request for request in compiler.requests if request[5] == 4]
    assert {name for name, *_ in fours} == set(names)


def test_of_what_fits_nowhere_the_last_attempt_is_returned(config, topology):
    compiler = Compiler(topology, 10.0)
    builder, result, _ = run_search(config, compiler, names=('prefill', 'decode'))
    assert result.over.program.name == 'prefill'
    assert result.analyses == [result.over]
    assert 1 < len(set(compiler.requests)) == len(compiler.requests) <= 21
    then = builder.changed(result.overrides)
    assert fits.count_initial_bytes(then, 'prefill') < fits.count_initial_bytes(
        builder, 'prefill'
    )
    assert 'GiB more than a device has' in summary.too_much(result.over)


def test_no_setting_changes_what_is_trained(config, topology):
    """Whatever the limit, only the form of the computation changes."""
    free = {
        'train.micro_batch_prompts',
        'train.micro_batch_rollouts',
        'model.head_chunk_tokens',
        'model.remat',
        'sampling.max_cache_bytes',
        *(f'mesh.{axis}' for axis in ('fsdp', 'rollout', 'tensor')),
    }
    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    needed = max(fits.count_bytes(builder, name) for name in NAMES)
    for share in (0.8, 0.4):
        compiler = Compiler(topology, share * needed, train=residual_bytes)
        _, result, _ = run_search(config, compiler)
        assert result.overrides
        assert result.overrides.keys() <= free
        assert result.builder.train.num_prompts == 16
        assert result.builder.loss == builder.loss


def test_flags_are_those_of_a_command():
    overrides = {'train.micro_batch_rollouts': 8, 'model.remat': 'full'}
    assert search.flags(overrides) == [
        '--config.train.micro_batch_rollouts=8',
        '--config.model.remat=full',
    ]


def test_a_measured_size_is_no_estimate(config, topology):
    builder = make_builder(config, tensor=1, fsdp=2, rollout=4)
    sizes = search._Sizes('train', builder, functools.partial(plan._check, config))
    compiler = Compiler(topology, 1e9, train=residual_bytes)
    for settings in ({}, {'mesh.fsdp': 4, 'mesh.rollout': 2}):
        now = compiler(builder.changed(settings), 'train')
        now = dataclasses.replace(
            now, memory=dataclasses.replace(now.memory, temporaries=12345.0)
        )
        sizes.add(now, settings)
    for settings in ({}, {'mesh.fsdp': 4, 'mesh.rollout': 2}):
        other = builder.changed(settings)
        want = fits.count_initial_bytes(other, 'train') + 12345
        assert sizes.needed(settings) == want
        assert sizes.is_known(settings)
    assert not sizes.is_known({'mesh.fsdp': 8, 'mesh.rollout': 1})
