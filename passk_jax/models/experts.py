"""The feed-forward part with experts: a router chooses a few experts for each token.

The router is float32, in sampling too: if scores are close, rounding would send a token
to other experts in the learner than in the sampler. Every chosen expert runs, however
many tokens it has, so no other token changes a result (expert_products.py).
"""

import dataclasses

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models.arch import Arch
from passk_jax.models.expert_products import mix
from passk_jax.models.layers import (
    INSIDE_LAYERS,
    Linear,
    Statistics,
    shard_streams,
    stream_axes,
)
from passk_jax.models.master_weights import Streams
from passk_jax.models.parameters import Parameter, Part, Table, kernel
from passk_jax.sharding import shard

ROUTING = 'routing'
"""The statistic ``[P, N, T, k]``: each token's experts, in :func:`routing_dtype`."""


ROUTER_PROBS = 'router_probs'
"""The statistic ``[P, N, T, E]``, if ``Arch.keep_router_probs``."""


class Experts(nnx.Module):
    """``sum_e weight_e down_e(silu(gate_e(x)) * up_e(x))`` over the chosen experts.

    The weights are the softmax of the router's scores over all experts, at the k
    largest; ``Arch.norm_topk_prob`` divides them by their sum.
    """

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed, mlp = (arch.embed_dim,), (arch.mlp_dim,)
        declared = self.parameters(arch)
        wide = dataclasses.replace(arch, dtype='float32')
        sizes = embed, (arch.num_experts,), wide
        name = 'router.kernel'
        self.router = Linear(declared[name], *sizes, stack=stack, rngs=rngs)
        options = {'stack': (*stack, arch.num_experts), 'rngs': rngs}
        self.gate = Linear(declared['gate.kernel'], embed, mlp, arch, **options)
        self.up = Linear(declared['up.kernel'], embed, mlp, arch, **options)
        self.down = Linear(declared['down.kernel'], mlp, embed, arch, **options)
        self.arch = arch

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the parameters; a checkpoint has one tensor per expert or for all."""
        router = kernel('mlp.gate.weight', 'embed', None)
        if arch.fused_experts:
            gate, up = (_fused('gate_up', 'embed', None, part=i) for i in range(2))
            down = _fused('down', None, 'embed')
        else:
            expert = 'mlp.experts.{expert}.'
            gate = kernel(f'{expert}gate_proj.weight', 'embed', None)
            up = kernel(f'{expert}up_proj.weight', 'embed', None)
            down = kernel(f'{expert}down_proj.weight', None, 'embed')
        return {
            'router.kernel': dataclasses.replace(router, decoded_in='float32'),
            'gate.kernel': gate,
            'up.kernel': up,
            'down.kernel': down,
        }

    @staticmethod
    def flops(arch: Arch) -> int:
        """Counts two FLOPs per weight of the router and of a token's experts."""
        active = arch.experts_per_token * 3 * arch.mlp_dim
        return 2 * arch.embed_dim * (arch.num_experts + active)

    def __call__(
        self, *xs: jax.Array, routing: Streams | None = None
    ) -> tuple[Streams, Statistics]:
        """Returns the streams, the tokens' experts and the router's entropies.

        ``routing`` replaces the router's choice of experts, but not their weights. Then
        a third statistic is the share of experts that the router would not have chosen.
        """
        probs = tuple(jax.nn.softmax(x) for x in self.router(*xs))
        preferred = chosen = tuple(self._choose(x) for x in probs)
        if routing is not None:
            chosen = tuple(x.astype(jnp.int32) for x in routing)
        weights = tuple(map(self._weigh, probs, chosen))
        # The devices that share the experts share no tokens.
        axes = stream_axes(xs, INSIDE_LAYERS)
        arrays = (shard_streams(x, INSIDE_LAYERS, None) for x in (xs, chosen, weights))
        kernels = tuple(x.kernel[...] for x in (self.gate, self.up, self.down))
        ys = mix(*arrays, kernels, axes, self.arch.experts)
        dtype = routing_dtype(self.arch)
        statistics = {
            ROUTING: tuple(x.astype(dtype) for x in chosen),
            'router_entropy': tuple(jax.scipy.special.entr(x).sum(-1) for x in probs),
        }
        if self.arch.keep_router_probs:
            statistics[ROUTER_PROBS] = probs
        if routing is not None:
            statistics['rerouted'] = tuple(map(_share_of_others, chosen, preferred))
        return ys, statistics

    def _choose(self, probs: Float[Array, 'P N T E']) -> Int[Array, 'P N T k']:
        k = self.arch.experts_per_token
        return jax.lax.top_k(jax.lax.stop_gradient(probs), k)[1]

    def _weigh(
        self, probs: Float[Array, 'P N T E'], chosen: Int[Array, 'P N T k']
    ) -> Float[Array, 'P N T k']:
        # The gradient of a gather would be a scatter.
        is_chosen = chosen[..., None] == jnp.arange(self.arch.num_experts)
        weights = jnp.where(is_chosen, probs[..., None, :], 0.0).sum(axis=-1)
        if self.arch.norm_topk_prob:
            total = weights.sum(axis=-1, keepdims=True)
            # The recorded experts of a pad can have probability 0.
            weights = weights / jnp.where(total > 0, total, 1.0)
        return weights


def _fused(name: str, *axes: str | None, part: int | None = None) -> Parameter:
    """Declares the matrices of all experts of a layer, which are one tensor.

    Published files have ``[experts, in, out]``. transformers holds ``[experts, out,
    in]``, and writes that if the model was not read from a published file.
    """
    return Parameter(
        f'mlp.experts.{name}_proj',
        ('experts', *axes),
        dims=((0,), (1,), (2,)),
        other_dims=((0,), (2,), (1,)),
        part=None if part is None else Part(dim=2, index=part, count=2),
    )


def join_experts(row: Parameter) -> Parameter:
    """Declares an expert's matrix as transformers holds it: in one tensor with others.

    Programs that write what is in memory have these tensors in files. The rows of other
    parameters stay as they are.
    """
    before, separator, after = row.tensor.partition('mlp.experts.{expert}.')
    if not separator:
        return row
    name, parts = after.removesuffix('_proj.weight'), {'gate': 0, 'up': 1}
    joined = 'gate_up' if name in parts else name
    fused = _fused(joined, *row.axes, part=parts.get(name)).within(before)
    return dataclasses.replace(fused, dims=fused.other_dims, other_dims=())


def empty_routing(arch: Arch, *shape: int) -> jax.Array:
    """Makes an empty array for the experts of ``[P, N, ...]`` tokens in every layer."""
    shape = (*shape, arch.num_layers, arch.experts_per_token)
    axes = ('batch', 'rollouts', *(None,) * (len(shape) - 2))
    return shard(jnp.zeros(shape, routing_dtype(arch)), *axes)


def _share_of_others(
    chosen: Int[Array, 'P N T k'], preferred: Int[Array, 'P N T k']
) -> Float[Array, 'P N T']:
    is_preferred = (chosen[..., None] == preferred[..., None, :]).any(axis=-1)
    return 1 - is_preferred.astype(jnp.float32).mean(axis=-1)


def routing_dtype(arch: Arch) -> str:
    """Returns the smallest integer dtype that can number the experts."""
    return 'uint8' if arch.num_experts <= 256 else 'uint16'
