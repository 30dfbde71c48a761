"""Attention of whole sequences: the plain form, or the platform's own kernel.

Sequences are causal, and each may go on from a prefix that its problem's sequences
share. Three implementations of the one function :func:`attend_whole`:

* ``'plain'``: attention.py, on any platform, the oracle of the others;
* ``'splash'``: JAX's block-sparse Pallas kernel for TPUs;
* ``'cudnn'``: ``jax.nn.dot_product_attention`` by cuDNN, for GPUs.

The kernels see each sequence's keys after a copy of its prefix's: with few key/value
heads that copy is a fraction of the activations, and the gradient of the one softmax is
exact (two softmaxes merged by their log-sums are not differentiated by cuDNN's rule).
Decoding, which has one query a sequence, never comes here.
"""

import functools

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
"""Those that attend to several responses a sequence (splash's segments have no prefix
that all of them see)."""
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
"""Keys and values as they are projected."""


def choose_implementation(
    name: str, *, platform: str, dtype: str, head_dim: int
) -> str:
    """The implementation that ``name`` means on a platform.

    Args:
        name: one of :data:`IMPLEMENTATIONS`, or ``'auto'``: the platform's own kernel
            where it can do what is asked, else the plain one.
        platform: of the devices: ``'cpu'``, ``'gpu'``, ``'tpu'``.
        dtype: of the activations.
        head_dim: H.

    Raises:
        ValueError: an unknown name, or a kernel that cannot do it.
    """
    if name not in ('auto', *IMPLEMENTATIONS):
        raise InputError(f'attention {name!r} is none of {("auto", *IMPLEMENTATIONS)}')
    # cuDNN has neither float32 nor, before Hopper, larger heads.
    cudnn = dtype == 'bfloat16' and head_dim % 8 == 0 and head_dim <= 128
    able = {'plain': True, 'splash': platform == 'tpu'}
    able['cudnn'] = platform == 'gpu' and cudnn
    if name == 'auto':
        return next(each for each in ('splash', 'cudnn', 'plain') if able[each])
    if not able[name]:
        raise InputError(
            f'attention {name!r} cannot run on {platform=} with {dtype=} and '
            f'{head_dim=}; have {[each for each, can in able.items() if can]}'
        )
    return name


def attend_whole(
    implementation: str,
    query: Float[Array, 'P N T J H'],
    own: Pair,
    prefix: Pair | None,
    prefix_lengths: Int[Array, 'P'] | None,
    starts: Int[Array, 'P N T'] | None = None,
) -> Float[Array, 'P N T J H']:
    """Causal attention of whole sequences, after a prefix they share or none.

    Args:
        implementation: one of :data:`IMPLEMENTATIONS`.
        query: rotated queries, scaled by ``H ** -0.5``.
        own: the sequences' keys and values, ``[P, N, T, C, H]``.
        prefix: those of the prompts, ``[P, 1, S, C, H]``, right-padded.
        prefix_lengths: how many of the S are seen.
        starts: where in its sequence each query's response starts, if several lie in
            one (each after the same prefix); ``None``: at 0.

    Returns:
        The mixed values, in the queries' dtype.

    Raises:
        ValueError: several responses a sequence, and a kernel that cannot.
    """
    if implementation == 'plain':
        return _plain(query, own, prefix, prefix_lengths, starts)
    if starts is not None and implementation not in PACKING:
        raise InputError(
            f'attention {implementation!r} cannot attend to several responses a '
            f'sequence; those that can are {PACKING}'
        )
    if prefix is not None:
        own = after_prefix(own, prefix)
    if implementation == 'splash':
        return _splash(query, own, prefix_lengths)
    return _dense(query, own, prefix_lengths, implementation, starts)


def after_prefix(own: Pair, prefix: Pair) -> Pair:
    """Keys and values of each sequence behind a copy of its prefix's."""
    N = own[0].shape[1]
    return tuple(
        jnp.concatenate([jnp.repeat(before, N, axis=1), x], axis=2)
        for before, x in zip(prefix, own, strict=True)
    )


def key_values(pair: Pair) -> KeyValues:
    """Keys and values of sequences as the plain form and the decode cache have them."""
    key, value = pair
    return KeyValues(
        keys=key.transpose(0, 3, 1, 4, 2), values=value.transpose(0, 3, 1, 2, 4)
    )


def first_of_each(kept: KeyValues) -> KeyValues:
    """Keys and values of each problem's first sequence: its prompt, as a prefix."""
    return KeyValues(keys=kept.keys[:, :, 0], values=kept.values[:, :, 0])


def _plain(query, own, prefix, prefix_lengths, starts):
    shared = mask = None
    if prefix is not None:
        shared = first_of_each(key_values(prefix))
        mask = jnp.arange(prefix[0].shape[2]) < prefix_lengths[:, None]
    last = jnp.arange(query.shape[2])
    mixed = attend(query, key_values(own), last, shared, mask, starts)
    return checkpoint_name(mixed, SAVED)


def _seen(num_slots: int, T: int, lengths: jax.Array) -> jax.Array:
    """``[P, num_slots]``: slots that are no pad of the prefix."""
    slots = jnp.arange(num_slots)
    return (slots < lengths[:, None]) | (slots >= num_slots - T)


def _dense(query, pair, prefix_lengths, implementation, starts=None):
    T = query.shape[2]
    S = pair[0].shape[2]
    attend_to = functools.partial(
        jax.nn.dot_product_attention, scale=1.0, implementation=implementation
    )

    def prompts(*arrays):
        rows = (x.reshape(-1, *x.shape[2:]) for x in arrays)
        return attend_to(*rows, is_causal=True).reshape(arrays[0].shape)

    def responses(query, key, value, seen, *starts):
        # Aligned at the bottom right, where is_causal would mean the top left.
        slots = jnp.arange(S) - (S - T)
        causal = slots <= jnp.arange(T)[:, None]
        # cuDNN makes a bias of a mask, and differentiates none of odd sizes.
        query, key, value = (_pad(x, 2, multiple=2) for x in (query, key, value))

        def of_problem(args):
            query, key, value, seen, *starts = args
            # One for all rollouts; and a problem at a time, so one at a time.
            mask = (causal & seen)[None]
            for first in starts:
                mask &= (slots < 0) | (slots >= first[..., None])
            mask = _pad(_pad(mask, 1, multiple=2), 2, multiple=2)
            return attend_to(query, key, value, mask=mask[:, None])

        return jax.lax.map(of_problem, (query, key, value, seen, *starts))[:, :, :T]

    arrays, axes, local = (query, *_keys_of_heads(query, pair)), _TOKEN_MAJOR, prompts
    if prefix_lengths is not None:
        arrays = (*arrays, _seen(S, T, prefix_lengths))
        axes, local = (*axes, ('batch', None)), responses
    if starts is not None:
        arrays, axes = (*arrays, starts), (*axes, ('batch', 'rollouts', None))
    mixed = sharding.on_each_device(local, arrays, axes, axes[0])
    return checkpoint_name(mixed, SAVED)


def _keys_of_heads(query, pair):
    """Keys and values that split as the queries do, head for head."""
    J, C = query.shape[3], pair[0].shape[3]
    if sharding.local_size('heads', J) * C == sharding.local_size('kv_heads', C) * J:
        return pair
    # The queries' heads are split and the keys' are not: each gets its own.
    return tuple(jnp.repeat(x, J // C, axis=3) for x in pair)


def _splash(query, pair, prefix_lengths, *, interpret: bool = False):
    T = query.shape[2]
    P, _, S = pair[0].shape[:3]
    pair = _keys_of_heads(query, pair)
    if prefix_lengths is None:
        seen = jnp.ones((P, S), jnp.int32)
    else:
        seen = _seen(S, T, prefix_lengths).astype(jnp.int32)
    head_major = tuple(x.transpose(0, 1, 3, 2, 4) for x in (query, *pair))

    def local(query, key, value, seen):
        kernel = _splash_kernel(query.shape[2], T, S, interpret)
        ids = splash_kernel.SegmentIds(
            q=jnp.ones(query.shape[3], jnp.int32), kv=jnp.zeros(0)
        )
        of_rollout = jax.vmap(
            lambda q, k, v, seen: kernel(q, k, v, ids._replace(kv=seen)),
            in_axes=(0, 0, 0, None),
        )
        return jax.vmap(of_rollout)(query, key, value, seen)

    head_major = [_pad(x, 3) for x in head_major]
    mixed = sharding.on_each_device(
        local,
        (*head_major, _pad(seen, 1)),
        (
            ('batch', 'rollouts', 'heads', None, None),
            ('batch', 'rollouts', 'kv_heads', None, None),
            ('batch', 'rollouts', 'kv_heads', None, None),
            ('batch', None),
        ),
        ('batch', 'rollouts', 'heads', None, None),
    )
    mixed = mixed[:, :, :, :T].transpose(0, 1, 3, 2, 4)
    return shard(mixed, 'batch', 'rollouts', None, 'heads', None)


@functools.lru_cache
def _splash_kernel(num_heads: int, T: int, S: int, interpret: bool):
    """The kernel for one sequence of T queries at the end of S keys."""
    queries, keys = (-(-size // _LANES) * _LANES for size in (T, S))
    mask = splash_mask.CausalMask((queries, keys), offset=S - T)
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
    # Its block tables are numpy, whatever is being traced around this call.
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
    """Zeros at the end of an axis, up to a multiple."""
    widths = np.zeros((x.ndim, 2), int)
    widths[axis, 1] = -x.shape[axis] % multiple
    return jnp.pad(x, widths)
