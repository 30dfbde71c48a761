import dataclasses

import jax
import pytest

from passk_jax.planning import analysis, topologies
from passk_jax.planning.analysis import Memory, analyse, overflow
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.chips import GIB
from passk_jax.planning.flops import Flops
from passk_jax.planning.hlo_costs import Costs, Traffic
from passk_jax.planning.programs import build


class Refusing:
    """A traced program that no chip has the memory for."""

    def __init__(self, program, message):
        with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
            self.jaxpr = program.function.trace(*program.arguments).jaxpr
        self.message = message

    def trace(self, *arguments):
        return self

    def lower(self):
        return self

    def compile(self):
        raise jax.errors.JaxRuntimeError(self.message)


def test_memory_is_what_the_compiler_allots_and_what_is_there_anyhow(builder, topology):
    program = build(builder, 'score')
    have = analyse(program, topology).memory
    with jax.sharding.use_abstract_mesh(program.mesh.abstract_mesh):
        lowered = program.function.lower(*program.arguments)
    compiled = lowered.compile().memory_analysis()
    # The rollouts' figures that scoring does not use are there all the same.
    assert have.arguments == shard_bytes(program.arguments)
    assert have.arguments > compiled.argument_size_in_bytes
    assert have.temporaries == compiled.temp_size_in_bytes
    assert have.resident == program.resident
    assert have.total == have.arguments + have.outputs + have.temporaries + (
        have.resident
    )


@pytest.mark.slow
def test_a_donated_state_is_no_new_output(builder, topology):
    have = analyse(build(builder, 'train'), topology).memory
    state = shard_bytes(builder.state())
    assert have.arguments > state
    assert have.outputs < 0.1 * state


def test_what_is_done_is_at_least_what_is_needed(builder, topology):
    for name in ('score', 'prefill', 'decode'):
        have = analyse(build(builder, name), topology)
        assert 0 < have.useful_share <= 1
        assert have.traced.total >= have.program.useful_flops


def test_a_plan_without_a_compiler_knows_arguments_and_flops_alone(builder):
    program = build(builder, 'decode')
    have = analyse(program, topologies.parse('gpu:h100x8'))
    assert have.costs is None
    assert have.memory.temporaries is None
    assert have.memory.arguments == shard_bytes(program.arguments)
    assert have.flops == have.traced.total / 8
    chip = have.topology.chip
    assert have.seconds == {
        'compute': have.flops / chip.flops,
        'memory': have.memory.arguments / chip.memory_bandwidth,
    }


def of(builder, topology, costs, kernels=0.0):
    """An analysis with these costs a device."""
    memory = Memory(1.0, 0.0, 0.0, 0.0, 10.0)
    program = dataclasses.replace(build(builder, 'score'), useful_flops=4e12)
    traced = Flops(products=8.0, kernels=kernels)
    return analysis.Analysis(program, topology, memory, traced, costs)


@pytest.mark.parametrize(
    ('flops', 'memory', 'network', 'name', 'seconds'),
    [
        (2e12, 1e11, 1e10, 'compute', 2.0),
        (1e12, 3e11, 1e10, 'memory', 3.0),
        (1e12, 1e11, 4e10, 'network', 4.0),
    ],
)
def test_the_slowest_of_the_three_bounds_the_time(
    builder, topology, flops, memory, network, name, seconds
):
    collectives = {'all-gather': Traffic(3, network)}
    by_groups = {(tuple(range(8)),): network}
    have = of(builder, topology, Costs(flops, memory, collectives, 0, by_groups))
    assert have.bound == have.seconds[name] == seconds
    assert have.utilization_bound == 4e12 / (8 * 1e12 * seconds)


def test_kernels_are_shared_out_to_the_devices(builder, topology):
    have = of(builder, topology, Costs(1e12, 0.0, {}, 0), kernels=8e12)
    assert have.flops == 2e12


def test_nothing_bounds_a_chip_without_figures(builder):
    have = of(builder, topologies.parse('cpu:8'), Costs(1e12, 1.0, {}, 0))
    assert have.bound is None
    assert have.utilization_bound is None


APART = (
    'RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO '
    'temporaries (16.24G) exceeds available HBM (15.75G).'
)
TOGETHER = (
    'RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory '
    'space hbm. Used 20.50G of 15.75G hbm. Exceeded hbm capacity by 4.75G.'
)


@pytest.mark.parametrize(
    ('message', 'more'), [(APART, 16.24 - 2), (TOGETHER, 20.5 - 2)]
)
def test_both_refusals_of_the_compiler_are_read(message, more):
    temporaries, limit = overflow(message, arguments=2 * GIB)
    assert temporaries == pytest.approx(more * GIB)
    assert limit == 15.75 * GIB


@pytest.mark.parametrize('message', ['INTERNAL: oh', 'RESOURCE_EXHAUSTED: of patience'])
def test_another_refusal_is_no_overflow(message):
    assert overflow(message, arguments=1.0) is None


def test_a_refusal_for_want_of_memory_is_a_result(builder, topology):
    program = build(builder, 'score')
    refused = dataclasses.replace(program, function=Refusing(program, APART))
    have = analyse(refused, topology)
    assert not have.memory.fits
    assert have.memory.limit == 15.75 * GIB
    assert have.flops > 0


def test_another_error_of_the_compiler_is_raised(builder, topology):
    program = build(builder, 'score')
    refused = dataclasses.replace(program, function=Refusing(program, 'INTERNAL: oh'))
    with pytest.raises(jax.errors.JaxRuntimeError, match='INTERNAL: oh'):
        analyse(refused, topology)
