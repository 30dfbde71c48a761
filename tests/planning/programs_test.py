import dataclasses
import math

import jax
import pytest
from jax.sharding import NamedSharding

from passk_jax.models import moved_weights
from passk_jax.models import policy as policies
from passk_jax.planning import decoding, fits, programs
from passk_jax.planning.analysis import analyse
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.flops import model_flops, program_flops
from passk_jax.planning.programs import PICTURES, PROGRAMS, build
from passk_jax.train import make_diagnose
from tests import changed, tiny
from tests.planning.conftest import (
    make_builder,
    make_decoding_apart,
    make_pictured,
)
from tests.slow import slow_values

BUILDERS = [make_builder, make_decoding_apart]


@pytest.mark.parametrize('name', PROGRAMS)
@pytest.mark.parametrize('make', slow_values(BUILDERS, quick=[make_decoding_apart]))
def test_every_argument_says_where_it_lies(make, name):
    builder = make()
    program = build(builder, name)
    leaves = jax.tree.leaves(program.arguments)
    assert all(isinstance(x.sharding, NamedSharding) for x in leaves)
    # And the program takes them as they are.
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        program.function.trace(*program.arguments)


@pytest.mark.parametrize('make', BUILDERS)
def test_decoding_goes_on_from_what_prefill_made(make):
    builder = make()
    programs = (build(builder, name) for name in ('weights', 'prefill', 'decode'))
    outputs = {}
    for program in programs:
        with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
            outputs[program.name] = jax.eval_shape(program.function, *program.arguments)
    want = builder.decoding_weights(), decoding.slots(builder, 8)
    shapes = jax.tree.map(
        lambda x: (x.shape, x.dtype), (outputs['weights'], outputs['prefill'], want)
    )
    assert shapes[:2] == shapes[2]
    have = dataclasses.replace(outputs['decode'], prompts=builder.prompts())
    assert jax.tree.map(lambda x: x.shape, have) == jax.tree.map(
        lambda x: x.shape, builder.rollouts()
    )


def test_sampling_alone_is_planned_on_its_mesh():
    builder = make_decoding_apart()
    same = dataclasses.replace(builder, decode_tensor=0)
    for name in PROGRAMS:
        apart, together = build(builder, name), build(same, name)
        sizes = (1, 2, 2, 2) if fits.samples(name) else (1, 2, 4, 1)
        assert apart.mesh.axis_sizes == sizes, name
        assert together.mesh == builder.mesh
        # What stays of training is split as ever.
        if name != 'decode':
            assert apart.resident == together.resident
    decode, before = (build(x, 'decode').arguments for x in (builder, same))
    assert shard_bytes(decode) < shard_bytes(before)
    assert shard_bytes(builder.sampling_run.cache().layers) == shard_bytes(
        same.cache().layers
    )


def test_moved_weights_lie_where_the_plan_has_them():
    builder = make_decoding_apart()
    program = build(builder, 'weights')
    with jax.set_mesh(builder.mesh):
        params = policies.init_params(builder.policy, jax.random.key(0), builder.mesh)
    with jax.set_mesh(program.mesh):
        run = moved_weights.weights_of_sampling(builder.policy, params)
    planned = program.function.trace(*program.arguments).lower().compile()
    want = builder.sampling_run.decoding_weights()
    assert planned.output_shardings.keys() == run.keys() == want.keys()
    for name, x in want.items():
        for have in (planned.output_shardings[name], run[name].sharding):
            assert have.is_equivalent_to(x.sharding, x.ndim), name


def shapes_of(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


@pytest.mark.parametrize(
    'family', [*slow_values(['qwen3_vl', 'qwen3_vl_moe']), 'qwen2_5_vl']
)
def test_a_frozen_tower_reads_the_pictures_of_a_step_once(family):
    builder = make_pictured(family, max_pixels=1000)
    program = build(builder, PICTURES)
    assert all(
        isinstance(x.sharding, NamedSharding)
        for x in jax.tree.leaves(program.arguments)
    )
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        features = jax.eval_shape(program.function, *program.arguments)
    prompts = builder.prompts()
    assert prompts.images is None
    assert shapes_of(features) == shapes_of(prompts.features)
    # All tokens of a prompt may be of pictures, of at most 15 tokens.
    P, S = prompts.tokens.shape
    assert program.arguments[1].patches.shape == (P, 4 * S, 48)
    assert program.arguments[1].grids.shape == (P, 2, 2)
    assert program.num_tokens == P * S
    text = make_builder()
    everything = shard_bytes((builder.state(), builder.reference()))
    initial = program.resident + shard_bytes(builder.weights().trained)
    assert initial == pytest.approx(everything, abs=8)
    # The others have features for arguments, and run as text does.
    for name in PROGRAMS:
        one = build(builder, name)
        with jax.sharding.use_abstract_mesh(one.mesh.abstract_mesh):
            one.function.trace(*one.arguments)
    assert builder.forward_flops() == model_flops(
        builder.policy.arch,
        num_prompts=P,
        num_rollouts=text.sampling.num_rollouts,
        prompt_tokens=S,
        response_tokens=text.sampling.max_response_tokens,
    )


def test_decoding_goes_on_behind_pictures():
    builder = make_pictured()
    program = build(builder, 'prefill')
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        slots = jax.eval_shape(program.function, *program.arguments)
    assert slots.prefix.next_positions is not None
    assert shapes_of(slots) == shapes_of(decoding.slots(builder, 8))


@pytest.mark.slow
def test_a_trained_tower_runs_wherever_a_prompt_does():
    builder, frozen = make_pictured(trained=True), make_pictured()
    assert builder.prompts().features is None
    read = builder.picture_flops()
    assert read == build(frozen, PICTURES).useful_flops > 0
    for name, passes in (('score', 1), ('train', 3), ('prefill', 1), ('decode', 0)):
        one, other = build(builder, name), build(frozen, name)
        assert one.useful_flops == pytest.approx(other.useful_flops + passes * read)
        with jax.sharding.use_abstract_mesh(one.mesh.abstract_mesh):
            one.function.trace(*one.arguments)
    for other in (builder, make_builder()):
        with pytest.raises(ValueError, match="'pictures' is of policies with a frozen"):
            build(other, PICTURES)


def test_the_whole_state_is_there_whatever_runs(builder):
    everything = shard_bytes((builder.state(), builder.reference()))
    prompts = shard_bytes(builder.prompts())
    # The state and its parts that a program takes; the prompts that it does not take.
    argument_bytes = {'train': everything, 'score': shard_bytes(builder.state().params)}
    argument_bytes |= {
        'weights': argument_bytes['score'] - prompts,
        'prefill': 0.0,
        'decode': -prompts,
    }
    argument_bytes['diagnose'] = argument_bytes['score']
    for name in PROGRAMS:
        have = build(builder, name).resident + argument_bytes[name]
        # The tolerance is for the step counter, which is part of the state.
        assert have == pytest.approx(everything, abs=8), name


def test_a_reference_policy_stays_in_memory():
    without = make_builder()
    builder = make_builder(tiny.make_config(loss__kl_coef=0.1))
    more = shard_bytes(policies.param_shapes(builder.policy, builder.mesh))
    for name in ('score', 'weights', 'prefill', 'decode', 'diagnose'):
        one, other = build(without, name), build(builder, name)
        assert other.resident == one.resident + more
    train = build(builder, 'train')
    assert train.arguments[3] is not None
    # The reference's own pass, besides forward and backward.
    assert train.useful_flops == 4 * builder.forward_flops()


@pytest.mark.slow
def test_what_is_frozen_stays_in_memory_and_out_of_the_state():
    names = 'layers.mlp.router.kernel', 'embed.embedding'
    sizes = {'model__arch__num_experts': 4, 'model__arch__experts_per_token': 2}
    moe = {'model__family': 'qwen3_moe', 'loss__kl_coef': 0.1} | sizes
    everything = make_builder(tiny.make_config(**moe))
    builder = make_builder(tiny.make_config(**moe, model__frozen=names))
    frozen = builder.weights().frozen
    assert frozen.keys() == {*names}
    # Not the state's two moments, nor the reference's own.
    once = shard_bytes(frozen)
    for name in PROGRAMS:
        one, other = build(everything, name), build(builder, name)
        have, want = (shard_bytes(x.arguments) + x.resident for x in (other, one))
        assert have == pytest.approx(want - 3 * once), name
        leaves = jax.tree.leaves(other.arguments)
        assert all(isinstance(x.sharding, NamedSharding) for x in leaves)
        with jax.sharding.use_abstract_mesh(other.mesh.abstract_mesh):
            other.function.trace(*other.arguments)


def test_updates_after_the_first_need_a_pass_for_their_old_log_probs():
    builder = make_builder(tiny.make_config(train__mini_batch_prompts=4))
    train, score = build(builder, 'train'), build(builder, 'score')
    assert train.useful_flops == 3.5 * score.useful_flops


@pytest.mark.slow
def test_a_step_that_packs_is_planned_for_responses_that_leave_it_nothing_to_pack():
    builders = [make_builder(tiny.make_config(train__pack_sizes=x)) for x in (0, 2)]
    plain, packed = (build(builder, 'train') for builder in builders)
    assert packed.useful_flops == plain.useful_flops
    counts = []
    # One of them is whether a micro-batch has an advantage; packing chooses in both.
    for program, choices in ((plain, 1), (packed, 3)):
        with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
            traced = program.function.trace(*program.arguments)
        assert str(traced.jaxpr).count('branches=') == choices
        counts.append(program_flops(traced.jaxpr))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_a_diagnosis_runs_backward_once_an_estimator(builder, topology):
    score, diagnose = build(builder, 'score'), build(builder, 'diagnose')
    # pass_at_k against pass_at_1, rloo and canonical_k.
    assert diagnose.useful_flops == 9 * score.useful_flops
    assert programs.make_diagnose(builder).num_gradients == 4
    memories = [analyse(x, topology).memory for x in (score, diagnose)]
    gradients = 4 * shard_bytes(builder.state().params)
    assert memories[1].temporaries > memories[0].temporaries + gradients
    # And once for each side of each bin.
    builder = builder.changed({'log.difficulty_bins': 2})
    assert programs.make_diagnose(builder).num_gradients == 8
    assert build(builder, 'diagnose').useful_flops == 17 * score.useful_flops


def test_a_diagnosis_that_is_planned_is_the_one_that_runs(builder):
    config = changed.make_config(log__diagnostics_every=2, log__difficulty_bins=3)
    setup = tiny.make_setup(config)
    names = ('data', 'sampling', 'train', 'loss', 'optimizer', 'advantage', 'log')
    sections = {name: getattr(config, name) for name in names}
    planned = dataclasses.replace(
        builder, policy=setup.policy, mesh=setup.mesh, **sections
    )
    assert programs.make_diagnose(planned) == make_diagnose(setup)
    assert build(planned, 'diagnose').function is make_diagnose(setup).program


def test_an_update_that_is_planned_is_the_one_that_runs(builder):
    setup = tiny.make_setup(changed.make_config())
    names = ('data', 'sampling', 'train', 'loss', 'optimizer', 'advantage', 'log')
    sections = {name: getattr(setup.config, name) for name in names}
    planned = dataclasses.replace(
        builder, policy=setup.policy, mesh=setup.mesh, **sections
    )
    update = setup.update(planned.make_optimizer())
    assert build(planned, 'train').function is update.program


def test_tokens_are_those_of_a_step(builder):
    rollouts = builder.train.num_prompts * builder.sampling.num_rollouts
    tokens = rollouts * builder.sampling.max_response_tokens
    counts = {name: build(builder, name).num_tokens for name in PROGRAMS}
    assert not counts['weights']
    assert counts['train'] == counts['score'] == counts['diagnose'] == tokens
    assert counts['decode'] == rollouts
    assert counts['prefill'] == math.prod(builder.prompts().tokens.shape)


def test_programs_are_listed_in_the_order_of_the_table():
    names = ['train', 'score', 'weights', 'prefill', 'decode', 'diagnose']
    assert list(programs.PROGRAMS) == names
