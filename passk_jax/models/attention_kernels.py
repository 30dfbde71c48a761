"""Attention of entire sequences, in plain JAX or by a platform's kernel.

Sequences are causal. A sequence may continue a prefix that all sequences of its problem
share. :func:`attend_whole` has three implementations:

* ``'plain'``: attention.py, on any platform; the tests' reference for the others;
* ``'splash'``: JAX's block-sparse Pallas kernel for TPUs;
* ``'cudnn'``: ``jax.nn.dot_product_attention`` by cuDNN, for GPUs.

For cuDNN, each sequence gets a copy of its prefix's keys in front of its keys, because
cuDNN cannot differentiate two softmaxes merged by their log-sums. It counts distances
in slots, so with a window the prefix is shifted to end where the sequence begins.
Splash reads the prefix in place by a second call; :func:`_splash_row` makes the
gradients of both calls exact. Decoding, with one query per sequence, is in
decode_attention.py, which has a kernel for TPUs.
"""

import functools
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.models.attention import KeyValues, attend

IMPLEMENTATIONS = ('plain', 'splash', 'cudnn')
SAVED = 'attention'
"""Name of the attention's output for remat policies."""

_TOKEN_MAJOR = (
    ('batch', 'rollouts', None, 'heads', None),
    ('batch', 'rollouts', None, 'kv_heads', None),
    ('batch', 'rollouts', None, 'kv_heads', None),
)
_LANES = 128
_BLOCKS = (1024, 512, 256, 128)

Pair = tuple[Float[Array, 'P N S C H'], Float[Array, 'P N S C H']]
"""Keys and values in the layout of their projections."""


def saves_cudnn_output(primitive: Any, *_: Any, **__: Any) -> bool:
    """Tells remat to save what cuDNN's forward kernel returns.

    The backward kernel needs its output and log-sums, and these cannot be named.
    """
    return primitive.name.startswith('dot_product_attention_fwd')


def choose_implementation(
    name: str, *, platform: str, dtype: str, head_dim: int
) -> str:
    """Chooses the implementation for a platform.

    Args:
        name: one of :data:`IMPLEMENTATIONS`, or ``'auto'``: the platform's kernel if
            it is exact in this dtype and supports the head size, else the plain one.
        platform: platform of the devices: ``'cpu'``, ``'gpu'``, ``'tpu'``.
        dtype: dtype of the activations.
        head_dim: H.

    Raises:
        InputError: an unknown name, or a kernel that cannot run there.
    """
    if name not in ('auto', *IMPLEMENTATIONS):
        raise InputError(f'attention {name!r} is none of {("auto", *IMPLEMENTATIONS)}')
    # cuDNN does not support float32 or, before Hopper, larger heads.
    cudnn = dtype == 'bfloat16' and head_dim % 8 == 0 and head_dim <= 128
    supported = {'plain': True, 'splash': platform == 'tpu'}
    supported['cudnn'] = platform == 'gpu' and cudnn
    if name == 'auto':
        # Splash would round float32 factors to bfloat16.
        exact = supported | {'splash': platform == 'tpu' and dtype == 'bfloat16'}
        return next(kernel for kernel in ('splash', 'cudnn', 'plain') if exact[kernel])
    if not supported[name]:
        raise InputError(
            f'attention {name!r} cannot run on {platform=} with {dtype=} and '
            f'{head_dim=}; have {[kernel for kernel, can in supported.items() if can]}'
        )
    return name


def attend_whole(
    implementation: str,
    query: Float[Array, 'P N T J H'],
    suffix: Pair,
    prefix: Pair | None,
    prefix_lengths: Int[Array, 'P'] | None,
    starts: Int[Array, 'P N T'] | None = None,
    *,
    window: int = 0,
) -> Float[Array, 'P N T J H']:
    """Computes causal attention of sequences, perhaps after a shared prefix.

    Args:
        implementation: one of :data:`IMPLEMENTATIONS`.
        query: rotated queries, scaled by ``H ** -0.5``.
        suffix: the sequences' keys and values, ``[P, N, T, C, H]``.
        prefix: the prompts' keys and values, ``[P, 1, S, C, H]``, right-padded.
        prefix_lengths: how many of the S slots are not padding.
        starts: the slot where each query's response starts, if a sequence has several
            (each continues the same prefix); ``None``: 0.
        window: tokens that a query sees, including itself; 0: all before it.

    Returns:
        The weighted sums of values, in the dtype of the queries.
    """
    if implementation == 'plain':
        return _plain(query, suffix, prefix, prefix_lengths, starts, window)
    if implementation == 'splash':
        return _splash(query, suffix, prefix, prefix_lengths, starts, window)
    if prefix is not None:
        suffix = after_prefix(suffix, prefix, prefix_lengths if window else None)
    return _dense(query, suffix, prefix_lengths, implementation, starts, window)


def after_prefix(suffix: Pair, prefix: Pair, lengths: jax.Array | None = None) -> Pair:
    """Puts a copy of the prefix's keys and values before those of each sequence.

    With ``lengths``, the prefix is shifted: its pads come first, and its last token is
    next to the sequence.
    """
    N = suffix[0].shape[1]
    if lengths is not None:
        shifts = prefix[0].shape[2] - lengths
        shift = jax.vmap(functools.partial(jnp.roll, axis=1))
        prefix = shift(prefix[0], shifts), shift(prefix[1], shifts)

    def after(before: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.repeat(before, N, axis=1), x], axis=2)

    return after(prefix[0], suffix[0]), after(prefix[1], suffix[1])


def key_values(pair: Pair) -> KeyValues:
    """Converts keys and values to the layout of the plain form and the decode cache."""
    key, value = pair
    return KeyValues(
        keys=key.transpose(0, 3, 1, 4, 2), values=value.transpose(0, 3, 1, 2, 4)
    )


def take_first_sequences(cache: KeyValues) -> KeyValues:
    """Takes each problem's first sequence, its prompt, as a prefix."""
    return KeyValues(keys=cache.keys[:, :, 0], values=cache.values[:, :, 0])


def _plain(query, suffix, prefix, prefix_lengths, starts, window):
    shared = None if prefix is None else take_first_sequences(key_values(prefix))
    last = jnp.arange(query.shape[2])
    mixed = attend(
        query, key_values(suffix), last, shared, prefix_lengths, starts, window=window
    )
    return checkpoint_name(mixed, SAVED)


def _real(num_slots: int, T: int, lengths: jax.Array, window: int) -> jax.Array:
    """Masks the slots that are not pads of the prefix: ``[P, num_slots]``."""
    slots, S, lengths = jnp.arange(num_slots), num_slots - T, lengths[:, None]
    return slots >= S - lengths if window else (slots < lengths) | (slots >= S)


def _dense(query, pair, prefix_lengths, implementation, starts=None, window=0):
    T = query.shape[2]
    S = pair[0].shape[2]
    attend_to = functools.partial(
        jax.nn.dot_product_attention, scale=1.0, implementation=implementation
    )
    local = {'local_window_size': (window - 1, 0)} if window else {}

    def prompts(*arrays):
        # JAX has no gradient for odd sizes.
        arrays = [_pad(x, 2, multiple=2) for x in arrays]
        rows = (x.reshape(-1, *x.shape[2:]) for x in arrays)
        mixed = attend_to(*rows, is_causal=True, **local).reshape(arrays[0].shape)
        return mixed[:, :, :T]

    def responses(query, key, value, seen, *starts):
        # Align the mask at the bottom right; is_causal would align it at the top left.
        slots, last = jnp.arange(S) - (S - T), jnp.arange(T)[:, None]
        causal = slots <= last
        # JAX has no gradient for odd sizes.
        query, key, value = (_pad(x, 2, multiple=2) for x in (query, key, value))

        def attend_problem(args):
            query, key, value, seen, *starts = args
            # All rollouts of a problem share a mask; only one mask exists at a time.
            mask, first = (causal & seen)[None], 0
            if starts:
                first = starts[0][..., None]
                mask &= (slots < 0) | (slots >= first)
            if window:
                mask &= last - jnp.where(slots < 0, first, 0) - slots < window
            mask = _pad(_pad(mask, 1, multiple=2), 2, multiple=2)
            return attend_to(query, key, value, mask=mask[:, None])

        return jax.lax.map(attend_problem, (query, key, value, seen, *starts))[:, :, :T]

    arrays, axes, fn = (query, *_keys_of_heads(query, pair)), _TOKEN_MAJOR, prompts
    if prefix_lengths is not None:
        arrays = (*arrays, _real(S, T, prefix_lengths, window))
        axes, fn = (*axes, ('batch', None)), responses
    if starts is not None:
        arrays, axes = (*arrays, starts), (*axes, ('batch', 'rollouts', None))
    mixed = sharding.on_each_device(fn, arrays, axes, axes[0])
    # Remat saves the output of cuDNN's kernel anyway: see saves_cudnn_output.
    return mixed if implementation == 'cudnn' else checkpoint_name(mixed, SAVED)


def _keys_of_heads(query, pair):
    """Repeats keys and values if only the queries' heads are split over devices."""
    J, C = query.shape[3], pair[0].shape[3]
    if sharding.local_size('heads', J) * C == sharding.local_size('kv_heads', C) * J:
        return pair
    # The mesh splits the heads of the queries, but not those of the keys.
    return tuple(jnp.repeat(x, J // C, axis=3) for x in pair)


def _splash(
    query: jax.Array,
    suffix: Pair,
    prefix: Pair | None = None,
    prefix_lengths: jax.Array | None = None,
    starts: jax.Array | None = None,
    window: int = 0,
    *,
    interpret: bool = False,
) -> jax.Array:
    T = query.shape[2]
    if starts is None:
        starts = jnp.zeros(query.shape[:3], jnp.int32)
    pairs = (suffix,) if prefix is None else (suffix, prefix)
    arrays = [query, *(x for pair in pairs for x in _keys_of_heads(query, pair))]
    arrays = [_pad(x.transpose(0, 1, 3, 2, 4), 3) for x in arrays]
    axes = [('batch', 'rollouts', 'heads', None, None)]
    axes += [('batch', 'rollouts', 'kv_heads', None, None)] * (len(arrays) - 1)
    # The pads of a row are the response -1.
    arrays += [_pad(starts, 2, value=-1)]
    axes += [('batch', 'rollouts', None)]
    if prefix is not None:
        arrays += [jnp.asarray(prefix_lengths)]
        axes += [('batch',)]

    def local(query, key, value, *operands):
        """Attends in the rows of each problem, which share its prefix."""
        *before, starts, lengths = operands if prefix is not None else (*operands, None)
        shared = tuple(x[:, 0] for x in before) or None
        S = shared[0].shape[2] if shared else 0
        attend_row = _splash_row(*query.shape[2:4], S, window, interpret)
        attend_rows = jax.vmap(attend_row, in_axes=(0, 0, 0, None, None))
        return jax.vmap(attend_rows)(query, (key, value), starts, shared, lengths)

    mixed = sharding.on_each_device(local, tuple(arrays), tuple(axes), axes[0])
    return mixed[:, :, :, :T].transpose(0, 1, 3, 2, 4)


@functools.lru_cache
def _splash_row(num_heads: int, T: int, S: int, window: int, interpret: bool) -> Any:
    """Makes attention of a row of T tokens to itself and to a prefix of S slots.

    S may be 0. The kernel of the row is causal within each response; the kernel of the
    prefix is not causal. Their outputs are merged by their log-sums into one softmax.
    The backward kernels compute weights as ``exp(logits - log_sum)``. Both get the
    log-sum, output and gradient of the merged softmax, so the gradients are exact.
    """
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    causal, full = splash.CausalMask((T, T)), splash.FullMask((T, S))
    if window:
        causal = splash.LocalMask((T, T), (window - 1, 0), offset=0)
    masked = _splash_kernel(causal, num_heads, interpret)
    unmasked = _splash_kernel(full, num_heads, interpret) if S else None
    sides = splash.SegmentIds

    def calls(row: Pair, starts: jax.Array, prefix: Any, length: Any) -> Any:
        """Yields kernels, their keys and values, and the segments of both sides."""
        yield masked, row, sides(starts, starts)
        if unmasked is not None:
            # The newest slot of the prefix that lies before each query's window.
            last = length + jnp.arange(T) - starts - window
            kernel = _visible_after(unmasked, last) if window else unmasked
            real = (jnp.arange(S) < length).astype(jnp.int32)
            yield kernel, prefix, sides(jnp.ones_like(starts), real)

    def forward(query: jax.Array, *args: Any) -> tuple[jax.Array, Any]:
        parts = [kernel(query, *pair, ids) for kernel, pair, ids in calls(*args)]
        mixed, log_sum = _merge([(x, log_sum) for x, (log_sum,) in parts])
        mixed = checkpoint_name(mixed, SAVED)
        log_sum = checkpoint_name(log_sum, SAVED)
        return mixed, (query, args, mixed, log_sum)

    def backward(saved: Any, gradient: jax.Array) -> tuple[Any, ...]:
        query, args, mixed, log_sum = saved
        of_query, of_pairs = jnp.zeros_like(query), []
        for kernel, pair, ids in calls(*args):
            arrays = query, *pair, ids, None, mixed, log_sum, None
            of_this, *of_pair = _splash_gradients(kernel, arrays, gradient)
            of_query += of_this
            of_pairs.append(tuple(of_pair))
        of_row, of_prefix = (*of_pairs, None)[:2]
        return of_query, of_row, None, of_prefix, None

    attend_row = jax.custom_vjp(lambda *args: forward(*args)[0])
    attend_row.defvjp(forward, backward)
    return attend_row


def _splash_gradients(
    kernel: Any, arrays: tuple[Any, ...], gradient: jax.Array
) -> tuple[jax.Array, ...]:
    """Returns the gradients of query, key and value, which ``arrays`` begins with."""
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as private,
    )

    # The order of JAX 0.10.2, where three gradients of masks come first.
    saved = *arrays, kernel.dkv_mask_info
    returned = private._splash_attention_bwd(**kernel.kwargs, res=saved, do=gradient)
    gradients = returned[3:6]
    shapes = [getattr(x, 'shape', None) for x in gradients]
    if shapes != [x.shape for x in arrays[:3]]:
        raise InputError(
            f'Splash of JAX {jax.__version__} returns other gradients than that of '
            f'0.10.2, {shapes}: install jax 0.10.2, or set model.attention=plain'
        )
    return gradients


def _merge(parts: list[tuple[jax.Array, jax.Array]]) -> tuple[jax.Array, jax.Array]:
    """Merges outputs ``[J, T, H]`` and log-sums ``[J, T]`` of parts of a softmax."""
    if len(parts) == 1:
        return parts[0]
    total = functools.reduce(jnp.logaddexp, (log_sum for _, log_sum in parts))
    mixed = jnp.zeros(parts[0][0].shape, jnp.float32)
    for x, log_sum in parts:
        mixed += jnp.exp(log_sum - total)[..., None] * x
    return mixed.astype(parts[0][0].dtype), total


@functools.lru_cache
def _splash_kernel(mask: Any, num_heads: int, interpret: bool) -> Any:
    """Makes the kernel of a mask, for one sequence; it returns log-sums too."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    q, kv = (next(b for b in _BLOCKS if n % b == 0) for n in mask.shape)
    blocks = splash.BlockSizes(
        block_q=q,
        block_kv=kv,
        block_kv_compute=min(kv, 512),
        block_q_dkv=q,
        block_kv_dkv=kv,
        block_kv_dkv_compute=min(kv, 512),
        use_fused_bwd_kernel=True,
    )
    # The kernel's block tables must be numpy arrays, even under a trace.
    with jax.ensure_compile_time_eval():
        return splash.make_splash_mha(
            mask=splash.MultiHeadMask([mask] * num_heads),
            block_sizes=blocks,
            head_shards=1,
            q_seq_shards=1,
            save_residuals=True,
            interpret=interpret,
        )


def _visible_after(kernel: Any, last: Any) -> Any:
    """Adds a mask to a kernel without one: hides keys up to each query's ``last``."""
    forward, backward = kernel.fwd_mask_info, kernel.dkv_mask_info
    assert backward is not None  # The backward kernel is the fused one.
    return type(kernel)(
        forward._replace(q_sequence=last),
        None,
        backward._replace(q_sequence=last),
        **{**kernel.kwargs, 'mask_function': _is_after},
    )


def _is_after(last: jax.Array, slots: jax.Array) -> jax.Array:
    return slots > last


def _pad(
    x: jax.Array, axis: int, *, multiple: int = _LANES, value: int = 0
) -> jax.Array:
    """Pads an axis at its end with a value, up to a multiple."""
    widths = np.zeros((x.ndim, 2), int)
    widths[axis, 1] = -x.shape[axis] % multiple
    return jnp.pad(x, widths, constant_values=value)
