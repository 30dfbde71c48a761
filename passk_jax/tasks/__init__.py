"""Tasks by name: where problems come from, the prompt, how an answer is verified.

``TASKS`` is the table; a new task is one file and one line of it. Importing this
package starts no JAX backend, because worker processes import it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.types import Problem, Verdict, Verdicts


class Task(Protocol):
    """What a task offers.

    Attributes:
        name: its key in ``TASKS``.
        splits: names that :meth:`source` knows.
        demonstrations: kinds that :meth:`demonstration` knows.
        alphabet: every character of its prompts and demonstrations, each once.
    """

    name: str
    splits: tuple[str, ...]
    demonstrations: tuple[str, ...]

    @property
    def alphabet(self) -> str: ...

    @classmethod
    def create(cls, params: Mapping[str, Any]) -> 'Task':
        """The task with these parameters; ValueError names what is wrong with them."""

    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """The problems of a split; ValueError for an unknown or empty one."""

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Verdicts of N responses to each of P problems."""

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """A response to learn from before the RL."""

    def check_answerable(self, max_response_tokens: int) -> None:
        """ValueError if right answers to some problem are longer than that."""

    @staticmethod
    def parse_problem(text: str) -> Problem:
        """A problem given as text, for its verdict; ValueError if malformed."""

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """The verdict on one response, with the reason if it is not correct."""


TASKS: dict[str, type[Task]] = {'maze': MazeTask}


def task_class(name: str) -> type[Task]:
    """The class of a task, which parses problems and gives verdicts by itself.

    Raises:
        ValueError: an unknown name.
    """
    if name not in TASKS:
        raise InputError(f'task {name!r} is none of {sorted(TASKS)}')
    return TASKS[name]


def make_task(name: str, params: Mapping[str, Any]) -> Task:
    """Makes a task.

    Args:
        name: a name of ``TASKS``.
        params: every parameter of the task, by name.

    Raises:
        ValueError: an unknown name; an unknown, missing or impossible parameter.
    """
    return task_class(name).create(params)
