"""Optional interfaces of a task, beyond :class:`passk_jax.tasks.task.Task`.

A task has an ability if it has the protocol's methods and attributes; it need not
inherit from the protocol. Callers test for an ability, or require it with
:func:`passk_jax.tasks.require`. To judge a batch in one call, a task overrides
``Task.verify`` instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from passk_jax.types import Problem, Verdict


@runtime_checkable
class Alphabet(Protocol):
    """Characters, each one token of ``model.tokenizer='characters'``.

    Attributes:
        alphabet: every character of the task's prompts and answers, each once.
    """

    alphabet: str


@runtime_checkable
class Demonstrations(Protocol):
    """Responses on which ``init.kind='warm_start'`` trains before the RL.

    Attributes:
        demonstrations: the kinds that :meth:`demonstration` accepts.
    """

    demonstrations: tuple[str, ...]

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns a response to learn from; ValueError for an unknown kind."""


@runtime_checkable
class LengthCheck(Protocol):
    """A check, before any device work, that a right answer fits in a response."""

    def check_answerable(self, max_response_tokens: int) -> None:
        """Raises ValueError if an answer is longer than the limit."""


@runtime_checkable
class Golds(Protocol):
    """Golds that a run checks first, because no response can equal an unparsed one."""

    def unparsed_golds(self, problems: Sequence[Problem]) -> Mapping[int, str]:
        """Returns the golds that cannot be parsed, by the indices of their problems."""


@runtime_checkable
class RightResponse(Protocol):
    """Lets a run judge the gold of its first problem before it begins.

    A task with :class:`Demonstrations` needs no other method.
    """

    def right_response(self, problem: Problem) -> str:
        """Returns the stored answer in the prompt's form; ``''`` if there is none."""


@runtime_checkable
class Groups(Protocol):
    """Groups of categories, each a row of ``evaluate --task``.

    Attributes:
        groups: a problem's category -> its group.
    """

    groups: Mapping[str, str]


@runtime_checkable
class Parts(Protocol):
    """Parts with weights, by which training draws problems.

    The category of a training problem begins with the name of its part, which
    :func:`passk_jax.data.orders.part_of` reads.

    Attributes:
        weights: a part's name -> its share of every ``sum(weights)`` problems.
    """

    weights: Mapping[str, int]


@runtime_checkable
class Drawing(Protocol):
    """A drawing of a response for the report, which otherwise shows the text."""

    @staticmethod
    def draw(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
        """Draws an answer as SVG, from ``Problem.data`` and the recorded verdict.

        The drawing shows that verdict and does not judge again. It must escape text
        that it copies from ``data`` and ``parsed``.
        """


@runtime_checkable
class OfficialVerdict(Protocol):
    """The rule of the benchmark's own verifier, for ``score --official``.

    Its results can be compared with published ones. A task whose ``verdict`` follows
    the official rule has this ability too.
    """

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges as the official verifier does, but never runs text as code."""
