"""Counts the FLOPs of matrix products: those of a program, and those it needs.

:func:`program_flops` walks a traced program and counts every ``dot_general`` times the
length of the scans around it, recomputation included, over all devices. hlo_costs.py
counts the compiled program. A hand-written kernel counts by its grid and its products;
a causal attention kernel by the pairs under its mask, an upper bound with a window.
A grouped product counts by its rows, which the devices of the experts share evenly.

:func:`model_flops` counts what the mathematics needs, by the usual convention: two
FLOPs per weight and token forward, four backward, and causal attention by its pairs.
The ratio of the two is the cost of recomputation, padding and masks.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from passk_jax.models.arch import Arch, Vision
from passk_jax.models.token_costs import token_flops
from passk_jax.sharding import RULES, axes_of, count_shards


@dataclasses.dataclass(frozen=True)
class Flops:
    """FLOPs over all devices.

    The compiler sees ``products`` but not ``kernels``. The body of a loop of unknown
    length counts once.
    """

    products: float = 0.0
    kernels: float = 0.0
    unknown_loops: int = 0

    @property
    def total(self) -> float:
        """FLOPs of products and kernels."""
        return self.products + self.kernels

    def plus(self, other: 'Flops', *, times: int = 1) -> 'Flops':
        """Adds ``other``, multiplied by ``times``."""
        return Flops(
            self.products + times * other.products,
            self.kernels + times * other.kernels,
            self.unknown_loops + other.unknown_loops,
        )


def program_flops(jaxpr: Any, *, loop_steps: int = 0, row_share: float = 1.0) -> Flops:
    """Counts the FLOPs of a jaxpr, closed or open, over all devices.

    Args:
        jaxpr: the traced program.
        loop_steps: 0, or the steps in an iteration of the loop of unknown length that
            has the most FLOPs. Then only one such step counts.
        row_share: share of the rows of a grouped product that a device multiplies.
    """
    if loop_steps:
        largest = max(_loops(jaxpr), key=lambda flops: flops.total, default=Flops())
        products, kernels = largest.products / loop_steps, largest.kernels / loop_steps
        return Flops(products, kernels, largest.unknown_loops)
    total = Flops()
    for equation in getattr(jaxpr, 'jaxpr', jaxpr).eqns:
        total = total.plus(_equation_flops(equation, row_share))
    return total


def _equation_flops(equation: Any, row_share: float) -> Flops:
    name, params = equation.primitive.name, equation.params
    if name == 'dot_general':
        (contracted, _), _ = params['dimension_numbers']
        length = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        return Flops(products=2.0 * math.prod(equation.outvars[0].aval.shape) * length)
    if name == 'ragged_dot_general':
        return Flops(kernels=row_share * _grouped_flops(equation))
    if name == 'pallas_call':
        return Flops(kernels=_kernel_flops(equation, row_share))
    if name == 'shard_map':
        row_share /= _expert_shards(equation)
    inner = [program_flops(x, row_share=row_share) for x in _jaxprs(params)]
    if name == 'cond':
        return max(inner, key=lambda flops: flops.total)
    times = params['length'] if name == 'scan' else 1
    if name == 'shard_map':
        # Its body is the work of one device along the manual axes.
        axes = params.get('newly_manual_axes', params.get('manual_axes'))
        times = math.prod(params['mesh'].shape[axis] for axis in axes)
    total = Flops(unknown_loops=int(name == 'while'))
    for flops in inner:
        total = total.plus(flops, times=times)
    return total


def _loops(jaxpr: Any) -> Iterator[Flops]:
    """Yields the FLOPs of an iteration of each loop of unknown length."""
    for equation in getattr(jaxpr, 'jaxpr', jaxpr).eqns:
        if equation.primitive.name == 'while':
            yield program_flops(equation.params['body_jaxpr'])
        for inner in _jaxprs(equation.params):
            yield from _loops(inner)


def _jaxprs(params: Any) -> Iterator[Any]:
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(getattr(item, 'jaxpr', item), 'eqns'):
                yield item


def _grouped_flops(equation: Any) -> float:
    """Counts a grouped product ``[R, A] x [E, A, B]``: each row has one matrix."""
    rows, kernels = (x.aval.shape for x in equation.invars[:2])
    return 2.0 * rows[0] * math.prod(kernels[1:])


def _expert_shards(equation: Any) -> int:
    """Counts the devices over which a shard_map splits kernels ``[E, D, F]``.

    Each device has the rows of all experts, but multiplies only those of its experts: 1
    part in this number, if the load is even.
    """
    axes = RULES['experts']
    for variable, spec in zip(
        equation.invars, equation.params['in_specs'], strict=True
    ):
        if variable.aval.ndim == 3 and axes_of((*spec, None)[0]) == axes:
            return count_shards(equation.params['mesh'], 'experts')
    return 1


def _kernel_flops(equation: Any, row_share: float) -> float:
    """Counts a Pallas kernel: its body at every point of its grid.

    A kernel whose grid depends on data states its FLOPs.
    """
    grid = equation.params['grid_mapping'].grid
    if not all(isinstance(points, int) for points in grid):
        return row_share * equation.params['cost_estimate'].flops
    points = math.prod(grid)
    flops = points * program_flops(equation.params['jaxpr']).total
    if not (equation.params['name'] or '').startswith('splash_mha'):
        return flops
    # The first arrays of floats are queries and keys. Segments come in pairs; an extra
    # int32 array has the positions for the mask. The grid includes blocks that a causal
    # mask hides, but the kernel skips them.
    arrays = [x.aval for x in equation.invars]
    floats = [x for x in arrays if jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]
    T, S = (x.shape[-2] for x in floats[:2])
    is_masked = sum(x.dtype == jax.numpy.int32 for x in arrays) % 2
    return flops * (T + 1) / (2 * T) if is_masked and T == S else flops


def model_flops(
    arch: Arch,
    *,
    num_prompts: int,
    num_rollouts: int,
    prompt_tokens: int,
    response_tokens: int,
) -> float:
    """Counts :func:`forward_flops` of prompts of S and responses of T tokens each.

    With ``response_tokens=0`` the prompts run alone.
    """
    responses = np.full((1, num_rollouts), response_tokens)
    per_prompt = forward_flops(arch, np.full(1, prompt_tokens), responses)
    return num_prompts * float(per_prompt[0])


def forward_flops(
    arch: Arch, prompt_tokens: np.ndarray, response_tokens: np.ndarray
) -> np.ndarray:
    """Counts the FLOPs of one forward pass over each prompt and its responses.

    A prompt runs once for all its rollouts, which read only its keys and values in the
    last layer. The head is a product for each response token; a token look-up costs
    nothing.

    Args:
        arch: the architecture.
        prompt_tokens: ``[P]``.
        response_tokens: ``[P, N]``. If all of a prompt are 0, the prompt runs alone,
            with the head at its last token.

    Returns:
        ``[P]``; training needs three times as many.
    """
    S, T = prompt_tokens, response_tokens
    tokens = T.sum(axis=-1)
    head = arch.vocab_size * arch.embed_dim
    per_pair = 4.0 * arch.num_heads * arch.head_dim
    last = dataclasses.replace(arch, num_layers=1, layers=arch.layers[-1:])
    alone, of_last = (
        S * token_flops(layers) + per_pair * _pairs(layers, S)
        for layers in (arch, last)
    )
    keys_and_values = 2 * arch.num_kv_heads * arch.head_dim * arch.embed_dim
    shared = alone - of_last + 2.0 * S * keys_and_values
    of_prompts = np.where(tokens > 0, shared, alone)
    seen = per_pair * _pairs(arch, T, before=S[:, None]).sum(axis=-1)
    of_responses = tokens * token_flops(arch) + seen
    return of_prompts + of_responses + 2.0 * head * np.maximum(1, tokens)


def picture_flops(
    vision: Vision, num_patches: int, *, largest: int, embed_dim: int
) -> float:
    """Counts the forward FLOPs of the tower.

    Args:
        vision: the tower.
        num_patches: patches of all pictures.
        largest: patches of each picture.
        embed_dim: D of the decoder.
    """
    D, merged = vision.embed_dim, vision.embed_dim * vision.merge_size**2
    mlp = (3 if vision.block == 'swiglu' else 2) * vision.mlp_dim
    num_global = len(vision.global_blocks) if vision.window_size else vision.depth
    in_window = min(largest, vision.window_patches**2)
    # Queries, keys, values and outputs, and the MLP.
    matrices = vision.depth * (4 * D * D + mlp * D) + vision.patch_values * D
    seen = num_global * largest + (vision.depth - num_global) * in_window
    mergers = (1 + len(vision.taps)) * (merged + embed_dim) * merged
    per_patch = 2 * matrices + 4.0 * D * seen + 2 * mergers / vision.merge_size**2
    return num_patches * per_patch


def train_passes(
    num_prompts: int,
    *,
    num_updates: int,
    epochs: int,
    reference: bool,
    adapters: bool = False,
) -> np.ndarray:
    """Counts the forward passes over each prompt that a train step costs: ``[P]``.

    The forward and backward pass of an epoch cost three; two with adapters, because the
    base has no gradient and the adapters' products are few. The old log-probabilities
    cost one, but none in the first mini-batch of a single epoch. Those of a reference
    policy cost another one. Recomputation does not count.

    The first of U mini-batches, one for each update, has the prompts 0, U, 2U ...
    """
    is_first = np.arange(num_prompts) % num_updates == 0
    scored = ~is_first if epochs == 1 else np.ones(num_prompts, bool)
    return (2.0 if adapters else 3.0) * epochs + scored + reference


def decode_flops(arch: Arch, *, sequences: int, context_tokens: float) -> float:
    """Counts the FLOPs of a new token of each sequence, after ``context_tokens``."""
    head = arch.vocab_size * arch.embed_dim
    pairs = _pairs(arch, 1, before=context_tokens - 1)
    attention = 4.0 * arch.num_heads * arch.head_dim * pairs
    return sequences * (token_flops(arch) + 2.0 * head + attention)


def _pairs(arch: Arch, tokens: Any, *, before: Any = 0) -> Any:
    """Counts pairs of a token and a token that it sees, under all layers' windows.

    ``before`` tokens precede ``tokens`` tokens; both may be arrays that broadcast.
    """

    def pairs(tokens: Any, window: int) -> Any:
        # Pairs of the first tokens: 1 + 2 + ... + window + window + ...
        rising = np.minimum(tokens, window) if window else tokens
        return rising * (rising + 1.0) / 2 + (tokens - rising) * float(window)

    windows = [layer.window for layer in arch.layers]
    pattern = sum(pairs(before + tokens, w) - pairs(before, w) for w in windows)
    return pattern * arch.num_layers / len(windows)
