import functools
import math
import re

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import master_weights


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
@pytest.mark.parametrize(
    ('x_shape', 'y_shape', 'dimensions'),
    [
        ((5, 6), (6, 7), (((1,), (0,)), ((), ()))),
        ((5, 6), (7, 6), (((1,), (1,)), ((), ()))),
        ((6, 5), (6, 7), (((0,), (0,)), ((), ()))),
        ((2, 3, 4, 6), (4, 6, 7), (((2, 3), (0, 1)), ((), ()))),
        ((2, 6, 3, 4), (4, 6, 7), (((1, 3), (1, 0)), ((), ()))),
        ((2, 6, 5), (2, 6, 7), (((1,), (1,)), ((0,), (0,)))),
    ],
)
def test_a_product_of_bfloat16_is_that_of_float32_rounded_once(
    x_shape, y_shape, dimensions, dtype
):
    x = jax.random.normal(jax.random.key(0), x_shape).astype(jnp.bfloat16)
    y = jax.random.normal(jax.random.key(1), y_shape).astype(jnp.bfloat16)
    multiply = functools.partial(
        master_weights.multiply, dimensions=dimensions, dtype=jnp.dtype(dtype)
    )
    have = jax.jit(multiply)(x, y)
    wide = jax.lax.dot_general(*(z.astype('float32') for z in (x, y)), dimensions)
    assert (have.dtype, have.shape) == (dtype, wide.shape)
    tolerance = 1e-6 if dtype == 'float32' else 2**-8
    np.testing.assert_allclose(have.astype('float32'), wide, rtol=tolerance, atol=1e-6)
    # Neither factor was converted.
    (types,) = re.findall(r'stablehlo.dot_general.* : (.*)', lowered(multiply, x, y))
    factors, result = types.split(' -> ')
    assert factors.count('xbf16') == 2
    assert 'xf32' in result


def lowered(function, *arguments) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def test_a_product_of_float32_is_left_alone():
    x, y = jnp.ones((6, 5)), jnp.ones((6, 7))
    product = functools.partial(
        master_weights.multiply, dimensions=(((0,), (0,)), ((), ())), dtype=jnp.float32
    )
    text = lowered(product, x, y)
    assert 'transpose' not in text
    assert 'case' not in text


# With few outputs, the kernel's gradient is computed transposed.
@pytest.mark.parametrize('outputs', [(6, 2), (1,)])
@pytest.mark.parametrize('rank_in', [1, 2])
def test_the_written_gradient_of_a_projection_is_that_of_tensordot(rank_in, outputs):
    x = jax.random.normal(jax.random.key(0), (5, 3, 4, 3, 2)[: 3 + rank_in])
    kernel = jax.random.normal(jax.random.key(1), (*x.shape[3:], *outputs))

    axes = ('embed',) + (None,) * (kernel.ndim - 1)

    def projected(xs, kernel):
        return master_weights.project(xs, kernel, rank_in, axes)

    def plainly(xs, kernel):
        return tuple(jnp.tensordot(x, kernel, rank_in) for x in xs)

    def loss(fn):
        return lambda *args: sum(jnp.sin(y).sum() for y in fn(*args))

    # One stream, and two of which one is shorter.
    for xs in [(x,), (x[:, :1], x), (x[:, :, :2], x)]:
        have, want = (
            jax.jit(jax.grad(loss(fn), argnums=(0, 1)))(xs, kernel)
            for fn in (projected, plainly)
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), have, want
        )


def test_the_written_gradient_of_scores_is_that_of_a_product():
    x = jax.random.normal(jax.random.key(0), (2, 3, 5, 4))
    head = jax.random.normal(jax.random.key(1), (4, 7))
    for weight, axes in [(head, ('embed', 'vocab')), (head.T, ('vocab', 'embed'))]:

        def scored(x, weight, axes=axes):
            copy, weight = (
                master_weights.repeat_for_shards(y, axes, x.shape[:2])
                for y in (jax.lax.stop_gradient(weight), weight)
            )
            return jnp.sin(master_weights.score_tokens(x, weight, copy, axes)).sum()

        def plainly(x, weight):
            return jnp.sin(x @ weight).sum()

        have = jax.jit(jax.grad(scored, argnums=(0, 1)))(x, weight)
        want = jax.jit(jax.grad(plainly, argnums=(0, 1)))(x, head)
        np.testing.assert_allclose(have[0], want[0], atol=1e-5)
        turned = want[1] if axes[0] == 'embed' else want[1].T
        np.testing.assert_allclose(have[1], turned, atol=1e-5)


HEADS = [((4096, 64), ('vocab', 'embed')), ((64, 4096), ('embed', 'vocab'))]


def repeated_scores(x, head, axes):
    """The scores of some tokens, one after the other, and their sum."""
    weight, copy = (
        master_weights.repeat_for_shards(y, axes, (1, 1))
        for y in (head, jax.lax.stop_gradient(head))
    )

    def score(carry, x):
        scores = master_weights.score_tokens(x, weight, copy, axes)
        return carry + jnp.sin(scores).max(), None

    return jax.lax.scan(score, 0.0, x)[0]


@pytest.mark.parametrize(('shape', 'axes'), HEADS)
@pytest.mark.parametrize('gradient', [False, True])
def test_no_chunk_copies_the_head(shape, axes, gradient):
    """XLA:CPU transposed it for every product with batch axes, even of size 1."""
    x = jax.ShapeDtypeStruct((3, 1, 1, 2, 4, 64), jnp.float32)
    head = jax.ShapeDtypeStruct(shape, jnp.float32)
    fn = jax.grad(repeated_scores, (0, 1)) if gradient else repeated_scores
    program = jax.jit(fn, static_argnums=2).lower(x, head, axes).compile()
    in_loop = re.findall(
        r'= f32\[([\d,]*)\]\S* (?:copy|transpose)\(.*while/body', program.as_text()
    )
    sizes = [math.prod(map(int, dims.split(','))) for dims in in_loop if dims]
    assert max(sizes, default=0) < math.prod(shape)


@pytest.mark.parametrize(
    ('rows', 'axes', 'dtype', 'is_turned'),
    [
        (32, ('vocab', 'embed'), 'float32', True),
        (33, ('vocab', 'embed'), 'float32', False),
        (1, ('vocab', 'embed'), 'float32', False),
        (32, ('embed', 'vocab'), 'float32', False),
        # As first factor, a table of bfloat16 would be copied to float32 every time.
        (32, ('vocab', 'embed'), 'bfloat16', False),
    ],
)
def test_a_cpu_scores_few_rows_of_a_large_table_by_the_table(
    rows, axes, dtype, is_turned
):
    x = jax.random.normal(jax.random.key(0), (1, 1, rows, 64), dtype)
    head = jax.random.normal(jax.random.key(1), (1, 1, 64, 1 << 16), dtype)
    copy = head if axes[0] == 'embed' else head.mT

    @jax.jit
    def score(x, copy):
        return master_weights.score_tokens(x, copy, copy, axes)

    def turns(platform):
        lowered = score.trace(x, copy).lower(lowering_platforms=(platform,))
        return 'optimization_barrier' in lowered.as_text()

    assert turns('cpu') == is_turned
    assert not turns('tpu')
    # A wrong row is wrong by tens.
    want = jnp.matmul(x, head, preferred_element_type=jnp.float32)
    np.testing.assert_allclose(score(x, copy), want, atol=1e-3)


def spread_plainly(weight, tokens, dtype):
    return jnp.broadcast_to(weight.astype(dtype), (*tokens.shape, *weight.shape))


def spread(weight, tokens, dtype):
    return master_weights.spread(weight, (*tokens.shape, *weight.shape), dtype)


def look_up(weight, tokens, dtype):
    (rows,) = master_weights.look_up(weight, (tokens,), (None, None), dtype)
    return rows


def look_up_plainly(weight, tokens, dtype):
    return weight.astype(dtype)[tokens]


PAIRS = [(spread, spread_plainly), (look_up, look_up_plainly)]


def test_a_processor_converts_no_bfloat16_table_to_read_rows():
    table = jnp.ones((4096, 8), jnp.bfloat16)

    def read_often(table, tokens):
        def read(_, tokens):
            rows = look_up(table, tokens, jnp.bfloat16)
            return tokens + rows.sum().astype(jnp.int32)

        return jax.lax.fori_loop(0, 9, read, tokens)

    compiled = jax.jit(read_often).lower(table, jnp.zeros(3, jnp.int32)).compile()
    assert 'bf16[4096,8]' in compiled.as_text()
    assert 'f32[4096,8]' not in compiled.as_text()


@pytest.mark.parametrize(('fn', 'plain'), PAIRS)
def test_written_gradients_are_those_of_autodiff_in_float32(fn, plain):
    weight = jax.random.normal(jax.random.key(0), (5, 3))
    tokens = jax.random.randint(jax.random.key(1), (2, 3, 4), 0, 5)

    def loss(fn):
        return lambda weight: jnp.sin(fn(weight, tokens, jnp.float32)).sum()

    have, want = (jax.jit(jax.grad(loss(function)))(weight) for function in (fn, plain))
    np.testing.assert_allclose(have, want, atol=1e-5)


@pytest.mark.parametrize(('fn', 'plain'), PAIRS)
@pytest.mark.parametrize('master', ['float32', 'bfloat16'])
def test_what_is_used_8192_times_gets_the_sum_of_8192_gradients(fn, plain, master):
    weight = jax.random.normal(jax.random.key(0), (5, 3), jnp.dtype(master))
    tokens = jnp.full((1, 64, 128), 2)

    def loss(fn):
        return lambda weight: (fn(weight, tokens, jnp.bfloat16) * 0.01).sum()

    value = fn(weight, tokens, jnp.bfloat16)
    assert value.dtype == jnp.bfloat16
    np.testing.assert_array_equal(value, plain(weight, tokens, jnp.bfloat16))
    have = jax.jit(jax.grad(loss(fn)))(weight)
    assert have.dtype == weight.dtype
    # bfloat16 stops at 4: a hundredth is less than half of its last bit.
    np.testing.assert_allclose(np.float32(have[2]), 81.92, rtol=4e-3)
