"""What every task offers: problems with prompts, and verdicts on responses.

Everything else is optional: see :mod:`passk_jax.tasks.abilities`.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from passk_jax.types import Problem, Verdict, Verdicts


@dataclasses.dataclass(frozen=True)
class NoParams:
    """The parameters of a task that has none."""


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """The base class of every task.

    Attributes:
        name: its key in ``TASKS``.
        splits: names that :meth:`source` knows.
        Params: the dataclass of its parameters, which checks their values itself. The
            types of its fields are those that ``config.checks.build`` knows.
        params: its parameters, of the type ``Params``.
    """

    name: ClassVar[str]
    splits: ClassVar[tuple[str, ...]]
    Params: ClassVar[type] = NoParams

    params: Any

    @abc.abstractmethod
    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """The problems of a split.

        Args:
            split: one of ``splits``.
            data_dir: where a task keeps the files it makes; ``''``: its own choice.

        Raises:
            ValueError: an unknown or empty split.
        """

    @staticmethod
    @abc.abstractmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """A problem given as text or as a record of a benchmark, for its verdicts.

        Raises:
            ValueError: the task cannot read this record.
        """

    @staticmethod
    @abc.abstractmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """The verdict on one response; no response raises an error."""

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Verdicts on N responses to each of P problems: by default one at a time.

        A task that can judge a whole batch faster overrides this.

        Args:
            problems: P of them.
            responses: ``[P][N]`` texts.

        Returns:
            The verdicts; the reward is 1 for a correct response, else 0.
        """
        rows = [
            [self.verdict(problem, response) for response in row]
            for problem, row in zip(problems, responses, strict=True)
        ]
        correct = np.array([[v.correct for v in row] for row in rows], bool)
        parsed = [[verdict.parsed for verdict in row] for row in rows]
        return Verdicts(correct.astype(np.float32), correct, parsed)
