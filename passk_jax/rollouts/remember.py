"""The verb *remember*: carries the run's memory from one step to the next.

The memory has what some estimators need from earlier steps, and estimates of the
problems' difficulty. It is not part of the train state, but checkpoints include it.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Bool

from passk_jax import sharding
from passk_jax.advantages import Memory, remember
from passk_jax.advantages.configured import unscaled_estimator
from passk_jax.config import AdvantageConfig
from passk_jax.data import difficulty
from passk_jax.data.batches import Batches
from passk_jax.data.difficulty import RunMemory
from passk_jax.rollouts.dynamic_sampling import Draw


@dataclasses.dataclass(frozen=True)
class Remember:
    """The verb ``remember(memory, draw)``.

    Attributes:
        advantage: the section that names the estimator.
        num_rollouts: N.
        batches: the training problems, in epochs.
        follow_difficulty: how strongly draws follow difficulty; 0: not at all.
        mesh: the mesh of the run.
    """

    advantage: AdvantageConfig
    num_rollouts: int
    batches: Batches
    follow_difficulty: float
    mesh: Mesh

    def begin(self) -> RunMemory:
        """Returns the memory before the first step, the same on every host."""
        estimator = unscaled_estimator(self.advantage, num_rollouts=self.num_rollouts)
        replicated = sharding.replicated(self.mesh)
        estimator_memory = jax.jit(estimator.begin_memory, out_shardings=replicated)()
        estimates = difficulty.begin(self.batches, follow=self.follow_difficulty)
        return estimator_memory | estimates

    def begin_stage(self, memory: RunMemory) -> RunMemory:
        """Returns the memory of a later stage; its estimator starts afresh."""
        return self.begin() | difficulty.select_difficulty(memory)

    def batches_after(self, memory: RunMemory) -> Batches:
        """Returns the batches from which the next step draws, by difficulty."""
        follow = self.follow_difficulty
        return difficulty.following(self.batches, memory, follow=follow)

    def __call__(self, memory: RunMemory, draw: Draw) -> RunMemory:
        """Returns the memory after a step whose own problems are in ``draw``."""
        estimator_memory = difficulty.without_difficulty(memory)
        correct = draw.responses.verdicts.correct
        return _program(self.mesh)(
            estimator_memory, draw.rewarded
        ) | difficulty.remember(self.batches, memory, draw.problems, correct)


@functools.lru_cache(maxsize=16)
def _program(mesh: Mesh) -> Callable[[Memory, Bool[Array, 'P N']], Memory]:
    return jax.jit(remember, out_shardings=sharding.replicated(mesh))
