"""Dynamic sampling (DAPO, arXiv:2503.14476) replaces problems without a signal.

A problem has a signal if a response that is trained has a nonzero advantage. Under most
estimators it has none if all its rewards are equal (under ``nsr``, responses that are
all wrong are a signal). It has none either if its estimator gives it no weight (Pass@k
with fewer than k wrong responses), or if, under ``loss.mask_truncated``, only responses
cut off by the limit have an advantage. The test reads advantages, not the standard
deviation of rewards, whose rounding could look like a signal. In a step:

1. The step's own problems, ``batches[step]``, are sampled as without dynamic sampling.
2. Each round samples the next P of all other problems (``Batches.draw_others`` gives
   each once, in an order of this step). Those with a signal take the places of those
   without, both in batch order.
3. Rounds end when every place has a signal, after ``train.dynamic_sampling_rounds``, or
   when no other problems are left. A problem still without a signal adds nothing to the
   policy gradient but counts in the normalizer, as in any other step.

So the problems are a function of (seed, step, policy), and a resumed run draws the same
ones. No problem is sampled twice in a step, because its random keys and thus its
responses would be the same. All rounds have one shape, so nothing compiles twice.
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
        responses: to each problem, with the verifier's verdicts.
        advantages: ``[P, N]`` float32.
        rewarded: ``[P, N]`` bool, the responses that the advantages take to be correct:
            those that are, and those that Noise Rewards flipped.
    """

    problems: list[Problem]
    responses: Responses
    advantages: jax.Array
    rewarded: jax.Array


@dataclasses.dataclass(frozen=True)
class Draws:
    """What a step drew.

    Attributes:
        first: the step's own problems, without any selection.
        trained: what the learner gets; ``first`` itself if nothing was replaced.
        selected: whether dynamic sampling is on.
        drawn: the responses of every draw, the step's own first.
    """

    first: Draw
    trained: Draw
    selected: bool
    drawn: tuple[Responses, ...]

    @property
    def count(self) -> int:
        """The number of draws, including the step's own."""
        return len(self.drawn)

    @property
    def num_tokens(self) -> int:
        """Response tokens in all draws."""
        return sum(int(responses.lengths.sum()) for responses in self.drawn)


@dataclasses.dataclass(frozen=True)
class Select:
    """Begins the selection of a step: ``select(step, memory)``.

    Attributes:
        estimate: estimates a merged batch anew.
        mesh: the mesh of the rollouts.
        rounds: the most draws besides the step's own; 0 turns dynamic sampling off.
        mask_truncated: whether responses cut off by the limit are left untrained.
        seed: determines the order of other problems; use it for nothing else.
    """

    estimate: Estimate
    mesh: Mesh
    rounds: int
    mask_truncated: bool
    seed: tuple[int, ...]

    def __call__(self, step: int, memory: RunMemory) -> 'Selection':
        """The selection of a step before its first draw."""
        return Selection(self, step, memory)


class Selection:
    """Chooses the problems that a step trains on as its draws come in.

    Args:
        settings: of the run.
        step: the training step.
        memory: what the run remembers before it.

    Attributes:
        rollouts: what the learner gets; there is none before the first draw.
        draws: the host's record of them; there is none before the first draw.
    """

    rollouts: Rollouts
    draws: Draws

    def __init__(self, settings: Select, step: int, memory: RunMemory):
        self._settings, self._step, self._memory = settings, step, memory
        truncated = settings.mask_truncated
        self._signal = functools.partial(with_signal, mask_truncated=truncated)
        self._begun = False

    @property
    def advantages(self) -> jax.Array:
        """``[P, N]`` the advantages of ``rollouts``."""
        return self.draws.trained.advantages

    def batches(self, batches: Batches) -> Iterator[tuple[PromptBatch, np.ndarray]]:
        """Yields the step's own problems, then others while some place has no signal.

        Yields:
            A batch, and ``[P]`` bool, False where a problem only fills it up.
        """
        step_batch = batches[self._step]
        yield step_batch, np.ones(len(step_batch.problems), bool)
        extra_batches = batches.draw_others(self._step, seed=self._settings.seed)
        for _ in range(self._settings.rounds):
            full = self._signal(self.draws.trained).all()
            batch = None if full else next(extra_batches, None)
            if batch is None:
                return
            yield batch

    def add(self, rollouts: Rollouts, draw: Draw, is_new: np.ndarray) -> None:
        """Takes the whole first draw; from later draws, the problems with a signal.

        Args:
            rollouts: the draw's rollouts.
            draw: the rest of the draw.
            is_new: ``[P]`` bool, from :meth:`batches`.
        """
        selects = self._settings.rounds > 0
        if not self._begun:
            self._begun, self.rollouts = True, rollouts
            self.draws = Draws(draw, draw, selects, (draw.responses,))
            return
        trained = self.draws.trained
        places = np.flatnonzero(~self._signal(trained))
        rows = np.flatnonzero(self._signal(draw) & is_new)
        source = np.full(len(draw.problems), -1, np.int32)
        source[places[: len(rows)]] = rows[: len(places)]
        mesh = self._settings.mesh
        self.rollouts = merge_rollouts(mesh, self.rollouts, rollouts, source)
        problems = merge_on_host(trained.problems, draw.problems, source)
        responses = merge_on_host(trained.responses, draw.responses, source)
        # Estimate for the whole batch: an estimator may compare problems.
        estimated = self._settings.estimate(
            self.rollouts, responses, memory=self._memory, step=self._step
        )
        self.draws = dataclasses.replace(
            self.draws,
            trained=Draw(problems, responses, *estimated),
            drawn=(*self.draws.drawn, draw.responses),
        )


def with_signal(draw: Draw, *, mask_truncated: bool) -> np.ndarray:
    """Marks the problems that have a signal, as ``[P]`` bool.

    Args:
        draw: the problems, with ``[P, N]`` advantages.
        mask_truncated: whether responses cut off by the limit are left untrained.
    """
    weighted = hosts.fetch(draw.advantages) != 0
    if mask_truncated:
        weighted = weighted & draw.responses.stopped
    return weighted.any(axis=1)


def merge_rollouts(
    mesh: Mesh, old: Rollouts, new: Rollouts, source: np.ndarray
) -> Rollouts:
    """Replaces row p of ``old`` by row ``source[p]`` of ``new``, unless that is -1."""
    merged = _merge_on_devices(old, new, sharding.place(mesh, source))
    # Keep the layout of sampling; another one would compile the learner again.
    return jax.tree.map(lambda x, y: jax.device_put(x, y.sharding), merged, old)


@jax.jit
def _merge_on_devices(old: Any, new: Any, source: jax.Array) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        replaced = (source >= 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(replaced, y[jnp.maximum(source, 0)], x)

    return jax.tree.map(choose, old, new)


def merge_on_host(old: Any, new: Any, source: np.ndarray) -> Any:
    """Merges lists, arrays, or each field of a dataclass and value of a mapping.

    See :func:`merge_rollouts`.
    """
    if dataclasses.is_dataclass(old):
        names = [field.name for field in dataclasses.fields(old)]
        pairs = {name: (getattr(old, name), getattr(new, name)) for name in names}
        merged = {name: merge_on_host(*pair, source) for name, pair in pairs.items()}
        return dataclasses.replace(old, **merged)
    if isinstance(old, Mapping):
        return {name: merge_on_host(old[name], new[name], source) for name in old}
    if isinstance(old, list):
        rows = zip(old, source, strict=True)
        return [x if row < 0 else new[row] for x, row in rows]
    merged = old.copy()
    merged[source >= 0] = new[source[source >= 0]]
    return merged
