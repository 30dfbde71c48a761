"""Runs a mini-batch through the network, one micro-batch at a time.

A micro-batch has some of the prompts, with all or a part of their rollouts. A row has
one response, or several if packed (packing.py). With blocks (blocks.py), a micro-batch
has packed rows of any prompts instead.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float

from passk_jax.learning import blocks, packing
from passk_jax.learning.batch_loss import Batch, Loss
from passk_jax.learning.blocks import BlockSize
from passk_jax.learning.expert_load import balance_factors
from passk_jax.learning.losses import Tokens
from passk_jax.models.experts import ROUTING
from passk_jax.models.frozen import Weights
from passk_jax.models.policy import Params
from passk_jax.sharding import AnyMesh

Learn = Callable[[Params, Batch, int | None], tuple[Params, Any]]
"""Adds the gradient of a part of a mini-batch, in rows; returns the sum and figures."""

Measure = Callable[[Batch, int | None], Any]
"""Takes a part of a mini-batch and its rows; returns its figures alone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MicroBatches:
    """The passes of a mini-batch.

    Attributes:
        loss: the loss to minimize.
        mesh: pins the state's shardings, so that nothing compiles twice.
        num_micro_batches: parts of a mini-batch's prompts, one per pass.
        rollout_parts: parts of a prompt's rollouts, one per pass; divides N. The prompt
            runs once per part.
        pack_sizes: how many sizes of a packed micro-batch to compile (packing.py); 0:
            one row per response.
        deals: whether passes have blocks of packed rows (blocks.py); the numbers of
            parts then only bound the memory of a pass.
    """

    loss: Loss
    mesh: AnyMesh
    num_micro_batches: int
    rollout_parts: int = 1
    pack_sizes: int = 0
    deals: bool = False

    def pack(self, batch: Batch) -> packing.Packing:
        """Packs responses into rows."""
        lengths, width = batch.rollouts.lengths, batch.rollouts.tokens.shape[-1]
        if not self.deals:
            return packing.pack(lengths, width=width)
        return blocks.pack_rows(lengths, self.signal(batch), width=width)

    def signal(self, batch: Batch) -> Bool[Array, 'P N']:
        """Marks the responses that have a gradient."""
        if not self.loss.vanishes_without_advantages:
            return jnp.ones_like(batch.advantages, bool)
        trained = self.loss.mask(batch.rollouts).any(axis=-1)
        return (batch.advantages != 0) & trained

    def score(self, weights: Weights, batches: Batch) -> Float[Array, 'updates P N T']:
        """Computes log-probabilities of mini-batches, one micro-batch at a time."""
        params = weights.merged

        def score_part(part: Batch, rows: int | None) -> Tokens:
            return self.loss.score(params, part, rows).log_probs

        def visit(total: Any, part: Batch, rows: int, _: bool) -> tuple:
            return total, (), score_part(part, rows)

        def score_batch(batch: Batch) -> Tokens:
            if self.deals:
                zeros = jnp.zeros(batch.rollouts.tokens.shape, jnp.float32)
                return self.deal(batch, visit, (), zeros, False)[1]
            parts, join = self.cut(batch)
            return join(jax.lax.map(self.fit_rows(score_part), parts))

        return jax.lax.map(score_batch, batches)

    def balance_factors(self, weights: Weights, batch: Batch) -> Float[Array, 'E']:
        """Computes :func:`expert_load.balance_factors` of a mini-batch.

        Without replayed routing, this takes an extra forward pass.
        """
        params, routing = weights.merged, batch.rollouts.routing

        def count(part: Batch, rows: int | None) -> Float[Array, 'L E']:
            scores = self.loss.score(params, part, rows)
            return self.loss.count_tokens(scores.statistics[ROUTING], part)

        def visit(total: jax.Array, part: Batch, rows: int, _: bool) -> tuple:
            return total + count(part, rows), (), ()

        with jax.named_scope('balance'):
            if routing is not None:
                tokens = self.loss.count_tokens(routing, batch)
            elif self.deals:
                arch = self.loss.policy.arch
                tokens = jnp.zeros((arch.num_layers, arch.num_experts))
                tokens = self.deal(batch, visit, tokens, (), False)[0]
            else:
                parts, _ = self.cut(batch)
                tokens = jax.lax.map(self.fit_rows(count), parts).sum(axis=0)
        return balance_factors(tokens, self.loss.mask(batch.rollouts))

    def fit_rows(
        self, fn: Callable[[Batch, int | None], Any]
    ) -> Callable[[Batch], Any]:
        """Returns ``fn`` of a micro-batch and the fewest compiled rows that hold it."""
        return lambda part: packing.switch_on_rows(
            functools.partial(fn, part), part.packing, sizes=self.pack_sizes
        )

    def cut(self, batch: Batch) -> tuple[Batch, Callable[[Any], Any]]:
        """Cuts a mini-batch into micro-batches; also returns a joiner of results."""
        parts = self.num_micro_batches * self.rollout_parts
        return packing.cut(batch, batch.packing, parts=parts)

    def block_sizes(self, *shape: int, prompt_tokens: int) -> tuple[BlockSize, ...]:
        """Returns the block sizes for a mini-batch with tokens ``[P, N, T]``."""
        P, N, T = shape
        return blocks.choose_sizes(
            self.mesh,
            num_prompts=P,
            num_rollouts=N,
            pass_prompts=max(1, P // self.num_micro_batches),
            pass_rollouts=N // self.rollout_parts,
            prompt_tokens=prompt_tokens,
            row_tokens=T,
        )

    def deal(
        self, batch: Batch, visit: Callable, total: Any, sums: Any, learning: bool
    ) -> tuple[Any, Any, Any]:
        """Visits a mini-batch's blocks; returns totals, sums and figures of passes."""
        rollouts, figures = batch.rollouts, []
        width = rollouts.prompts.tokens.shape[1]
        sizes = self.block_sizes(*rollouts.tokens.shape, prompt_tokens=width)
        assert batch.packing is not None  # train_step packs.
        planned = blocks.plan_passes(batch.packing, self.signal(batch), sizes)
        for size, passes in zip(sizes, planned, strict=True):
            (total, sums), of_size = blocks.scan_passes(
                *(batch, passes, visit, total, sums), rows=size.rows, learning=learning
            )
            figures.append(of_size)
        return total, sums, jax.tree.map(lambda *x: jnp.concatenate(x), *figures)

    def deal_gradients(
        self, batch: Batch, total: Params, learn: Learn, measure: Measure
    ) -> tuple[Params, Any, Any]:
        """Adds up the gradients of blocks; see :meth:`cut_gradients`."""
        shape = batch.rollouts.tokens.shape

        def visit(total: Params, part: Batch, rows: int, learns: bool) -> tuple:
            if learns:
                total, (metrics, log_probs) = learn(total, part, rows)
            else:
                metrics, log_probs = measure(part, rows)
            return total, metrics, (metrics.pop('problem_loss'), log_probs)

        sums = jnp.zeros(shape[:1], jnp.float32), jnp.zeros(shape, jnp.float32)
        grads, by_prompt, metrics = self.deal(batch, visit, total, sums, True)
        return grads, metrics, by_prompt

    def cut_gradients(
        self, batch: Batch, total: Params, learn: Learn, measure: Measure
    ) -> tuple[Params, Any, Any]:
        """Adds up the gradients of micro-batches.

        Returns the gradient, the metrics of the micro-batches, and losses and
        log-probabilities by prompt.
        """

        def learn_in_rows(total: Params, part: Batch) -> tuple[Params, Any]:
            return self.fit_rows(functools.partial(learn, total))(part)

        def measure_in_rows(total: Params, part: Batch) -> tuple[Params, Any]:
            return total, self.fit_rows(measure)(part)

        def accumulate(total: Params, part: Batch) -> tuple[Params, Any]:
            if not self.loss.vanishes_without_advantages:
                return learn_in_rows(total, part)
            signal = (part.advantages != 0).any()
            return jax.lax.cond(signal, learn_in_rows, measure_in_rows, total, part)

        parts, join = self.cut(batch)
        grads, (metrics, log_probs) = jax.lax.scan(accumulate, total, parts)
        return grads, metrics, join((metrics.pop('problem_loss'), log_probs))
