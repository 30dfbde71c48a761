"""What a task may offer beyond :class:`passk_jax.tasks.task.Task`.

A task has an ability if it has the protocol's methods and attributes; it declares
nothing. The place that uses an ability looks for it, or demands it with
:func:`passk_jax.tasks.require`. Verdicts on a whole batch at once need no protocol: a
task overrides ``Task.verify``.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from passk_jax.types import Problem


@runtime_checkable
class Alphabet(Protocol):
    """``model.tokenizer='characters'`` makes one token of each of these characters.

    Attributes:
        alphabet: every character of the task's prompts and answers, each once.
    """

    alphabet: str


@runtime_checkable
class Demonstrations(Protocol):
    """``init.kind='warm_start'`` trains on these responses before the RL.

    Attributes:
        demonstrations: the kinds that :meth:`demonstration` knows.
    """

    demonstrations: tuple[str, ...]

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """A response of this kind to learn from; ValueError for an unknown kind."""


@runtime_checkable
class LengthCheck(Protocol):
    """Every command asks, before it uses a device, if a response can be long enough."""

    def check_answerable(self, max_response_tokens: int) -> None:
        """Raises ValueError if right answers to some problem are longer than that."""


@runtime_checkable
class Drawing(Protocol):
    """The report draws a task's responses; without a drawing it shows their text."""

    @staticmethod
    def draw(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
        """An SVG of an answer, from ``Problem.data`` and the recorded verdict.

        It shows the verdict it is given and makes none. It must escape what it copies
        from ``data`` and ``parsed``.
        """
