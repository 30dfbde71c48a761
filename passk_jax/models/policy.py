"""A policy: a transformer family behind four functions on pytrees.

:func:`make_policy` defines the network once and keeps only its static graph; the
parameters are a pytree that crosses ``jax.jit``. Then

1. :func:`prefill` runs the prompts, once a problem, whatever N is;
2. :func:`empty_cache` and :func:`decode` go on from there, a token a call;
3. :func:`token_log_probs` gives log-probabilities and entropies of whole responses,
   which is what the learner differentiates.

Nothing here holds logits of all tokens at one time: prefill looks at one position a
prompt, decoding at one a rollout, and the learner at a chunk of positions. Nor does
attention hold those of all pairs of tokens, once there are many (see attention.py).
"""

import dataclasses
import functools

import jax
from flax import nnx
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.config import ModelConfig
from passk_jax.models import qwen2
from passk_jax.models.attention import KeyValues
from passk_jax.models.chunks import map_chunks
from passk_jax.models.qwen2 import Cache, Prefix
from passk_jax.types import Prompts

FAMILIES = {'qwen2': qwen2.Qwen2}

# Parameter name ('layers.0.attention.query.kernel') -> array.
Params = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Policy:
    """The static half of a policy; hashable, so a static argument of jit.

    Attributes:
        graphdef: NNX's static graph.
        arch: the family's config.
        head_chunk_tokens: positions whose logits exist at one time in
            :func:`token_log_probs`.
    """

    graphdef: nnx.GraphDef
    arch: qwen2.Qwen2Config
    head_chunk_tokens: int

    def bind(self, params: Params) -> qwen2.Qwen2:
        """The network with these parameters."""
        flat = {_split_name(name): nnx.Param(x) for name, x in params.items()}
        return nnx.merge(self.graphdef, nnx.from_flat_state(flat))


def make_policy(config: ModelConfig, arch: qwen2.Qwen2Config) -> Policy:
    """Defines the network; no parameter is made.

    Raises:
        ValueError: an unknown family.
    """
    if config.family not in FAMILIES:
        raise ValueError(f'{config.family=} is none of {sorted(FAMILIES)}')
    network = nnx.eval_shape(lambda: _network(arch, jax.random.key(0)))
    return Policy(nnx.graphdef(network), arch, config.head_chunk_tokens)


def arch_from_config(config: ModelConfig, *, vocab_size: int) -> qwen2.Qwen2Config:
    """The architecture that ``config.arch`` spells out."""
    return qwen2.Qwen2Config(
        vocab_size=vocab_size,
        param_dtype=config.param_dtype,
        dtype=config.compute_dtype,
        remat=config.remat,
        **dataclasses.asdict(config.arch),
    )


def param_shapes(policy: Policy, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Name, shape, dtype and sharding of every parameter."""
    shapes = jax.eval_shape(lambda: _init(policy.arch, jax.random.key(0)))
    shardings = sharding.tree_sharding(mesh, shapes, param_axes)
    return jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        shapes,
        shardings,
    )


def init_params(policy: Policy, key: jax.Array, mesh: Mesh) -> Params:
    """Random parameters, made sharded: no device ever holds them all."""
    shardings = {name: x.sharding for name, x in param_shapes(policy, mesh).items()}
    init = functools.partial(_init, policy.arch)
    return jax.jit(init, out_shardings=shardings)(key)


def param_axes(name: str) -> tuple[str | None, ...]:
    """Logical axes of a parameter, by its name.

    Raises:
        ValueError: the family's table does not know it.
    """
    kind = '.'.join(name.split('.')[-2:])
    if kind not in qwen2.AXES:
        raise ValueError(f'no logical axes for {name=}; known are {list(qwen2.AXES)}')
    return qwen2.AXES[kind]


def prefill(
    policy: Policy, params: Params, prompts: Prompts
) -> tuple[Float[Array, 'P D'], Prefix]:
    """Runs the prompts, each once.

    Returns:
        The hidden state at each prompt's last token, which predicts the first
        response token, and the keys and values that responses attend to.
    """
    P, S = prompts.tokens.shape
    positions = jnp.broadcast_to(jnp.arange(S), (P, 1, S))
    hidden, layers = policy.bind(params)(prompts.tokens[:, None], positions)
    last = jnp.take_along_axis(hidden[:, 0], prompts.lengths[:, None, None] - 1, axis=1)
    shared = tuple(
        KeyValues(keys=layer.keys[:, :, 0], values=layer.values[:, :, 0])
        for layer in layers
    )
    return last[:, 0], Prefix(layers=shared, lengths=prompts.lengths)


def empty_cache(
    policy: Policy, *, num_prompts: int, num_rollouts: int, num_tokens: int
) -> Cache:
    """A decode cache for ``num_tokens`` response tokens of each rollout."""
    arch = policy.arch
    lead = (num_prompts, arch.num_kv_heads, num_rollouts)
    dtype = jnp.dtype(arch.dtype)

    def zeros(*shape: int) -> jax.Array:
        return sharding.shard(
            jnp.zeros((*lead, *shape), dtype), 'batch', 'kv_heads', None, None, None
        )

    layers = tuple(
        KeyValues(
            keys=zeros(arch.head_dim, num_tokens),
            values=zeros(num_tokens, arch.head_dim),
        )
        for _ in range(arch.num_layers)
    )
    return Cache(layers=layers, index=jnp.int32(0))


def decode(
    policy: Policy,
    params: Params,
    tokens: Int[Array, 'P N'],
    prefix: Prefix,
    cache: Cache,
) -> tuple[Float[Array, 'P N D'], Cache]:
    """Runs the next token of every rollout; the prefix is read, never copied."""
    positions = (prefix.lengths + cache.index)[:, None, None]
    positions = jnp.broadcast_to(positions, (*tokens.shape, 1))
    hidden, layers = policy.bind(params)(
        tokens[..., None], positions, prefix=prefix, cache=cache
    )
    return hidden[:, :, 0], Cache(layers=layers, index=cache.index + 1)


def logits(
    policy: Policy, params: Params, hidden: Float[Array, '*B D']
) -> Float[Array, '*B V']:
    """Next-token logits of hidden states, float32."""
    return policy.bind(params).logits(hidden)


def token_log_probs(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    tokens: Int[Array, 'P N T'],
    *,
    temperature: float | jax.Array,
) -> tuple[Float[Array, 'P N T'], Float[Array, 'P N T']]:
    """Log-probability of each response token and the entropy it was drawn under.

    The prompt is run once for its N responses, forward and backward. The head runs
    on chunks of positions under ``jax.checkpoint``: no array of ``P * N * T * V``
    logits exists, not even in the backward pass.

    Args:
        policy: the policy.
        params: its parameters.
        prompts: the prompts.
        tokens: responses, right-padded; what stands at pads is finite and unused.
        temperature: of the distribution, above 0.

    Returns:
        ``log softmax(logits / temperature)`` at the tokens, and the entropies in
        nats; both ``[P, N, T]`` float32.
    """
    P, N, T = tokens.shape
    model = policy.bind(params)
    last, prefix = prefill(policy, params, prompts)
    # In float32, for the N gradients of each are summed on the way back.
    hidden = last[:, None, None].astype(jnp.float32)
    hidden = jnp.broadcast_to(hidden, (P, N, 1, last.shape[-1])).astype(last.dtype)
    if T > 1:
        positions = prompts.lengths[:, None, None] + jnp.arange(T - 1)
        positions = jnp.broadcast_to(positions, (P, N, T - 1))
        later, _ = model(tokens[..., :-1], positions, prefix=prefix)
        hidden = jnp.concatenate([hidden, later], axis=2)

    @jax.checkpoint
    def head(args: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        part, targets = args
        scores = model.logits(part) / temperature
        scores = sharding.shard(scores, 'batch', None, None, 'vocab')
        total = jax.nn.logsumexp(scores, axis=-1)
        chosen = jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]
        mean = (jnp.exp(scores - total[..., None]) * scores).sum(-1)
        return chosen - total, total - mean

    width = max(1, policy.head_chunk_tokens // (P * N))
    return map_chunks(head, (hidden, tokens), max_width=width)


def _network(arch: qwen2.Qwen2Config, key: jax.Array) -> qwen2.Qwen2:
    return qwen2.Qwen2(arch, rngs=nnx.Rngs(params=key))


def _init(arch: qwen2.Qwen2Config, key: jax.Array) -> Params:
    state = nnx.state(_network(arch, key))
    return {'.'.join(map(str, path)): x[...] for path, x in nnx.to_flat_state(state)}


def _split_name(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in name.split('.'))
