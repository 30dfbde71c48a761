"""What a task may offer beyond :class:`passk_jax.tasks.task.Task`.

A task has an ability if it has the protocol's methods and attributes; it declares
nothing. Code that uses an ability looks for it, or demands it with
:func:`passk_jax.tasks.require`. To judge a whole batch at once, a task needs no
protocol: it overrides ``Task.verify``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from passk_jax.types import Problem, Verdict


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
        """A response to learn from; ValueError for an unknown kind."""


@runtime_checkable
class LengthCheck(Protocol):
    """Lets commands check, before they use a device, that responses can be right."""

    def check_answerable(self, max_response_tokens: int) -> None:
        """Raises ValueError if the limit is too short for the answer to a problem."""


@runtime_checkable
class Golds(Protocol):
    """Lets a run refuse problems whose gold no response could equal."""

    def unparsed_golds(self, problems: Sequence[Problem]) -> Mapping[int, str]:
        """The golds that cannot be parsed, by the places of their problems."""


@runtime_checkable
class RightResponse(Protocol):
    """Lets a run judge the gold of its first problem before it begins.

    A task with :class:`Demonstrations` needs no other method.
    """

    def right_response(self, problem: Problem) -> str:
        """The stored answer in the form that the prompt asks for; ``''``: none."""


@runtime_checkable
class Groups(Protocol):
    """``evaluate --task`` has a row for each group of categories.

    Attributes:
        groups: category of a problem -> its group.
    """

    groups: Mapping[str, str]


@runtime_checkable
class Parts(Protocol):
    """Training draws problems by the weights of their parts.

    The category of each training problem begins with the name of its part, as
    :func:`passk_jax.data.orders.part_of` finds it.

    Attributes:
        weights: name of a part -> how many of any ``sum(weights)`` problems it has.
    """

    weights: Mapping[str, int]


@runtime_checkable
class Drawing(Protocol):
    """Lets the report draw responses; without this ability it shows their text."""

    @staticmethod
    def draw(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
        """An SVG of an answer, from ``Problem.data`` and the recorded verdict.

        The drawing shows that verdict and makes none of its own. It must escape what
        it copies from ``data`` and ``parsed``.
        """


@runtime_checkable
class OfficialVerdict(Protocol):
    """``score --official`` judges by the rule of the benchmark's own verifier.

    That is for numbers that must be comparable. A task whose ``verdict`` follows the
    official rule has this ability too.
    """

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """What the official verifier says; evaluates no text of the response."""
