"""Dynamic sampling (DAPO, arXiv:2503.14476): replaces problems without a signal.

A problem has a signal if a trained response has a nonzero advantage. It has none, for
example, if all its rewards are equal (under most estimators), if fewer than k responses
are wrong (under Pass@k), or if only truncated responses have an advantage (under
``loss.mask_truncated``). The test reads advantages, because the standard deviation of
equal rewards may round to more than 0. In a step:

1. The step's own problems, ``batches[step]``, are sampled as usual.
2. Each round samples the next P of the other problems, in the step's order
   (``Batches.draw_others``). Those with a signal replace those without, in batch order.
3. Rounds end when every problem has a signal, after ``train.dynamic_sampling_rounds``,
   or when no other problems remain. A problem without a signal then stays: it adds
   nothing to the policy gradient, but counts in the normalizer.

So the problems are a function of (seed, step, policy), and a resumed run draws the same
ones. No problem is sampled twice in a step: its random keys, and so its responses,
would be the same. All rounds have one shape, so nothing compiles twice.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.data.batches import Batches, PromptBatch
from passk_jax.data.difficulty import RunMemory
from passk_jax.rollouts.estimate import Estimate
from passk_jax.rollouts.verify import Responses
from passk_jax.runtime import hosts
from passk_jax.types import Problem, Rollouts


@dataclasses.dataclass(frozen=True)
class Draw:
    """P problems and their responses; the arrays are on the devices.

    Attributes:
        problems: P problems.
        responses: N to each problem, with verdicts.
        advantages: ``[P, N]`` float32.
        rewarded: ``[P, N]`` bool, as in
            :class:`~passk_jax.rollouts.estimate.Estimated`.
    """

    problems: list[Problem]
    responses: Responses
    advantages: jax.Array
    rewarded: jax.Array

    @functools.cached_property
    def host_advantages(self) -> np.ndarray:
        """Fetches ``advantages`` once; every process must call this."""
        return hosts.fetch(self.advantages)


@dataclasses.dataclass(frozen=True)
class Draws:
    """The draws of a step.

    Attributes:
        first: the step's own problems, before any replacement.
        trained: the learner's batch; ``first`` itself if nothing was replaced.
        selected: whether dynamic sampling is on.
        drawn: the responses of every draw, the step's own first.
    """

    first: Draw
    trained: Draw
    selected: bool
    drawn: tuple[Responses, ...]

    @property
    def count(self) -> int:
        """Counts the draws, including the step's own."""
        return len(self.drawn)

    @property
    def num_tokens(self) -> int:
        """Counts the response tokens of all draws."""
        return sum(int(responses.lengths.sum()) for responses in self.drawn)


@dataclasses.dataclass(frozen=True)
class Select:
    """The verb ``select(step, memory)``: begins the selection of a step.

    Attributes:
        estimate: estimates the advantages of a merged batch.
        mesh: the mesh of the rollouts.
        rounds: the most extra draws in a step; 0: no dynamic sampling.
        mask_truncated: whether the loss leaves out truncated responses.
        seed: determines only the order of other problems.
    """

    estimate: Estimate
    mesh: Mesh
    rounds: int
    mask_truncated: bool
    seed: tuple[int, ...]

    def __call__(self, step: int, memory: RunMemory) -> 'Selection':
        """Returns the selection of a step before its first draw."""
        return Selection(self, step, memory)


@dataclasses.dataclass
class Selection:
    """The choice of the problems to train on, as the draws of a step come in.

    Attributes:
        settings: the verb that made this selection.
        step: the training step.
        memory: the run's memory before the step.
        rollouts: the learner's batch; absent before the first draw.
        draws: the host's record of the draws; absent before the first draw.
    """

    settings: Select
    step: int
    memory: RunMemory
    rollouts: Rollouts = dataclasses.field(init=False)
    draws: Draws = dataclasses.field(init=False)

    @property
    def advantages(self) -> jax.Array:
        """Returns the advantages ``[P, N]`` of ``rollouts``."""
        return self.draws.trained.advantages

    def batches(self, batches: Batches) -> Iterator[tuple[PromptBatch, np.ndarray]]:
        """Yields the step's own problems, then others while any lack a signal.

        Yields:
            A batch, and ``[P]`` bool, False where a problem only fills up the batch.
        """
        step_batch = batches[self.step]
        yield step_batch, np.ones(len(step_batch.problems), bool)
        extra_batches = batches.draw_others(self.step, seed=self.settings.seed)
        for _ in range(self.settings.rounds):
            full = self._signal(self.draws.trained).all()
            batch = None if full else next(extra_batches, None)
            if batch is None:
                return
            yield batch

    def add(self, rollouts: Rollouts, draw: Draw, is_new: np.ndarray) -> None:
        """Adds a draw: all of the first, of later ones the problems with a signal.

        Args:
            rollouts: the draw's rollouts.
            draw: its problems, responses and advantages.
            is_new: ``[P]`` bool, from :meth:`batches`.
        """
        if not hasattr(self, 'draws'):
            selects = self.settings.rounds > 0
            self.rollouts = rollouts
            self.draws = Draws(draw, draw, selects, (draw.responses,))
            return
        trained = self.draws.trained
        places = np.flatnonzero(~self._signal(trained))
        rows = np.flatnonzero(self._signal(draw) & is_new)
        source = np.full(len(draw.problems), -1, np.int32)
        source[places[: len(rows)]] = rows[: len(places)]
        drawn = (*self.draws.drawn, draw.responses)
        self.draws = dataclasses.replace(self.draws, drawn=drawn)
        if not (source >= 0).any():
            return
        mesh = self.settings.mesh
        self.rollouts = merge_rollouts(mesh, self.rollouts, rollouts, source)
        problems = merge_on_host(trained.problems, draw.problems, source)
        responses = merge_on_host(trained.responses, draw.responses, source)
        # Estimate the whole batch: an estimator may compare problems.
        estimated = self.settings.estimate(
            self.rollouts, responses, memory=self.memory, step=self.step
        )
        trained = Draw(problems, responses, *estimated)
        self.draws = dataclasses.replace(self.draws, trained=trained)

    def _signal(self, draw: Draw) -> np.ndarray:
        return with_signal(draw, mask_truncated=self.settings.mask_truncated)


def with_signal(draw: Draw, *, mask_truncated: bool) -> np.ndarray:
    """Marks problems that have a signal, ``[P]`` bool; the module defines it."""
    weighted = draw.host_advantages != 0
    if mask_truncated:
        weighted = weighted & draw.responses.stopped
    return weighted.any(axis=1)


def merge_rollouts(
    mesh: Mesh, old: Rollouts, new: Rollouts, source: np.ndarray
) -> Rollouts:
    """Replaces row p of ``old`` by row ``source[p]`` of ``new``; -1 replaces none."""
    # With another layout, the learner would compile again.
    layout = jax.tree.map(lambda x: x.sharding, old)
    merge = jax.jit(_merge_on_devices, out_shardings=layout)
    return merge(old, new, sharding.place(mesh, source))


def _merge_on_devices(old: Any, new: Any, source: jax.Array) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        replaced = (source >= 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(replaced, y[jnp.maximum(source, 0)], x)

    return jax.tree.map(choose, old, new)


def merge_on_host(old: Any, new: Any, source: np.ndarray) -> Any:
    """Merges lists, arrays, mappings and dataclasses like :func:`merge_rollouts`.

    If only one of two mappings has an array, the other counts as having zeros.
    """
    if dataclasses.is_dataclass(old):
        return dataclasses.replace(old, **merge_on_host(vars(old), vars(new), source))
    if isinstance(old, Mapping):
        old, new = _completed(old, new), _completed(new, old)
        return {name: merge_on_host(old[name], new[name], source) for name in old}
    if isinstance(old, list):
        rows = zip(old, source, strict=True)
        return [x if row < 0 else new[row] for x, row in rows]
    merged = old.copy()
    merged[source >= 0] = new[source[source >= 0]]
    return merged


def _completed(
    arrays: Mapping[str, Any], reference: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Adds zeros for the arrays that only ``reference`` has."""
    absent = reference.keys() - arrays.keys()
    return {
        **arrays,
        **{name: np.zeros_like(reference[name]) for name in sorted(absent)},
    }
