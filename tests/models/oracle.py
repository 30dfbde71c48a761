"""Tiny policies, losses on them, and the network the slow way: nothing is cached."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.arch import Arch, Layer, Vision
from passk_jax.models.families.table import family_of
from passk_jax.models.policy import Params, Policy
from passk_jax.models.rope import Rope
from passk_jax.types import Prompts

TEMPERATURE = 0.7
ROPE = Rope(kind='default', theta=1e4)
VISION = Vision(
    depth=3,
    embed_dim=16,
    num_heads=2,
    mlp_dim=20,
    patch_size=4,
    frames=2,
    merge_size=2,
    table_size=5,
    taps=(0, 1),
    image_token=15,
)


# Of a family's own; its windows are of 2 x 2 tokens.
FAMILY_VISION: dict[str, dict[str, Any]] = {
    'qwen2_5_vl': {
        'table_size': 0,
        'taps': (),
        'window_size': 20,
        'global_blocks': (1,),
    }
}


def family_vision(name: str, **changes: Any) -> Vision | None:
    """A small tower of a family, if it has one."""
    parts = family_of(name).vision
    if parts is None:
        return None
    pieces = {**parts.pieces, **FAMILY_VISION.get(name, {})}
    return dataclasses.replace(VISION, **pieces | changes)


def tiny_arch(
    *,
    windows: Sequence[int] = (0,),
    rope: Rope | None = ROPE,
    feed_forward: str = 'swiglu',
    **changes: Any,
) -> Arch:
    """A Qwen2 of two layers, with fields of :class:`Arch` and its layers changed."""
    sizes = {
        'vocab_size': 16,
        'num_layers': 2,
        'embed_dim': 32,
        'num_heads': 4,
        'num_kv_heads': 2,
        'head_dim': 8,
        'mlp_dim': 48,
        'layers': tuple(Layer(rope, window, feed_forward) for window in windows),
        'norm_eps': 1e-6,
        'tie_embeddings': False,
        'qkv_bias': True,
        'qk_norm': False,
        'param_dtype': 'float32',
        'dtype': 'float32',
        'remat': 'none',
        'attention': 'plain',
    }
    if feed_forward == 'moe':
        sizes |= {'num_experts': 4, 'experts_per_token': 2}
    return Arch(**(sizes | changes))


def family_arch(name: str, *, rope: Rope = ROPE, **changes: Any) -> Arch:
    """A small network of a family, with a tower if the family has one."""
    parts, head_dim = family_of(name), changes.get('head_dim', 8)
    if parts.vision:
        sections, turns = equal_sections(head_dim), parts.vision.interleaved
        rope = dataclasses.replace(rope, sections=sections, interleaved=turns)
        changes = {'vision': family_vision(name)} | changes
    kinds = {'feed_forward': parts.feed_forward, **parts.pieces}
    return tiny_arch(rope=rope, **kinds | changes)


def equal_sections(head_dim: int) -> tuple[int, int, int]:
    """Sections of a rope, as equal as the pairs of a head allow."""
    pairs = head_dim // 2
    return (pairs - pairs // 3 * 2, pairs // 3, pairs // 3)


def with_windows(arch: Arch, *windows: int) -> Arch:
    """The architecture with other windows in an otherwise uniform pattern."""
    layer = arch.layers[0]
    layers = tuple(dataclasses.replace(layer, window=window) for window in windows)
    return dataclasses.replace(arch, layers=layers)


def tiny_policy(
    *,
    head_chunk_tokens: int = 1 << 20,
    frozen: frozenset[str] = frozenset(),
    **changes: Any,
) -> Policy:
    arch = tiny_arch(**changes)
    return policies.Policy(arch, head_chunk_tokens, frozen=frozen)


def random_params(policy: Policy, *, seed: int = 0) -> Params:
    """Every parameter random, norms and biases too: none may be forgotten."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(
        lambda: policies.init_params(
            policy,
            jax.random.key(0),
            jax.sharding.Mesh(
                np.array(jax.devices()[:1]).reshape(1, 1, 1, 1), sharding.MESH_AXES
            ),
        )
    )
    params = {}
    for name, x in shapes.items():
        value = 0.2 * rng.standard_normal(x.shape)
        value += name.endswith('norm.scale')
        params[name] = jax.device_put(value.astype(x.dtype))
    return params


def random_batch(
    *, vocab_size: int, P: int = 3, S: int = 5, N: int = 2, T: int = 4, seed: int = 0
) -> tuple[Prompts, jax.Array, jax.Array]:
    """Prompts of unequal lengths, responses, and lengths of the responses."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, S + 1, P)
    lengths[0] = S
    prompts = Prompts(
        tokens=int32(rng.integers(0, vocab_size, (P, S))),
        lengths=int32(lengths),
        problem_ids=int32(np.arange(P)),
    )
    tokens = int32(rng.integers(0, vocab_size, (P, N, T)))
    return prompts, tokens, int32(rng.integers(1, T + 1, (P, N)))


def int32(x: np.ndarray) -> jax.Array:
    """Cast by numpy and put: JAX would compile a program for each shape."""
    return jax.device_put(x.astype(np.int32))


def _angles(arch: Arch, num_tokens: int) -> np.ndarray:
    """``[L, n, 1, H/2]`` of each layer; 0 where it rotates nothing."""
    half = arch.head_dim // 2
    turns = [
        layer.rope.theta ** (-np.arange(half) / half) if layer.rope else np.zeros(half)
        for layer in arch.all_layers
    ]
    return np.arange(num_tokens)[:, None, None] * np.stack(turns)[:, None, None]


def sequence_logits(params: Params, arch: Arch, tokens: jax.Array) -> jax.Array:
    """``[n]`` tokens to ``[n, V]`` logits, float32."""
    n = len(tokens)
    half = arch.head_dim // 2

    def norm(x, scale):
        mean = jnp.mean(x**2, axis=-1, keepdims=True)
        return x / jnp.sqrt(mean + arch.norm_eps) * scale

    def turned(x, angles):
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    def attention(x, layer, window, angles):
        def heads(kind):
            y = jnp.einsum('nd,djh->njh', x, layer[f'attention.{kind}.kernel'])
            if arch.qkv_bias:
                y += layer[f'attention.{kind}.bias']
            if arch.qk_norm and kind != 'value':
                y = norm(y, layer[f'attention.{kind}_norm.scale'])
            return y

        groups = arch.num_heads // arch.num_kv_heads
        query, key = (turned(heads(kind), angles) for kind in ('query', 'key'))
        key = jnp.repeat(key, groups, axis=1)
        value = jnp.repeat(heads('value'), groups, axis=1)
        scores = jnp.einsum('njh,mjh->jnm', query, key) / np.sqrt(arch.head_dim)
        ages = np.arange(n)[:, None] - np.arange(n)
        seen = (ages >= 0) & (ages < window)
        scores = jnp.where(seen, scores, -jnp.inf)
        mixed = jnp.einsum('jnm,mjh->njh', jax.nn.softmax(scores), value)
        return jnp.einsum('njh,jhd->nd', mixed, layer['attention.out.kernel'])

    def mlp(x, layer):
        gate, up = x @ layer['mlp.gate.kernel'], x @ layer['mlp.up.kernel']
        return (gate * jax.nn.sigmoid(gate) * up) @ layer['mlp.down.kernel']

    def block(x, of_layer):
        layer, *places = of_layer
        x += attention(norm(x, layer['attention_norm.scale']), layer, *places)
        return x + mlp(norm(x, layer['mlp_norm.scale']), layer), None

    table = params['embed.embedding']
    layers = {
        name.removeprefix('layers.'): value
        for name, value in params.items()
        if name.startswith('layers.')
    }
    # 0: it sees all.
    windows = np.array([layer.window or n for layer in arch.all_layers])
    # Each layer by the same program: to compile them one by one takes seconds.
    x, _ = jax.lax.scan(block, table[tokens], (layers, windows, _angles(arch, n)))
    x = norm(x, params['final_norm.scale'])
    return x @ (table.T if arch.tie_embeddings else params['head.kernel'])


def token_log_probs(
    params: Params,
    arch: Arch,
    prompts: Prompts,
    tokens: jax.Array,
    *,
    temperature: float,
) -> tuple[jax.Array, jax.Array]:
    """Log-probabilities and entropies with the prompt repeated for each rollout."""

    def one(prompt, length, response):
        T = len(response)
        # The response follows its prompt at once; causality hides what is behind.
        sequence = jnp.concatenate([prompt, jnp.zeros_like(response)])
        sequence = jax.lax.dynamic_update_slice_in_dim(sequence, response, length, 0)
        logits = sequence_logits(params, arch, sequence)
        logits = jax.lax.dynamic_slice_in_dim(logits, length - 1, T, 0)
        dist = jax.nn.log_softmax(logits / temperature)
        return dist[jnp.arange(T), response], -(jnp.exp(dist) * dist).sum(-1)

    every_rollout = jax.vmap(one, in_axes=(None, None, 0))
    return jax.vmap(every_rollout)(prompts.tokens, prompts.lengths, tokens)


def log_probs_of(policy, prompts, tokens):
    """A function of the parameters to log-probabilities and entropies."""

    def values(params):
        return policies.token_log_probs(
            policy, params, prompts, tokens, temperature=TEMPERATURE
        )[:2]

    return values


def weighted(log_probs, entropies, lengths):
    """A loss in which every real token has its own weight."""
    mask = jnp.arange(log_probs.shape[-1]) < lengths[..., None]
    weights = jnp.cos(jnp.arange(log_probs.size)).reshape(log_probs.shape)
    return (mask * weights * (log_probs + 0.3 * entropies)).sum()


def loss_of(policy, prompts, tokens, lengths):
    fn = log_probs_of(policy, prompts, tokens)
    return lambda params: weighted(*fn(params), lengths)


def evaluate(policy, params, prompts, tokens, lengths, scale=1.0):
    """Log-probabilities and entropies, and gradients of a loss on them."""
    # Handed on: a default of a jitted function would be a constant of a program.
    return _evaluate(policy, params, prompts, tokens, lengths, scale)


@functools.partial(jax.jit, static_argnums=0)
def _evaluate(policy, params, prompts, tokens, lengths, scale):
    def loss(params):
        values = log_probs_of(policy, prompts, tokens)(params)
        return scale * weighted(*values, lengths), values

    grads, values = jax.grad(loss, has_aux=True)(params)
    return values, grads


def relative_error(a, b):
    """Largest error of a tree relative to each leaf's largest value."""
    a, b = jax.device_get((a, b))
    errors = jax.tree.map(lambda x, y: np.abs(x - y).max() / np.abs(y).max(), a, b)
    return max(jax.tree.leaves(errors))


def array_sizes(jaxpr):
    """Sizes of all float32 arrays of a jaxpr and of those inside it."""
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            if getattr(var.aval, 'dtype', None) == jnp.float32:
                yield var.aval.size
        for inner in jax.tree.leaves(
            list(eqn.params.values()), is_leaf=lambda x: hasattr(x, 'eqns')
        ):
            inner = getattr(inner, 'jaxpr', inner)
            if hasattr(inner, 'eqns'):
                yield from array_sizes(inner)
