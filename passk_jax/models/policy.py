"""A policy: the transformer behind a few functions on pytrees.

A :class:`Policy` describes the network. Its static graph is made once; its parameters
are a pytree that crosses ``jax.jit``.

1. :func:`decoding_weights` converts the master weights to those that sampling reads.
2. :func:`prefill` runs each problem's prompt once, for any N.
3. :func:`empty_cache` and :func:`decode` continue from there, one token per call.
4. :func:`token_log_probs` returns log-probabilities and entropies of responses, which
   the learner differentiates.

The logits of all tokens never exist at one time. Prefill computes them at one position
per prompt, decoding at one per rollout, the learner at a chunk of positions. Attention
computes its logits in chunks too (see attention.py).
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.models import lora
from passk_jax.models.arch import Arch
from passk_jax.models.attention import CACHE_AXES
from passk_jax.models.attention_kernels import take_first_sequences
from passk_jax.models.chunks import map_chunks
from passk_jax.models.experts import ROUTING, empty_routing
from passk_jax.models.master_weights import Axes
from passk_jax.models.parameters import axes_at, axes_of_names, layers_apart
from passk_jax.models.pictures import next_positions, place_features, prompt_positions
from passk_jax.models.quantized import empty_layer, quantize
from passk_jax.models.token_distribution import TokenScores, log_probs_and_entropies
from passk_jax.models.transformer import Cache, Prefix, Transformer, cache_slots
from passk_jax.models.vision import is_of_tower
from passk_jax.sharding import AnyMesh, shard
from passk_jax.types import Prompts

Params = dict[str, jax.Array]
"""Name -> array. Layers are stacked (``'layers.attention.query.kernel'``) or, for
decoding, apart (``'layers.0.attention.query.kernel'``)."""

# Larger than any number of parameters, because a draw folds its number into the key.
_ADAPTERS = 2**20

# Initial parameters with more values than this are made one at a time.
_SMALL_PARAMETER = 2**24


@dataclasses.dataclass(frozen=True)
class Policy:
    """The static half of a policy; hashable, so it can be a static argument of jit.

    Attributes:
        arch: the architecture.
        head_chunk_tokens: positions whose logits a device holds at one time in
            :func:`token_log_probs`.
        num_tokens: number of the tokenizer's ids; ``None``: all rows of the token
            table. Further rows only pad the table and have probability 0.
        frozen: names of the parameters that are not trained (see frozen.py); with
            adapters, all parameters of the base.
        frozen_dtype: dtype of frozen parameters; ``''``: the dtype of the others.
        replay_routing: sampling records the experts of each token, and the learner runs
            the same experts.
        quantizes_cache: decoding holds keys and values as int8 (quantized.py).
    """

    arch: Arch
    head_chunk_tokens: int
    num_tokens: int | None = None
    frozen: frozenset[str] = frozenset()
    frozen_dtype: str = ''
    replay_routing: bool = False
    quantizes_cache: bool = False

    def __post_init__(self):
        if self.replay_routing and not self.arch.num_experts:
            raise InputError('replay_routing=True needs a family with experts')
        names = Transformer.parameters(self.arch).keys()
        if unknown := sorted(self.frozen - names):
            raise InputError(f'frozen={unknown} are none of {list(names)}')

    @property
    def base(self) -> 'Policy':
        """The same policy without adapters."""
        names = self.frozen.intersection(Transformer.parameters(self.arch.base))
        return dataclasses.replace(self, arch=self.arch.base, frozen=names)

    def bind(self, params: Params) -> Transformer:
        """Makes the network with these parameters; its base if they lack adapters."""
        arch = self.arch if any(map(lora.is_adapter, params)) else self.arch.base
        stacked = params.keys() <= Transformer.parameters(arch).keys()
        flat: dict[Any, Any] = {
            _split_name(name): nnx.Param(x) for name, x in params.items()
        }
        graphdef = _graphdef(arch, stacked=stacked)
        return nnx.merge(graphdef, nnx.from_flat_state(flat))


@functools.cache
def _graphdef(arch: Arch, *, stacked: bool) -> nnx.GraphDef:
    """Makes the static graph of the network, without parameters."""

    def network() -> Transformer:
        return Transformer(arch, stacked=stacked, rngs=_rngs(jax.random.key(0)))

    return nnx.graphdef(nnx.eval_shape(network))


def param_shapes(policy: Policy, mesh: AnyMesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns shape, dtype and sharding of every parameter, by name."""
    shapes = _shapes(policy.arch)
    axes_of = functools.partial(param_axes, policy)
    shardings = sharding.tree_sharding(mesh, shapes, axes_of)
    dtypes = dict.fromkeys(policy.frozen, policy.frozen_dtype)
    return {
        name: jax.ShapeDtypeStruct(
            x.shape, dtypes.get(name) or x.dtype, sharding=shardings[name]
        )
        for name, x in shapes.items()
    }


@functools.lru_cache(maxsize=64)
def _shapes(arch: Arch) -> dict[str, jax.ShapeDtypeStruct]:
    return jax.eval_shape(lambda: _init(arch, jax.random.key(0)))


def init_params(
    policy: Policy, key: jax.Array, mesh: Mesh, *, only_adapters: bool = False
) -> Params:
    """Draws random parameters, already sharded, so that no device holds them all.

    Each large parameter has its own program, the largest first, because XLA:CPU holds
    all random bits of a program at once, which take more memory than the parameters.
    """
    shapes = {
        name: x
        for name, x in param_shapes(policy, mesh).items()
        if lora.is_adapter(name) or not only_adapters
    }
    large = sorted(
        (name for name, x in shapes.items() if x.size > _SMALL_PARAMETER),
        key=lambda name: -shapes[name].size,
    )
    small = [name for name in shapes if name not in large]
    params = {}
    for names in (*([name] for name in large), small):
        arrays = _init_program(policy, tuple(names), mesh)(key)
        params |= jax.block_until_ready(arrays)
    return {name: params[name] for name in shapes}


@functools.lru_cache(maxsize=64)
def _init_program(
    policy: Policy, names: tuple[str, ...], mesh: Mesh
) -> Callable[[jax.Array], Params]:
    shapes = param_shapes(policy, mesh)

    def init(key: jax.Array) -> Params:
        params = _init(policy.arch, key, names)
        return {name: x.astype(shapes[name].dtype) for name, x in params.items()}

    return jax.jit(init, out_shardings={name: shapes[name].sharding for name in names})


def param_axes(policy: Policy, name: str) -> Axes:
    """Returns the logical axes of a parameter, by its name or a path ending in it.

    Raises:
        InputError: the network has no such parameter.
    """
    return axes_at(name, _axes(policy.arch))


@functools.cache
def _axes(arch: Arch) -> dict[str, Axes]:
    return axes_of_names(Transformer.parameters(arch), arch.num_layers)


def decoding_weights(policy: Policy, params: Params) -> Params:
    """Returns the weights that sampling reads, with each layer apart.

    If there are no casts, a single CPU device reads the layers in place; then donating
    ``params`` copies them. The tower does not change: no decode step reads it.
    """
    table, dtype = Transformer.parameters(policy.arch), policy.arch.dtype
    params = jax.tree.map(jnp.asarray, params)
    tower = {name: params.pop(name) for name in [*params] if is_of_tower(name)}
    traced = any(isinstance(x, jax.core.Tracer) for x in params.values())
    if traced or any(
        x.dtype != table[name].read_in(dtype) for name, x in params.items()
    ):
        return _prepare_decoding(policy, params) | tower
    devices = set().union(*(x.devices() for x in params.values()))
    if len(devices) > 1 or next(iter(devices)).platform != 'cpu':
        return _prepare_decoding(policy, params) | tower
    weights = {}
    for name, x in params.items():
        for part, place in layers_apart(name, table[name], len(x)):
            weights[part] = np.asarray(x)[place] if place else x
    return jax.device_put(weights, *devices, may_alias=True) | tower


def prepare_decoding(policy: Policy, params: Params) -> Params:
    """Casts, gathers and unstacks the weights for decode steps, except the tower.

    Weights sharded over 'fsdp' would cross the network for every token, so only
    'tensor' splits them. Each layer has its own arrays, which a step reads in place.
    Adapters stay apart, as in the learner: rounding ``W + scale * A B`` to bfloat16
    would lose an update that is small beside W.
    """
    table, weights = Transformer.parameters(policy.arch), {}
    for name, x in params.items():
        if is_of_tower(name):
            weights[name] = x
            continue
        axes = sharding.gathered(table[name].array_axes)
        for part, place in layers_apart(name, table[name], len(x)):
            piece = x[place] if place else x
            piece = piece.astype(table[name].read_in(policy.arch.dtype))
            weights[part] = shard(piece, *axes[len(place) :])
    return weights


_prepare_decoding = jax.jit(prepare_decoding, static_argnums=0)


def prefill(
    policy: Policy, params: Params, prompts: Prompts
) -> tuple[Float[Array, 'P D'], Prefix]:
    """Runs each prompt once.

    Returns:
        The hidden state at the last token of each prompt, which predicts the first
        response token, and the keys and values that responses attend to.
    """
    model = policy.bind(params)
    inputs = (prompts.tokens[:, None],), (prompt_positions(prompts),)
    pictures = place_features(model.vision, prompts)
    (hidden,), layers, figures = model.forward(*inputs, pictures=pictures, keep=True)
    last = jnp.take_along_axis(hidden[:, 0], prompts.lengths[:, None, None] - 1, axis=1)
    assert layers is not None  # Because of keep=True.
    shared = tuple(map(take_first_sequences, layers))
    if policy.quantizes_cache:
        shared = tuple(map(quantize, shared))
    routing = None
    if policy.replay_routing:
        routing = jnp.moveaxis(figures[ROUTING][0][:, :, 0], 0, 2)
    after = next_positions(prompts)
    return last[:, 0], Prefix(shared, prompts.lengths, routing, after)


def empty_cache(
    policy: Policy, *, num_prompts: int, num_rollouts: int, num_tokens: int
) -> Cache:
    """Makes a decode cache for at least the last ``num_tokens`` tokens of a rollout."""
    arch, rows = policy.arch, (num_prompts, num_rollouts)
    size = (num_prompts, arch.num_kv_heads, num_rollouts), cache_slots(num_tokens)
    make = functools.partial(empty_layer, arch, *size, policy.quantizes_cache)
    layers = tuple(make() for _ in range(arch.num_layers))
    layers = jax.tree.map(lambda x: shard(x, *CACHE_AXES), layers)
    lengths = shard(jnp.zeros(rows, jnp.int32), 'batch', 'rollouts')
    routing = empty_routing(arch, *rows) if policy.replay_routing else None
    return Cache(layers, jnp.int32(0), lengths, routing)


def decode(
    policy: Policy,
    params: Params,
    tokens: Int[Array, 'P N'],
    prefix: Prefix,
    cache: Cache,
) -> tuple[Float[Array, 'P N D'], Cache]:
    """Runs the next token of every rollout; reads the prefix without a copy.

    Args:
        policy: the policy.
        params: from :func:`decoding_weights`.
        tokens: the next token of every rollout.
        prefix: from :func:`prefill`.
        cache: the cache of the previous tokens.

    Returns:
        The hidden states, for :func:`logits`, and the cache with these tokens.
    """
    hidden, layers, figures = policy.bind(params).step(tokens, prefix, cache)
    routing = None
    if policy.replay_routing:
        routing = jnp.moveaxis(figures[ROUTING][0][:, :, :, 0], 0, 2)
    return hidden, Cache(layers, cache.index + 1, cache.lengths + 1, routing)


def logits(
    policy: Policy, params: Params, hidden: Float[Array, '*B D']
) -> Float[Array, '*B V']:
    """Computes next-token logits, float32; ``-inf`` for ids without a token."""
    model = policy.bind(params)
    scores = model.logits(hidden[None, None], model.head_weights((1, 1)))[0, 0]
    return _without_padding(policy, scores, -jnp.inf)


def token_log_probs(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    tokens: Int[Array, 'P N T'],
    starts: Int[Array, 'P N T'] | None = None,
    routing: Int[Array, 'P N T L k'] | None = None,
    *,
    temperature: float | jax.Array,
) -> TokenScores:
    """Computes each response token's log-probability and its distribution's entropy.

    A prompt runs once for its N responses, forward and backward. The head runs on
    chunks of positions under ``jax.checkpoint``, so no array of ``P * N * T * V``
    logits exists, even in the backward pass.

    Args:
        policy, params: the policy and its parameters.
        prompts: the prompts.
        tokens: responses, right-padded; values at pads are finite and unused.
        starts: the slot where each token's response starts, if a row has several (see
            packing.py); ``None``: one response per row, from slot 0.
        routing: ``Rollouts.routing``, to replay with the prompts' routing; ``None``:
            the router chooses.
        temperature: temperature of the distribution, above 0.
    """
    P, N, _ = tokens.shape
    model = policy.bind(params)
    hidden, statistics = model.responses(prompts, tokens, starts, routing)
    # 'tensor' splits the head by vocabulary, so from here it cannot split tokens.
    hidden = shard(hidden, 'batch', 'rollouts', None, None)
    G, K = sharding.num_shards('batch', P), sharding.num_shards('rollouts', N)
    weights = model.head_weights((G, K))

    @jax.checkpoint
    def head(args: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        part, targets = args
        scores = model.logits(part, weights) / temperature
        # Finite, because the entropy multiplies it by a probability of 0.
        scores = _without_padding(policy, scores, jnp.finfo(jnp.float32).min)
        scores = shard(scores, 'batch', 'rollouts', None, None, None, 'vocab')
        return log_probs_and_entropies(scores, targets)

    def apart(x: jax.Array) -> jax.Array:
        """``[P, N, T, ...] -> [G, K, P / G, N / K, T, ...]``."""
        x = x.reshape(G, P // G, K, N // K, *x.shape[2:]).swapaxes(1, 2)
        return shard(x, 'batch', 'rollouts', *(None,) * (x.ndim - 2))

    width = max(1, policy.head_chunk_tokens // ((P // G) * (N // K)))
    outputs = map_chunks(head, (apart(hidden), apart(tokens)), max_width=width, axis=4)
    log_probs, entropies = (x.swapaxes(1, 2).reshape(tokens.shape) for x in outputs)
    figures = {name: _reduce_layers(xs[-1]) for name, xs in statistics.items()}
    return TokenScores(log_probs, entropies, figures)


def _reduce_layers(x: Float[Array, 'L P N T ...']) -> Float[Array, 'P N T ...']:
    """Averages a statistic over layers; with more axes, moves the layers to axis 3."""
    return x.mean(axis=0) if x.ndim == 4 else jnp.moveaxis(x, 0, 3)


def _without_padding(
    policy: Policy, scores: Float[Array, '*B V'], absent: float | np.floating
) -> Float[Array, '*B V']:
    """Replaces the scores of ids without a token by ``absent``."""
    if policy.num_tokens is None or policy.num_tokens == policy.arch.vocab_size:
        return scores
    ids = jax.lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    return jnp.where(ids < policy.num_tokens, scores, absent)


def _init(arch: Arch, key: jax.Array, names: Sequence[str] | None = None) -> Params:
    """Draws initial parameters, all or those of these names."""
    network = Transformer(arch, stacked=True, rngs=_rngs(key))
    state = nnx.to_flat_state(nnx.state(network))
    params = {'.'.join(map(str, path)): x[...] for path, x in state}
    return params if names is None else {name: params[name] for name in names}


def _rngs(key: jax.Array) -> nnx.Rngs:
    """Makes the random streams; adapters have their own, so the base is unchanged."""
    return nnx.Rngs(params=key, adapters=jax.random.fold_in(key, _ADAPTERS))


def _split_name(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in name.split('.'))
