import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from passk_jax import sharding
from passk_jax.planning import hlo_costs
from passk_jax.planning.hlo_costs import Traffic


def compiled(fn, *arrays, out=None):
    """What one of the devices does in a function of shapes."""
    jitted = jax.jit(fn, out_shardings=out)
    text = jitted.lower(*arrays).compile().as_text()
    return hlo_costs.count(text, num_devices=8)


def mesh():
    return sharding.make_mesh(data=1, fsdp=4, rollout=1, tensor=2)


def array(shape, *spec, dtype=jnp.float32):
    """The shape of an array split over axes of the mesh."""
    split = NamedSharding(mesh(), PartitionSpec(*spec))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=split)


def module(instruction, *parameters):
    """A module of one instruction, which may call %p0, %p1 ... what it takes."""
    lines = [f'  %p{i} = {shape} parameter({i})' for i, shape in enumerate(parameters)]
    lines.append(f'  ROOT %r = {instruction}')
    return '\n'.join(['ENTRY %m (a: s32[]) -> s32[] {', *lines, '}'])


def test_a_device_does_its_share_of_a_product():
    have = compiled(
        jnp.matmul, array((16, 32), 'fsdp'), array((32, 64), None, 'tensor')
    )
    assert have.flops == 2 * 16 * 32 * 64 / 8
    assert not have.collectives


def test_a_product_that_is_not_divided_is_done_whole():
    have = compiled(jnp.matmul, array((16, 32)), array((32, 64)))
    assert have.flops == 2 * 16 * 32 * 64


def test_a_scanned_product_counts_as_often_as_it_runs():
    def fn(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    have = compiled(fn, array((16, 32), 'fsdp'), array((6, 32, 32)))
    assert have.flops == 6 * 2 * 16 * 32 * 32 / 4
    assert not have.unknown_loops


def until_it_ends(x, weights):
    """Two products a step and three steps a look, until a sum says to stop."""

    def step(_, x):
        return jnp.tanh(jnp.tanh(x @ weights) @ weights)

    start = jnp.sin(x @ weights)
    return jax.lax.while_loop(
        lambda x: x.sum() < 0, lambda x: jax.lax.fori_loop(0, 3, step, x), start
    )


def test_a_step_of_the_loop_that_ends_with_the_data_is_counted():
    shapes = array((16, 32), 'fsdp'), array((32, 32))
    text = jax.jit(until_it_ends).lower(*shapes).compile().as_text()
    have = hlo_costs.count(text, num_devices=8, loop_steps=3)
    assert have.flops == 2 * 2 * 16 * 32 * 32 / 4
    assert not have.unknown_loops


def test_of_a_choice_the_branch_with_most_products_counts():
    """In a loop, and with loops in it, as the learner's is of packed responses."""

    def branch(count):
        def multiply(x, weights):
            return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

        return lambda x, weights: multiply(x, weights[:count])

    def fn(x, weights, which):
        branches = [branch(count) for count in (1, 4, 2)]
        return jax.lax.scan(
            lambda x, i: (jax.lax.switch(i, branches, x, weights), None), x, which
        )[0]

    shapes = array((16, 32), 'fsdp'), array((6, 32, 32)), array((3,), dtype=jnp.int32)
    have = compiled(fn, *shapes)
    assert have.flops == 3 * 4 * 2 * 16 * 32 * 32 / 4
    assert not have.unknown_loops


def test_weights_are_gathered_as_often_as_a_scan_reads_them():
    def fn(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    have = compiled(
        fn,
        array((16, 32), 'fsdp'),
        array((6, 32, 32), None, 'fsdp'),
        out=NamedSharding(mesh(), PartitionSpec('fsdp')),
    )
    # Three quarters of a weight come from the three others.
    assert have.collectives == {'all-gather': Traffic(6, 6 * 32 * 32 * 4 * 3 / 4)}


def test_a_sum_over_devices_is_an_all_reduce():
    have = compiled(
        jnp.matmul,
        array((16, 32), None, 'fsdp'),
        array((32, 64), 'fsdp'),
        out=NamedSharding(mesh(), PartitionSpec()),
    )
    assert have.collectives == {'all-reduce': Traffic(1, 2 * 16 * 64 * 4 * 3 / 4)}
    assert have.network == 2 * 16 * 64 * 4 * 3 / 4


@pytest.mark.parametrize(
    ('instruction', 'kind', 'size'),
    [
        ('f32[8]{0} all-gather(%p0)', 'all-gather', 32 * 3 / 4),
        ('f32[8]{0} all-reduce(%p0)', 'all-reduce', 2 * 32 * 3 / 4),
        ('f32[2]{0} reduce-scatter(%p0)', 'reduce-scatter', 8 * 3),
        ('f32[8]{0} all-to-all(%p0)', 'all-to-all', 32 * 3 / 4),
        ('f32[8]{0} collective-permute(%p0)', 'collective-permute', 32),
        ('(f32[2]{0}, f32[8]{0}) all-gather-start(%p0)', 'all-gather', 32 * 3 / 4),
        ('f32[8]{0} all-reduce-start(%p0)', 'all-reduce', 2 * 32 * 3 / 4),
        (
            '(f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(%p0)',
            'collective-permute',
            32,
        ),
    ],
)
def test_a_chip_receives_what_the_others_of_its_group_have(instruction, kind, size):
    text = module(f'{instruction}, replica_groups=[2,4]<=[8]', 'f32[8]{0}')
    have = hlo_costs.count(text, num_devices=8)
    assert have.collectives == {kind: Traffic(1, size)}


def test_a_reduction_that_a_tpu_scatters_at_once_is_one():
    fused = """%all-reduce-scatter.1 (q: f32[8]) -> f32[2] {
  %q = f32[8]{0} parameter(0)
  %all = f32[8]{0} all-reduce(%q), replica_groups=[2,4]<=[8], to_apply=%add
  ROOT %slice = f32[2]{0} slice(%all), slice={[0:2]}
}
"""
    call = 'f32[2]{0} fusion(%p0), kind=kCustom, calls=%all-reduce-scatter.1'
    have = hlo_costs.count(fused + module(call, 'f32[8]{0}'), num_devices=8)
    assert have.collectives == {'reduce-scatter': Traffic(1, 32 * 3 / 4)}


@pytest.mark.parametrize(
    ('left', 'right', 'out', 'attributes', 'multiplications'),
    [
        ('16,32', '32,64', '16,64', 'dim_labels=bf_io->bf', 16 * 32 * 64),
        ('16,32', '64,32', '16,64', 'dim_labels=bf_oi->bf', 16 * 32 * 64),
        # Four products of 16 x 32 x 64 at once: all but the diagonal is padding.
        (
            '4,16,32',
            '4,32,64',
            '4,16,64',
            'window={size=4 stride=3 pad=0_0 lhs_dilate=4}, dim_labels=0bf_0io->0bf',
            4 * 16 * 32 * 64,
        ),
        # The sum over a window: both of its places count.
        (
            '16,2,32',
            '2,32,64',
            '16,64,1',
            'window={size=2}, dim_labels=b0f_0io->bf0',
            2 * 16 * 32 * 64,
        ),
    ],
)
def test_products_as_convolutions_count_without_padding(
    left, right, out, attributes, multiplications
):
    text = module(
        f'bf16[{out}] convolution(%p0, %p1), {attributes}',
        f'bf16[{left}]',
        f'bf16[{right}]',
    )
    assert hlo_costs.count(text, num_devices=1).flops == 2 * multiplications


@pytest.mark.parametrize(
    ('instruction', 'parameters', 'size'),
    [
        ('f32[8]{0} negate(%p0)', ['f32[8]{0}'], 32 + 32),
        # On the chip: only what comes and goes counts.
        ('f32[8]{0:T(8)S(1)} negate(%p0)', ['f32[8]{0}'], 32),
        ('f32[8]{0} copy(%p0)', ['f32[8]{0:T(8)S(1)}'], 32),
        ('f32[2]{0} dynamic-slice(%p0, %p1)', ['f32[8]{0}', 's32[]'], 8 + 8),
        (
            'f32[8]{0} dynamic-update-slice(%p0, %p1, %p2)',
            ['f32[8]{0}', 'f32[2]{0}', 's32[]'],
            8 + 8,
        ),
        # Fetched ahead, evicted, and moved: one side of each lies in main memory.
        ('(f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(%p0)', ['f32[8]{0}'], 32),
        ('(f32[8]{0}, f32[8]{0:S(1)}, u32[]) copy-start(%p0)', ['f32[8]{0:S(1)}'], 32),
        ('(f32[8]{0}, f32[8]{0}, u32[]) copy-start(%p0)', ['f32[8]{0}'], 64),
        ('f32[8]{0} bitcast(%p0)', ['f32[4,2]{1,0}'], 0),
        ('f32[8]{0} copy-done(%p0)', ['f32[8]{0}'], 0),
    ],
)
def test_an_instruction_reads_its_operands_and_writes_its_result(
    instruction, parameters, size
):
    text = module(instruction, *parameters)
    assert hlo_costs.count(text, num_devices=1).memory == size


def test_a_fusion_reads_and_writes_only_the_slices_that_it_names():
    fused = """%fused (q: f32[9,8], r: f32[8], s: f32[9,8], i: s32[]) -> f32[9,8] {
  %q = f32[9,8]{1,0} parameter(0)
  %r = f32[8]{0} parameter(1)
  %s = f32[9,8]{1,0} parameter(2)
  %i = s32[] parameter(3)
  %part = f32[1,8]{1,0} dynamic-slice(%q, %i, %i), dynamic_slice_sizes={1,8}
  %row = f32[1,8]{1,0} bitcast(%r)
  %sum = f32[1,8]{1,0} add(%part, %row)
  ROOT %new = f32[9,8]{1,0} dynamic-update-slice(%s, %sum, %i, %i)
}
"""
    text = fused + module(
        'f32[9,8]{1,0} fusion(%p0, %p1, %p2, %p3), kind=kLoop, calls=%fused',
        *('f32[9,8]{1,0}', 'f32[8]{0}', 'f32[9,8]{1,0}', 's32[]'),
    )
    # A row of the first, the second, the index, and a row of the result.
    assert hlo_costs.count(text, num_devices=1).memory == 32 + 32 + 4 + 32


def test_a_scan_reads_its_stacked_weights_once():
    def fn(x, weights):
        return jax.lax.scan(lambda x, w: (x + jnp.sin(w), None), x, weights)[0]

    layers, size = 50, 4096
    arrays = [
        jax.ShapeDtypeStruct(shape, np.float32) for shape in ((size,), (layers, size))
    ]
    text = jax.jit(fn).lower(*arrays).compile().as_text()
    weights = 4 * layers * size
    have = hlo_costs.count(text, num_devices=1).memory
    # Each layer reads its weights, and reads and writes x, with a copy or two of it.
    assert 3 * weights <= have <= 7 * weights


def test_of_a_choice_without_products_the_branch_with_most_traffic_counts():
    """As of sampling that truncates: its passes over the logits have none."""

    def fn(x, which):
        def passes(x):
            return jax.lax.fori_loop(0, 31, lambda i, x: jnp.sin(x + i), x)

        return jax.lax.cond(which, passes, lambda x: x + 1, x)

    shapes = jax.ShapeDtypeStruct((4096,), jnp.float32), jax.ShapeDtypeStruct((), bool)
    text = jax.jit(fn).lower(*shapes).compile().as_text()
    assert hlo_costs.count(text, num_devices=1).memory > 31 * 2 * 4 * 4096


@pytest.mark.parametrize(
    ('stated', 'want'), [('1000', 1000), ('9999', 4352), ('', 4352)]
)
def test_a_kernel_that_reads_a_part_of_its_operands_states_how_much(stated, want):
    config = f'"cost_estimate":{{"flops":"1","bytes_accessed":"{stated}"}}'
    text = module(
        'f32[64] custom-call(%p0), custom_call_target="tpu_custom_call", '
        f'backend_config={{"custom_call_config":{{{config if stated else ""}}}}}',
        'f32[32,32]',
    )
    assert hlo_costs.count(text, num_devices=1).memory == want
