"""The products of a device's rows with the kernels of their experts.

The rows ``[R, ...]`` are sorted by expert: the first ``sizes[0]`` are of expert 0, the
next ``sizes[1]`` of expert 1, and so on. Rows after those of the last expert are
undefined in inputs and results. There are two implementations:

* ``'blocks'``: a loop over blocks of rows, each of one expert; runs on any platform,
  and is the tests' reference for the other;
* ``'ragged'``: JAX's grouped products for TPUs.

Both recompute the hidden rows in the backward pass. They compute each kernel's gradient
from its expert's rows alone, in float32. XLA would multiply all rows with every expert,
which takes 34 times the forward pass of a layer of Qwen3-30B-A3B.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import jax
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.errors import InputError
from passk_jax.models.products import choose_precision, multiply, multiply_matrices

Kernels = tuple[jax.Array, ...]
"""Gate, up ``[E, D, F]`` and down ``[E, F, D]`` of all experts or of a device's."""

_MAX_BLOCK, _MIN_BLOCK = 256, 8
# Tile sizes (rows, inputs, outputs) of the TPU's transposed product.
_TILES = 512, 1024, 768


def choose_implementation(name: str, *, platform: str) -> str:
    """Chooses the implementation for a platform.

    Args:
        name: a key of :data:`IMPLEMENTATIONS`, or ``'auto'``: the fastest one.
        platform: platform of the devices: ``'cpu'``, ``'gpu'``, ``'tpu'``.

    Raises:
        InputError: an unknown name, or one that cannot run there.
    """
    if name not in ('auto', *IMPLEMENTATIONS):
        choices = ('auto', *IMPLEMENTATIONS)
        raise InputError(f'experts {name!r} is none of {choices}')
    supported = {'ragged': platform == 'tpu', 'blocks': True}
    if name == 'auto':
        return next(kind for kind, can in supported.items() if can)
    if not supported[name]:
        can = [kind for kind, can in supported.items() if can]
        raise InputError(f'experts {name!r} cannot run on {platform=}; have {can}')
    return name


def _swiglu(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.silu(a) * b


def _pull_hidden(
    a: jax.Array, b: jax.Array, u: jax.Array, weights: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Computes the gradients of the hidden rows ``h = silu(a) * b``.

    Args:
        a, b: ``[R, F]`` the products with gate and up.
        u: ``[R, F]`` the result's cotangent times the transposed down kernel, without
            the weights.
        weights: ``[R]`` float32.

    Returns:
        ``h``; the gradients of ``a`` and ``b``; the gradient of the weights, float32.
    """
    h, pull = jax.vjp(_swiglu, a, b)
    grad_a, grad_b = pull(_weighted(u, weights))
    grad_weights = (h.astype(jnp.float32) * u.astype(jnp.float32)).sum(axis=-1)
    return h, grad_a, grad_b, grad_weights


def _weighted(x: jax.Array, weights: jax.Array) -> jax.Array:
    return (x.astype(jnp.float32) * weights[:, None]).astype(x.dtype)


def _blocks(
    sizes: Int[Array, 'E'], num_rows: int
) -> tuple[int, jax.Array, Callable[[jax.Array], tuple[jax.Array, ...]]]:
    """Cuts the rows of each expert into blocks.

    Returns:
        Rows per block; the number of blocks; and a function from a block's number to
        its expert, its first row, and how many rows from there on are the expert's.
    """
    even = max(1, num_rows // len(sizes))
    width = min(_MAX_BLOCK, max(_MIN_BLOCK, 1 << (even - 1).bit_length()))
    starts, blocks = jnp.cumsum(sizes) - sizes, -(-sizes // width)
    ends = jnp.cumsum(blocks)

    def place(i: jax.Array) -> tuple[jax.Array, ...]:
        expert = jnp.searchsorted(ends, i, side='right')
        before = (i - ends[expert] + blocks[expert]) * width
        return expert, starts[expert] + before, sizes[expert] - before

    return width, ends[-1], place


def _forward_blocks(
    x: Float[Array, 'R D'], kernels: Kernels, sizes: Int[Array, 'E']
) -> Float[Array, 'R D']:
    (gate, up, down), dot = kernels, multiply_matrices
    width, count, place = _blocks(sizes, len(x))
    x = jnp.pad(x, ((0, width), (0, 0)))

    def run(i: jax.Array, ys: jax.Array) -> jax.Array:
        expert, first, _ = place(i)
        rows = jax.lax.dynamic_slice_in_dim(x, first, width)
        y = dot(_swiglu(dot(rows, gate[expert]), dot(rows, up[expert])), down[expert])
        # The next expert's block overwrites rows that are its own.
        return jax.lax.dynamic_update_slice_in_dim(ys, y, first, 0)

    return jax.lax.fori_loop(0, count, run, jnp.zeros_like(x))[:-width]


def _backward_blocks(
    x: Float[Array, 'R D'],
    g: Float[Array, 'R D'],
    weights: Float[Array, 'R'],
    kernels: Kernels,
    sizes: Int[Array, 'E'],
) -> tuple[Float[Array, 'R D'], Float[Array, 'R'], Kernels]:
    (gate, up, down), dot = kernels, multiply_matrices
    width, count, place = _blocks(sizes, len(x))
    x, g = (jnp.pad(rows, ((0, width), (0, 0))) for rows in (x, g))
    weights = jnp.pad(weights, (0, width))

    def run(i: jax.Array, carry: Any) -> Any:
        expert, first, size = place(i)
        grad_x, grad_weights, grads = carry
        take = functools.partial(
            jax.lax.dynamic_slice_in_dim, start_index=first, slice_size=width
        )
        # Ignore rows of the next expert.
        real = jnp.arange(width) < size
        rows, w = take(x), jnp.where(real, take(weights), 0.0)
        grad_y = jnp.where(real[:, None], take(g), 0)
        a, b = dot(rows, gate[expert]), dot(rows, up[expert])
        u = dot(grad_y, down[expert].T)
        h, grad_a, grad_b, of_weights = _pull_hidden(a, b, u, w)
        of_rows = dot(grad_a, gate[expert].T) + dot(grad_b, up[expert].T)
        pairs = (rows, grad_a), (rows, grad_b), (h, _weighted(grad_y, w))
        write = jax.lax.dynamic_update_slice_in_dim
        return (
            write(grad_x, of_rows, first, 0),
            write(grad_weights, of_weights, first, 0),
            tuple(
                total.at[expert].add(_outer(*pair))
                for total, pair in zip(grads, pairs, strict=True)
            ),
        )

    zeros = tuple(jnp.zeros(kernel.shape, jnp.float32) for kernel in kernels)
    carry = jnp.zeros_like(x), jnp.zeros_like(weights), zeros
    grad_x, grad_weights, grads = jax.lax.fori_loop(0, count, run, carry)
    return grad_x[:-width], grad_weights[:-width], grads


def _outer(x: Float[Array, 'B A'], g: Float[Array, 'B C']) -> Float[Array, 'A C']:
    """Computes ``x.T @ g``, float32."""
    rows = ((0,), (0,)), ((), ())
    return multiply(x, g, rows, dtype=jnp.float32)


def _forward_ragged(
    x: Float[Array, 'R D'], kernels: Kernels, sizes: Int[Array, 'E']
) -> Float[Array, 'R D']:
    gate, up, down = kernels
    dot = functools.partial(_multiply_ragged, sizes=sizes)
    return dot(_swiglu(dot(x, gate), dot(x, up)), down)


def _backward_ragged(
    x: Float[Array, 'R D'],
    g: Float[Array, 'R D'],
    weights: Float[Array, 'R'],
    kernels: Kernels,
    sizes: Int[Array, 'E'],
    *,
    interpret: bool = False,
) -> tuple[Float[Array, 'R D'], Float[Array, 'R'], Kernels]:
    gate, up, _ = kernels
    dot = functools.partial(_multiply_ragged, sizes=sizes)
    back = (kernel.swapaxes(1, 2) for kernel in kernels)
    gate_back, up_back, down_back = back
    a, b, u = dot(x, gate), dot(x, up), dot(g, down_back)
    h, grad_a, grad_b, grad_weights = _pull_hidden(a, b, u, weights)
    grad_x = dot(grad_a, gate_back) + dot(grad_b, up_back)
    outer = functools.partial(_outer_ragged, sizes=sizes, interpret=interpret)
    grads = outer(x, grad_a), outer(x, grad_b), outer(h, _weighted(g, weights))
    return grad_x, grad_weights, grads


def _multiply_ragged(
    x: Float[Array, 'R A'], y: Float[Array, 'E A B'], *, sizes: Int[Array, 'E']
) -> Float[Array, 'R B']:
    return jax.lax.ragged_dot(x, y, sizes, precision=choose_precision(x, y))


def _outer_ragged(
    x: Float[Array, 'R A'],
    g: Float[Array, 'R B'],
    *,
    sizes: Int[Array, 'E'],
    interpret: bool,
) -> Float[Array, 'E A B']:
    """Computes ``x.T @ g`` over each expert's rows, float32, by the TPU's kernel."""
    # The package has a function of this name, which hides the module.
    kernels = importlib.import_module('jax.experimental.pallas.ops.tpu.megablox.gmm')
    rows, *features = _TILES
    x, g = (jnp.pad(y, ((0, -len(y) % rows), (0, 0))) for y in (x, g))
    tiles = (min(a, b) for a, b in zip(features, (x.shape[1], g.shape[1]), strict=True))
    precision = choose_precision(x, g)
    # The kernel has no argument for it.
    with jax.default_matmul_precision(precision) if precision else nullcontext():
        return kernels.tgmm(
            x.T,
            g,
            sizes,
            preferred_element_type=jnp.float32,
            tiling=(rows, *tiles),
            interpret=interpret,
        )


IMPLEMENTATIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    'blocks': (_forward_blocks, _backward_blocks),
    'ragged': (_forward_ragged, _backward_ragged),
}
"""By name: ``forward(x, kernels, sizes)`` returns ``down(silu(gate(x)) * up(x))`` of
each row; ``backward(x, g, weights, kernels, sizes)`` the gradients of rows, weights and
kernels if ``g`` is the cotangent of the rows times their weights."""
