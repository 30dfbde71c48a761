"""Dynamic sampling (DAPO, arXiv:2503.14476): problems without a signal are replaced.

A problem has a signal if a response that is trained has an advantage other than 0. It
has none where all its rewards are equal; where its estimator gives no weight (Pass@k
where fewer than k responses are wrong); or where, with ``loss.mask_truncated``, only
responses cut off by the limit have an advantage. The test reads advantages and not a
deviation of rewards, whose rounding could pass for a signal. In a step:

1. the step's own problems are sampled, ``batches[step]``, as without dynamic sampling;
2. each round samples the next P of all other problems (``Batches.others`` gives each
   once, in an order of this step), and those with a signal take the places of those
   without, both in the order of their batches;
3. rounds end when every place has a signal, after ``train.dynamic_sampling_rounds``, or
   when no other problems are left. A problem that stays without a signal adds nothing
   to the policy gradient and still counts in the normalizer, as in any other step.

So the problems are a function of (seed, step, policy), and a resumed run draws the
same. No problem is sampled twice in a step: its random keys, and so its responses,
would be the same. Every round has one shape: nothing compiles twice.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh

from passk_jax import hosts, sharding
from passk_jax.data import Batches
from passk_jax.rollouts.sample_and_verify import Responses
from passk_jax.types import Problem, Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Draw:
    """P problems with their responses and advantages; the rollouts are kept apart.

    Attributes:
        problems: P of them.
        responses: to them, with the verdicts.
        advantages: ``[P, N]`` float32, on the devices.
    """

    problems: list[Problem]
    responses: Responses
    advantages: jax.Array


@dataclasses.dataclass(frozen=True)
class Draws:
    """What a step drew.

    Attributes:
        first: the step's own problems, which nothing has selected.
        trained: what the learner gets; ``first`` itself if nothing was replaced.
        selected: whether dynamic sampling was on.
        count: draws made; 1 is the step's own alone.
        num_tokens: of the responses of all draws.
    """

    first: Draw
    trained: Draw
    selected: bool
    count: int
    num_tokens: int


class Selection:
    """The problems that a step trains on, chosen as its draws come in.

    Args:
        step: the training step.
        rounds: draws besides the step's own, at most; 0 turns dynamic sampling off.
        mask_truncated: responses cut off by the limit are not trained.
        seed: of the order of other problems; nothing else may have it.
        estimate: ``(rollouts, responses, step) -> advantages``, for a merged batch.
        mesh: of the rollouts.

    Attributes:
        rollouts: what the learner gets; ``None`` before the first draw.
        draws: what the host knows of them; ``None`` likewise.
    """

    def __init__(
        self,
        step: int,
        *,
        rounds: int,
        mask_truncated: bool,
        seed: tuple[int, ...],
        estimate: Callable[[Rollouts, Responses, int], jax.Array],
        mesh: Mesh,
    ):
        self._step, self._rounds, self._seed = step, rounds, seed
        self._mask_truncated = mask_truncated
        self._estimate, self._mesh = estimate, mesh
        self.rollouts: Rollouts | None = None
        self.draws: Draws | None = None

    @property
    def advantages(self) -> jax.Array:
        """``[P, N]`` of the rollouts."""
        return self.draws.trained.advantages

    def batches(
        self, batches: Batches
    ) -> Iterator[tuple[list[Problem], Prompts, np.ndarray]]:
        """The step's own problems, then others for as long as places need them.

        Args:
            batches: of the run.

        Yields:
            Problems, their prompts, and ``[P]`` bool: not a repeat that fills a batch.
        """
        own = batches[self._step]
        yield *own, np.ones(len(own[0]), bool)
        others = batches.others(self._step, seed=self._seed)
        for _ in range(self._rounds):
            full = self._with_signal(self.draws.trained).all()
            batch = None if full else next(others, None)
            if batch is None:
                return
            yield batch

    def add(self, rollouts: Rollouts, draw: Draw, is_new: np.ndarray) -> None:
        """Takes a draw: the first whole, of later ones the problems with a signal.

        Args:
            rollouts: of the draw.
            draw: the rest of it.
            is_new: ``[P]`` bool, from :meth:`batches`.
        """
        tokens = int(draw.responses.lengths.sum())
        if self.draws is None:
            self.rollouts = rollouts
            self.draws = Draws(draw, draw, self._rounds > 0, 1, tokens)
            return
        trained = self.draws.trained
        places = np.flatnonzero(~self._with_signal(trained))
        rows = np.flatnonzero(self._with_signal(draw) & is_new)
        source = np.full(len(draw.problems), -1, np.int32)
        source[places[: len(rows)]] = rows[: len(places)]
        self.rollouts = merge_rollouts(self._mesh, self.rollouts, rollouts, source)
        problems = merge_on_host(trained.problems, draw.problems, source)
        responses = merge_on_host(trained.responses, draw.responses, source)
        # Of the whole batch: an estimator may compare problems with each other.
        advantages = self._estimate(self.rollouts, responses, self._step)
        self.draws = dataclasses.replace(
            self.draws,
            trained=Draw(problems, responses, advantages),
            count=self.draws.count + 1,
            num_tokens=self.draws.num_tokens + tokens,
        )

    def _with_signal(self, draw: Draw) -> np.ndarray:
        return with_signal(draw, mask_truncated=self._mask_truncated)


def with_signal(draw: Draw, *, mask_truncated: bool) -> np.ndarray:
    """Which problems have an advantage other than 0 on a response that is trained.

    Args:
        draw: the problems, with ``[P, N]`` advantages.
        mask_truncated: responses cut off by the limit are not trained.

    Returns:
        ``[P]`` bool.
    """
    weighted = hosts.fetch(draw.advantages) != 0
    if mask_truncated:
        weighted = weighted & draw.responses.stopped
    return weighted.any(axis=1)


def merge_rollouts(
    mesh: Mesh, old: Rollouts, new: Rollouts, source: np.ndarray
) -> Rollouts:
    """``old`` with row ``source[p]`` of ``new`` in place p, where that is not -1."""
    merged = _merge_on_devices(old, new, sharding.place(mesh, source))
    # In the layout they were sampled in: another would compile the learner again.
    return jax.tree.map(lambda x, y: jax.device_put(x, y.sharding), merged, old)


@jax.jit
def _merge_on_devices(old: Any, new: Any, source: jax.Array) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        replaced = (source >= 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(replaced, y[jnp.maximum(source, 0)], x)

    return jax.tree.map(choose, old, new)


def merge_on_host(old: Any, new: Any, source: np.ndarray) -> Any:
    """The same for lists and arrays, by row, and for dataclasses, by field."""
    if dataclasses.is_dataclass(old):
        fields = {
            field.name: merge_on_host(
                getattr(old, field.name), getattr(new, field.name), source
            )
            for field in dataclasses.fields(old)
        }
        return dataclasses.replace(old, **fields)
    if isinstance(old, list):
        rows = zip(old, source, strict=True)
        return [x if row < 0 else new[row] for x, row in rows]
    merged = old.copy()
    merged[source >= 0] = new[source[source >= 0]]
    return merged
