"""The interface of every task; :mod:`passk_jax.tasks.abilities` has optional ones."""

import abc
import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from passk_jax import plugins
from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.types import Problem, Verdict, Verdicts


@dataclasses.dataclass(frozen=True)
class NoParams:
    """Empty parameters, for a task without any."""


@dataclasses.dataclass(frozen=True)
class About:
    """A description of a task's problems, for choosing a task.

    Attributes:
        summary: what they are.
        size: how many there are.
        licence: the terms of their use.
        source: how to get them.
        example: parameters with which ``python -m passk_jax.tasks`` shows problems;
            paths are those where ``source`` puts the files.
        benchmark: parameters that replace those of ``example`` in
            ``python -m passk_jax.evaluate --task=NAME``, for the published benchmark.
    """

    summary: str
    size: str
    licence: str
    source: str
    example: Mapping[str, Any]
    benchmark: Mapping[str, Any] = dataclasses.field(default_factory=dict)


UNDESCRIBED = About('your task', 'those of its source', 'yours', 'your file', {})


class EmptySplitError(InputError):
    """A split that has no problems under the task's parameters."""


# The alphabet of a character tokenizer for English texts.
ASCII = '\n' + ''.join(chr(i) for i in range(32, 127))
GENERATED = 'nothing to get: this program generates them'
OURS = 'that of this program'


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """The base class of every task.

    Attributes:
        name: the task's key in ``TASKS``, or ``file.py:Class``.
        splits: the names that :meth:`source` accepts.
        about: the description that ``python -m passk_jax.tasks`` prints.
        Params: the dataclass of the parameters, which checks their values. Its field
            types are those that ``config.checks.build`` accepts.
        params: the parameters, an instance of ``Params``.
        instructions: the words in its prompts that say how to answer, of which each
            prompt has one or none; ``data.instruction`` replaces them.
    """

    name: ClassVar[str]
    splits: ClassVar[tuple[str, ...]]
    about: ClassVar[About] = UNDESCRIBED
    Params: ClassVar[type] = NoParams
    instructions: ClassVar[tuple[str, ...]] = ()

    params: Any

    @abc.abstractmethod
    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """Returns the problems of a split.

        Raises EmptySplitError if it has none, and ValueError if it is unknown.

        Args:
            split: one of ``splits``.
            data_dir: the directory of the task's files; ``''``: the task chooses.
        """

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a problem from text or from a benchmark's record, for its verdicts.

        Raises ValueError if the task cannot read the record; by default always.
        """
        raise InputError('the task has no parse_problem, which reads a record')

    @staticmethod
    @abc.abstractmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; must not raise, whatever the response is."""

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes a problem; equal problems get equal hashes in all splits and tasks.

        A mixture puts equal problems into one split. An evaluation leaves out problems
        that the run was trained on. By default, equal prompts make equal problems.
        Override this if prompts of one problem vary, or if two tasks share problems.
        """
        return records.content_hash(problem.prompt)

    def replace_instruction(self, problem: Problem, instruction: str) -> str:
        """The prompt of a problem with other words on how to answer than the task's.

        Args:
            problem: one of the task's.
            instruction: the words, ``''``: none. They stand in the place of the task's
                own or, where the prompt has none, at its end.
        """
        prompt = problem.prompt
        for own_words in self.instructions:
            if own_words in prompt:
                return prompt.replace(own_words, instruction).strip()
        return f'{prompt.rstrip()}\n\n{instruction}' if instruction else prompt

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges ``[P][N]`` responses to P problems, by default one at a time.

        The reward is 1 for a correct response, else 0. Override this to judge a batch
        faster or to give other rewards.
        """
        rows = [
            [checked(self.verdict(problem, response), self.verdict) for response in row]
            for problem, row in zip(problems, responses, strict=True)
        ]
        correct = np.array([[v.correct for v in row] for row in rows], bool)
        parsed = [[verdict.parsed for verdict in row] for row in rows]
        return Verdicts(correct.astype(np.float32), correct, parsed)


def class_of_file(place: str) -> type[Task]:
    """The class of a user's own task, ``file.py:Class``; its name is that place.

    Raises InputError if it is no task, or lacks what every task has.
    """
    cls = plugins.load(place)
    if not (isinstance(cls, type) and issubclass(cls, Task)):
        what = cls.__name__ if isinstance(cls, type) else f'a {type(cls).__name__}'
        raise InputError(f'{place} is {what}, not a class of passk_jax.tasks.Task')
    lacks = sorted(cls.__abstractmethods__)
    if lacks := [*lacks, *(() if hasattr(cls, 'splits') else ('splits',))]:
        raise InputError(f'{plugins.where(cls)} lacks {", ".join(lacks)}')
    splits = cls.splits
    if not (isinstance(splits, tuple) and splits and {*map(type, splits)} == {str}):
        raise InputError(f'{plugins.where(cls)}: {splits=} must be a tuple of texts')
    cls.name = place
    return cls


def checked(verdict: Any, judge: Callable[..., Verdict]) -> Verdict:
    """The verdict; InputError that names the function unless it is one."""
    if not (
        isinstance(verdict, Verdict)
        and isinstance(verdict.correct, bool | np.bool_)
        and isinstance(verdict.parsed, str)
    ):
        raise InputError(
            f'{plugins.where(judge)} returned {verdict!r}; it must return a '
            'Verdict(correct, parsed, error) of a bool, a text and a text or None'
        )
    return verdict


def check_problems(task: Task, problems: Any) -> None:
    """Raises InputError unless a task's source gave a sequence of problems.

    The first stands for all of them, because reading all may take long.
    """
    source = plugins.where(type(task).source)
    if not (hasattr(problems, '__len__') and hasattr(problems, '__getitem__')):
        what = type(problems).__name__
        raise InputError(f'{source} returned a {what}, not a sequence of Problem')
    if not len(problems):
        raise EmptySplitError(f'{source} returned no problems')
    first = problems[0]
    if not (
        isinstance(first, Problem)
        and isinstance(first.id, int)
        and isinstance(first.prompt, str)
        and isinstance(first.data, Mapping)
        and isinstance(first.category, str)
    ):
        raise InputError(
            f'{source} returned {first!r}, not a Problem of an int, a text, a mapping '
            'and a text'
        )
    try:
        json.dumps(dict(first.data))
    except (TypeError, ValueError) as error:
        message = f'{source} returned a problem whose data are no JSON: {error}'
        raise InputError(message) from error


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raises ValueError unless the value is one of the choices."""
    if value not in choices:
        raise InputError(f'{name} {value!r} is none of {list(choices)}')


def check_several(name: str, values: Sequence[str], choices: Collection[str]) -> None:
    """Raises ValueError unless the values are distinct choices, at least one."""
    if unknown := [value for value in values if value not in choices]:
        raise InputError(f'{name}: {unknown[0]!r} is none of {list(choices)}')
    if not values or len(set(values)) != len(values):
        raise InputError(f'{name}={values!r} must name at least one, each once')


def shape_of(
    problems: Sequence[Problem], responses: Sequence[Sequence[str]]
) -> tuple[int, int]:
    """Returns (P, N); ValueError unless each of P problems has N responses."""
    shape = len(problems), len(responses[0]) if len(responses) else 0
    if [len(row) for row in responses] != [shape[1]] * shape[0]:
        raise InputError(f'{shape[0]} problems need as many rows of equal length')
    return shape


def judge_together(
    problems: Sequence[Problem],
    responses: Sequence[Sequence[str]],
    *,
    judge: Callable[[list[Problem], list[str]], list[Verdict]],
    failures: Mapping[str, str],
) -> Verdicts:
    """Judges ``[P][N]`` responses to P problems in one call, with rewards 0 and 1.

    Args:
        problems, responses: as for :meth:`Task.verify`.
        judge: returns the verdicts on ``P * N`` responses, each with its problem.
        failures: kind of failure of the verifier -> the error of its verdicts.

    Raises:
        ValueError: the problems have different numbers of responses, or ``judge``
            raises it.
    """
    shape = shape_of(problems, responses)
    repeated = [problem for problem in problems for _ in range(shape[1])]
    verdicts = judge(repeated, [text for row in responses for text in row])
    correct = np.array([v.correct for v in verdicts], bool).reshape(shape)
    parsed = np.array([v.parsed for v in verdicts], object).reshape(shape)
    errors = np.array([v.error for v in verdicts], object).reshape(shape)
    failed = {kind: errors == text for kind, text in failures.items()}
    return Verdicts(correct.astype(np.float32), correct, parsed.tolist(), failed)


def check_disjoint(
    splits: Mapping[str, Sequence[Problem]], *, digest: Callable[[Problem], str]
) -> None:
    """Raises ValueError if two splits share a problem; it names the first.

    Args:
        splits: the problems of each.
        digest: equal for equal problems.
    """
    first_seen: dict[str, tuple[str, Problem]] = {}
    shared: list[tuple[tuple[str, Problem], tuple[str, Problem]]] = []
    for split, problems in splits.items():
        for problem in problems:
            place = split, problem
            first = first_seen.setdefault(digest(problem), place)
            if first[0] != split:
                shared.append((first, place))
    if not shared:
        return
    (split, problem), (other_split, other) = shared[0]
    text = other.prompt.rpartition('\n\n')[2]
    raise InputError(
        f'{len(shared)} problems lie in two splits; problem {problem.id} of {split!r} '
        f'(from {problem.category}) is problem {other.id} of {other_split!r} (from '
        f'{other.category}): {text[:80]!r}'
    )
