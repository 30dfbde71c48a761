"""A mixture of tasks: each part is a task with parameters and a weight.

    config.task.name = 'mixture'
    config.task.params.parts = {
        'mazes': {'weight': 2, 'task': 'maze', 'params': {...}},
        'sudoku': {'weight': 1, 'task': 'enigmata', 'params': {...}},
    }

Here each block of three training problems has two mazes. To give a puzzle or a level
its own weight, make it a part. Prompts, verdicts and splits come from the parts' tasks.
Results are broken down by part and by the parts' categories. An evaluation has all
problems of the parts.

A problem lies in one split and in one part. A test problem of any part is excluded from
validation and training. A problem of two parts belongs to the first part by name.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from passk_jax import tasks
from passk_jax.config import checks
from passk_jax.config.ranges import not_empty, ranged, section
from passk_jax.data.orders import part_of
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks.abilities import (
    Alphabet,
    Demonstrations,
    Drawing,
    Golds,
    Groups,
    LengthCheck,
)
from passk_jax.tasks.enigmata.task import EnigmataTask
from passk_jax.tasks.judging import check_verdicts, shape_of
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.tasks.task import (
    GENERATED,
    OURS,
    About,
    EmptySplitError,
    Task,
    check_choice,
    check_problems,
)
from passk_jax.types import Problem, Verdict, Verdicts

# A problem of two splits belongs to the split that comes first here.
_SPLITS = ('test', 'validation', 'train')


@section
class Part:
    """A part of a mixture.

    Attributes:
        weight: the part's share of every ``sum(weights)`` training problems.
        task: the name of its task, any but ``'mixture'``.
        params: the parameters of its task.
    """

    weight: int = ranged('lie in [1, 1000]', lambda x: 1 <= x <= 1000)
    task: str = not_empty()
    params: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class MixtureParams:
    """The parts of a mixture.

    Attributes:
        parts: a part's name, also in results -> its :class:`Part`.
    """

    parts: Mapping[str, Any]

    def __post_init__(self):
        if not self.parts:
            raise InputError('task.params.parts is empty: a mixture needs a part')
        parts: dict[str, Part] = {}
        for name, values in self.parts.items():
            path = f'task.params.parts.{name}'
            # A slash or a dot separates a part from what is below it.
            if not name or '/' in name or '.' in name:
                raise InputError(f'{path}: {name=} must be a text without / and dots')
            part = checks.build(Part, values, path=path)
            if part.task == MixtureTask.name:
                raise InputError(f'{path}.task={part.task!r}: parts are not mixtures')
            if same := [other for other in parts if _same(parts[other], part)]:
                raise InputError(
                    f'{path} is the same task with the same parameters as part '
                    f'{same[0]!r}: give one of them the weight of both'
                )
            parts[name] = part


def _same(one: Part, other: Part) -> bool:
    return (one.task, one.params) == (other.task, other.params)


class MixtureTask(Task):
    """Several tasks as one :class:`passk_jax.tasks.task.Task`.

    A category is ``part/category``, or just the part's name if both names are equal.
    Raises ValueError if a part's task cannot be made.
    """

    name = 'mixture'
    splits = ('train', 'validation', 'test')
    Params = MixtureParams
    about = About(
        summary='several tasks with weights, as task.params.parts names them',
        size='those of its parts',
        licence=OURS,
        source=f'that of its parts; the example is {GENERATED}',
        example={
            'parts': {
                'mazes': {
                    'weight': 2,
                    'task': 'maze',
                    'params': dict(MazeTask.about.example),
                },
                'puzzles': {
                    'weight': 1,
                    'task': 'enigmata',
                    'params': dict(EnigmataTask.about.example),
                },
            }
        },
    )

    parts: dict[str, Task]

    def __init__(self, params: MixtureParams):
        super().__init__(params)
        tasks_made = {
            name: tasks.make_task(
                part['task'], part['params'], path=f'task.params.parts.{name}.params'
            )
            for name, part in params.parts.items()
        }
        # The class is frozen.
        object.__setattr__(self, 'parts', tasks_made)

    @property
    def weights(self) -> dict[str, int]:
        """Returns the weight of each part, by name."""
        return {name: part['weight'] for name, part in self.params.parts.items()}

    @property
    def alphabet(self) -> str:
        """Returns the union of the parts' alphabets; ValueError if one has none."""
        needed_by = "model.tokenizer='characters'"
        alphabets = (
            tasks.require(task, Alphabet, needed_by=needed_by).alphabet
            for task in self.parts.values()
        )
        return ''.join(dict.fromkeys(''.join(alphabets)))

    @property
    def demonstrations(self) -> tuple[str, ...]:
        """Returns one kind, the first of each part; ValueError if a part has none."""
        for task in self.parts.values():
            tasks.require(task, Demonstrations, needed_by="init.kind='warm_start'")
        return ('solution',)

    @property
    def groups(self) -> dict[str, str]:
        """Returns the groups of the parts that have groups, each below its part."""
        return {
            _label(name, category): _label(name, group)
            for name, task in self.parts.items()
            if isinstance(task, Groups)
            for category, group in task.groups.items()
        }

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split, part after part.

        A part may have none in a split. The log counts the problems that a part leaves
        out because another part has them. Raises ValueError as the parts do.
        """
        check_choice('split', split, self.splits)
        owners: dict[str, tuple[str, str]] = {}
        problems_found: list[Problem] = []
        for earlier in _SPLITS[: _SPLITS.index(split) + 1]:
            problems_found = self._read_part(earlier, data_dir, owners)
        if not problems_found:
            raise EmptySplitError(
                f'split {split!r} of the mixture is empty: none of its parts '
                f'{list(self.parts)} has problems there'
            )
        return [
            dataclasses.replace(problem, id=i)
            for i, problem in enumerate(problems_found)
        ]

    def _read_part(
        self, split: str, data_dir: str, owners: dict[str, tuple[str, str]]
    ) -> list[Problem]:
        """Reads the split's problems without an owner and adds them to ``owners``."""
        problems_found = []
        for name, task in self.parts.items():
            problems = _problems(task, split, data_dir)
            part_problems = []
            for problem in problems:
                owner = owners.setdefault(task.content_hash(problem), (split, name))
                if owner == (split, name):
                    part_problems.append(_wrapped(name, task.name, problem))
            if left_out := len(problems) - len(part_problems):
                message = 'mixture: %s lacks %d of %d %s problems, which others have'
                logging.warning(message, name, left_out, len(problems), split)
            problems_found += part_problems
        return problems_found

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems, one call per part.

        Raises ValueError if the problems have different numbers of responses.
        """
        shape = shape_of(problems, responses)
        rewards, correct = np.zeros(shape, np.float32), np.zeros(shape, bool)
        parsed: list[list[str]] = [[] for _ in problems]
        failures: dict[str, np.ndarray] = {}
        rows_of = collections.defaultdict(list)
        for row, problem in enumerate(problems):
            rows_of[part_of(problem.category)].append(row)
        for name, rows in rows_of.items():
            part = self.parts[name]
            verdicts = part.verify(
                [_unwrapped(problems[row]) for row in rows],
                [responses[row] for row in rows],
            )
            check_verdicts(verdicts, type(part).verify, (len(rows), shape[1]))
            rewards[rows], correct[rows] = verdicts.rewards, verdicts.correct
            for row, answers in zip(rows, verdicts.parsed, strict=True):
                parsed[row] = answers
            for kind, failed in verdicts.failures.items():
                failures.setdefault(kind, np.zeros(shape, bool))[rows] = failed
        return Verdicts(rewards, correct, parsed, failures)

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns a demonstration of the first kind of the problem's part.

        Raises ValueError unless ``kind`` is one of ``demonstrations``.
        """
        check_choice('kind', kind, self.demonstrations)
        part = tasks.require(
            self.parts[part_of(problem.category)],
            Demonstrations,
            needed_by="init.kind='warm_start'",
        )
        kind = part.demonstrations[0]
        return part.demonstration(_unwrapped(problem), kind=kind, rng=rng)

    def replace_instruction(self, problem: Problem, instruction: str) -> str:
        """Replaces the instruction as the problem's task does."""
        part = self.parts[part_of(problem.category)]
        return part.replace_instruction(_unwrapped(problem), instruction)

    def right_response(self, problem: Problem) -> str:
        """Returns a right response as the problem's task does."""
        part = self.parts[part_of(problem.category)]
        return tasks.right_response(part, _unwrapped(problem))

    def check_answerable(self, max_response_tokens: int) -> None:
        """Raises ValueError if a part's answer is longer than the limit."""
        for name, task in self.parts.items():
            if isinstance(task, LengthCheck):
                with prefixed(f'part {name!r}'):
                    task.check_answerable(max_response_tokens)

    def unparsed_golds(self, problems: Sequence[Problem]) -> dict[int, str]:
        """Returns the unparsed golds of all parts, by the indices of their problems."""
        unparsed = {}
        for name, task in self.parts.items():
            places = [
                place
                for place, problem in enumerate(problems)
                if part_of(problem.category) == name
            ]
            if isinstance(task, Golds):
                golds = task.unparsed_golds([_unwrapped(problems[i]) for i in places])
                unparsed |= {places[i]: gold for i, gold in golds.items()}
        return unparsed

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads ``{"task": NAME, "problem": RECORD}``, with a record of that task.

        Raises ValueError for anything else.
        """
        if not isinstance(record, Mapping) or not {'task', 'problem'} <= record.keys():
            raise InputError('give an object with the fields task and problem')
        name = record['task']
        if name == MixtureTask.name or not isinstance(name, str):
            raise InputError(f'field task: {name!r} is not a task of a mixture')
        problem = tasks.task_class(name).parse_problem(record['problem'])
        return _wrapped(name, name, problem)

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes the problem as its task does."""
        task = tasks.task_class(problem.data['task'])
        return task.content_hash(_unwrapped(problem))

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges the response as the problem's task does."""
        task = tasks.task_class(problem.data['task'])
        return task.verdict(_unwrapped(problem), response)

    @staticmethod
    def draw(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
        """Draws as the problem's task does; ValueError if that task cannot draw."""
        task = tasks.task_class(data['task'])
        if not isinstance(task, Drawing):
            raise InputError(f'task {task.name!r} draws nothing')
        return task.draw(data['data'], parsed, correct=correct)


def _problems(task: Task, split: str, data_dir: str) -> Sequence[Problem]:
    """Returns the problems of a split; none if the split is empty."""
    if split not in task.splits:
        return ()
    try:
        problems = task.source(split, data_dir=data_dir)
        check_problems(task, problems)
    except EmptySplitError:
        return ()
    return problems


def _label(part: str, category: str) -> str:
    return part if category == part else f'{part}/{category}'


def _wrapped(part: str, task: str, problem: Problem) -> Problem:
    """Wraps the problem of a part as one of the mixture."""
    data = {'task': task, 'category': problem.category, 'data': dict(problem.data)}
    category = _label(part, problem.category)
    return dataclasses.replace(problem, data=data, category=category)


def _unwrapped(problem: Problem) -> Problem:
    """Restores the problem of the part, except its id."""
    data = problem.data
    return dataclasses.replace(problem, data=data['data'], category=data['category'])
