"""The sections that say when to evaluate and when to save."""

import dataclasses
from collections.abc import Collection

from passk_jax.config.ranges import count, section
from passk_jax.config.sampling_options import SamplingOptions


@section
class EvalConfig(SamplingOptions):
    """Evaluation, which has its own sampling options, as in the paper.

    Attributes:
        every: steps between evaluations on ``split``; 0: never.
        split: the split to evaluate during training.
        final_split: the split to evaluate at step 0 and at the end; ``''``: none.
        num_problems: problems of each split (``data.subset``); 0: all.
        num_responses: responses to each problem.
        batch_size: problems sampled at a time; 0: all, with as much memory for keys and
            values as a training step has. It affects time, memory and the rounding of
            the result.
        bootstrap_samples: resamples of the problems for each interval.
        kept_responses: whole responses to record in an evaluation, spread evenly over
            all of its responses; 0: none. All parsed answers are always recorded.
    """

    every: int = count(0)
    split: str
    final_split: str
    num_problems: int = count(0)
    num_responses: int = count(1)
    batch_size: int = count(0)
    # A million resamples give three digits of an interval's ends and take minutes.
    bootstrap_samples: int = count(1, 10**6)
    kept_responses: int = count(0, off=0)

    def splits_due(self, step: int, *, last: int) -> tuple[str, ...]:
        """Returns the splits to evaluate before a step of a run of ``last`` steps."""
        at_an_end = step in (0, last)
        is_due = self.every and (at_an_end or step % self.every == 0)
        due = (self.split,) if is_due else ()
        if self.final_split and at_an_end and self.final_split not in due:
            due += (self.final_split,)
        return due


@section
class CheckpointConfig:
    """When to save the state, and which checkpoints to keep.

    Attributes:
        every: steps between checkpoints.
        keep: number of the newest checkpoints to keep.
        keep_every: also keeps checkpoints whose step is a multiple of this; 0: none.
        keep_best: also keeps the checkpoint with the largest value of this metric of an
            evaluation, ``'<split>/<metric>'``, and saves wherever it is evaluated;
            ``''``: none.
    """

    every: int = count(1)
    keep: int = count(1)
    keep_every: int = count(0, off=0)
    keep_best: str = dataclasses.field(metadata={'off': ''})

    def is_due(self, step: int, *, last: int, evaluated: Collection[str]) -> bool:
        """Returns whether to save before a step of a run of ``last`` steps.

        ``evaluated``: the splits that are evaluated there.
        """
        is_best = self.keep_best.partition('/')[0] in evaluated
        return step == last or step % self.every == 0 or is_best
