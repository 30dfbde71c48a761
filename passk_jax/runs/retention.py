"""Decides which checkpoints of a run to keep."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from passk_jax.config import CheckpointConfig


@dataclasses.dataclass(frozen=True)
class Retention:
    """A rule for the checkpoints to keep once a newer one is on disk.

    Attributes:
        latest: how many of the newest to keep, at least 1.
        every: also keep each step that is a multiple of this; 0: none.
        best: also keep the checkpoint with the largest value of this metric of an
            evaluation, ``'<split>/<metric>'``; the earliest wins ties; ``''``: none.
    """

    latest: int
    every: int = 0
    best: str = ''

    @classmethod
    def of(cls, config: CheckpointConfig) -> 'Retention':
        """Makes the retention of the configuration."""
        return cls(config.keep, every=config.keep_every, best=config.keep_best)

    def retain(
        self, steps: Sequence[int], metrics_of: Callable[[int], Mapping[str, float]]
    ) -> set[int]:
        """Returns the steps to keep.

        Args:
            steps: the steps of all checkpoints, ascending.
            metrics_of: returns the metrics of the evaluation before a step, by name;
                empty without an evaluation.
        """
        retained = set(steps[-self.latest :])
        if self.every:
            retained |= {step for step in steps if step % self.every == 0}
        if self.best:
            values = {step: metrics_of(step).get(self.best) for step in steps}
            values = {s: x for s, x in values.items() if x is not None}
            values = {s: x for s, x in values.items() if not math.isnan(x)}
            # max() returns the first of equals.
            retained |= {max(values, key=values.__getitem__)} if values else set()
        return retained
