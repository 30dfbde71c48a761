"""Attention of entire sequences, in plain JAX or by a platform's kernel.

Sequences are causal. A sequence may continue a prefix that all sequences of its problem
share. :func:`attend_whole` has three implementations:

* ``'plain'``: attention.py, on any platform; the tests' reference for the others;
* ``'splash'``: JAX's block-sparse Pallas kernel for TPUs;
* ``'cudnn'``: ``jax.nn.dot_product_attention`` by cuDNN, for GPUs.

For the kernels, each sequence's keys follow a copy of its prefix's keys. With few
key/value heads the copy is small compared with the activations, and the gradient of the
single softmax is exact (cuDNN's rule does not differentiate two softmaxes merged by
their log-sums). A kernel counts distances in slots, so with a window the prefix is
shifted to end where the sequence begins. Decoding, with one query per sequence, does
not use this module.
"""

import functools
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash_kernel,
)
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_mask as splash_mask,
)
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.models.attention import KeyValues, attend
from passk_jax.sharding import shard

IMPLEMENTATIONS = ('plain', 'splash', 'cudnn')
PACKING = ('plain', 'cudnn')
"""Those that can attend to several responses a sequence (splash's segments cannot share
a prefix)."""
SAVED = 'attention'
"""Name of the attention's output for remat policies."""


def is_kernel(primitive: Any, *_: Any, **__: Any) -> bool:
    """Tells remat to save what cuDNN's forward kernel returns.

    That is its output and the log-sums, which its backward kernel needs and to which
    no name can be given.
    """
    return primitive.name.startswith('dot_product_attention_fwd')


_TOKEN_MAJOR = (
    ('batch', 'rollouts', None, 'heads', None),
    ('batch', 'rollouts', None, 'kv_heads', None),
    ('batch', 'rollouts', None, 'kv_heads', None),
)
_LANES = 128
_BLOCKS = (1024, 512, 256, 128)

Pair = tuple[Float[Array, 'P N S C H'], Float[Array, 'P N S C H']]
"""Keys and values as they are projected."""


def choose_implementation(
    name: str, *, platform: str, dtype: str, head_dim: int
) -> str:
    """Chooses the implementation for a platform.

    Args:
        name: one of :data:`IMPLEMENTATIONS`, or ``'auto'``: the platform's kernel if
            it supports dtype and head size, else the plain one.
        platform: of the devices: ``'cpu'``, ``'gpu'``, ``'tpu'``.
        dtype: of the activations.
        head_dim: H.

    Raises:
        InputError: an unknown name, or a kernel that cannot run there.
    """
    if name not in ('auto', *IMPLEMENTATIONS):
        raise InputError(f'attention {name!r} is none of {("auto", *IMPLEMENTATIONS)}')
    # cuDNN has neither float32 nor, before Hopper, larger heads.
    cudnn = dtype == 'bfloat16' and head_dim % 8 == 0 and head_dim <= 128
    supported = {'plain': True, 'splash': platform == 'tpu'}
    supported['cudnn'] = platform == 'gpu' and cudnn
    if name == 'auto':
        return next(
            kernel for kernel in ('splash', 'cudnn', 'plain') if supported[kernel]
        )
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
        prefix_lengths: how many of the S are real.
        starts: the slot where each query's response starts, if a sequence has several
            (each continues the same prefix); ``None``: 0.
        window: tokens that a query sees, including itself; 0: all before it.

    Returns:
        The weighted sums of values, in the dtype of the queries.

    Raises:
        InputError: several responses per sequence, for a kernel that does not support
            them.
    """
    if implementation == 'plain':
        return _plain(query, suffix, prefix, prefix_lengths, starts, window)
    if starts is not None and implementation not in PACKING:
        raise InputError(
            f'attention {implementation!r} cannot attend to several responses a '
            f'sequence; those that can are {PACKING}'
        )
    if prefix is not None:
        suffix = after_prefix(suffix, prefix, prefix_lengths if window else None)
    if implementation == 'splash':
        return _splash(query, suffix, prefix_lengths, window)
    return _dense(query, suffix, prefix_lengths, implementation, starts, window)


def after_prefix(suffix: Pair, prefix: Pair, lengths: jax.Array | None = None) -> Pair:
    """Appends each sequence's keys and values to a copy of its prefix's.

    With ``lengths`` the pads of the prefix come first, so that its last token is next
    to the sequence.
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
        # JAX refuses the gradient of odd sizes.
        arrays = [_pad(x, 2, multiple=2) for x in arrays]
        rows = (x.reshape(-1, *x.shape[2:]) for x in arrays)
        mixed = attend_to(*rows, is_causal=True, **local).reshape(arrays[0].shape)
        return mixed[:, :, :T]

    def responses(query, key, value, seen, *starts):
        # Aligned at the bottom right; is_causal would mean the top left.
        slots, last = jnp.arange(S) - (S - T), jnp.arange(T)[:, None]
        causal = slots <= last
        # JAX refuses the gradient of odd sizes here too.
        query, key, value = (_pad(x, 2, multiple=2) for x in (query, key, value))

        def attend_problem(args):
            query, key, value, seen, *starts = args
            # All rollouts share a mask, and one problem's mask exists at a time.
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
    return checkpoint_name(mixed, SAVED)


def _keys_of_heads(query, pair):
    """Splits keys and values over devices by head, as the queries are."""
    J, C = query.shape[3], pair[0].shape[3]
    if sharding.local_size('heads', J) * C == sharding.local_size('kv_heads', C) * J:
        return pair
    # The heads of the queries are split, those of the keys are not: repeat the keys.
    return tuple(jnp.repeat(x, J // C, axis=3) for x in pair)


def _splash(query, pair, prefix_lengths, window=0, *, interpret: bool = False):
    T = query.shape[2]
    P, _, S = pair[0].shape[:3]
    pair = _keys_of_heads(query, pair)
    if prefix_lengths is None:
        seen = jnp.ones((P, S), jnp.int32)
    else:
        seen = _real(S, T, prefix_lengths, window).astype(jnp.int32)
    head_major = tuple(x.transpose(0, 1, 3, 2, 4) for x in (query, *pair))

    def local(query, key, value, seen) -> Any:
        kernel = _splash_kernel(query.shape[2], T, S, window, interpret)
        ids = splash_kernel.SegmentIds(
            q=jnp.ones(query.shape[3], jnp.int32), kv=jnp.zeros(0)
        )
        of_rollout = jax.vmap(
            lambda q, k, v, seen: kernel(q, k, v, ids._replace(kv=seen)),
            in_axes=(0, 0, 0, None),
        )
        return jax.vmap(of_rollout)(query, key, value, seen)

    head_major = [_pad(x, 3) for x in head_major]
    axes = tuple((*a[:2], a[3], None, None) for a in _TOKEN_MAJOR)
    mixed = sharding.on_each_device(
        local, (*head_major, _pad(seen, 1)), (*axes, ('batch', None)), axes[0]
    )
    mixed = mixed[:, :, :, :T].transpose(0, 1, 3, 2, 4)
    return shard(mixed, 'batch', 'rollouts', None, 'heads', None)


@functools.lru_cache
def _splash_kernel(num_heads: int, T: int, S: int, window: int, interpret: bool):
    """Makes the kernel for one sequence of T queries at the end of S keys."""
    queries, keys = (-(-size // _LANES) * _LANES for size in (T, S))
    mask = splash_mask.CausalMask((queries, keys), offset=S - T)
    if window:
        mask = splash_mask.LocalMask((queries, keys), (window - 1, 0), offset=S - T)
    q, kv = (next(b for b in _BLOCKS if n % b == 0) for n in (queries, keys))
    blocks = splash_kernel.BlockSizes(
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
        return splash_kernel.make_splash_mha(
            mask=splash_mask.MultiHeadMask([mask] * num_heads),
            block_sizes=blocks,
            head_shards=1,
            q_seq_shards=1,
            residual_checkpoint_name=SAVED,
            interpret=interpret,
        )


def _pad(x: jax.Array, axis: int, *, multiple: int = _LANES) -> jax.Array:
    """Pads an axis with zeros at its end, up to a multiple."""
    widths = np.zeros((x.ndim, 2), int)
    widths[axis, 1] = -x.shape[axis] % multiple
    return jnp.pad(x, widths)
