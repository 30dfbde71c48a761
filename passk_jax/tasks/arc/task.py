r"""The task ARC-AGI-1: find the rule of example grids and apply it (arXiv:1911.01547).

It reads tasks from a local copy of the benchmark; the prompt is ours. The answer is the
last fenced block of a response or, without one, its last ``\boxed{...}``. It is right
if it is the complete grid. That is the benchmark's rule, which allows three attempts; a
response here is one attempt. Blocks that cannot be a grid, such as a program, are
skipped. ``grids.usual_grid`` reads usual spellings: tables, a list per line, numpy's
print, digits without separators.

Enigmata's ``symbolic_hard`` has the same problems.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from passk_jax.config.ranges import count, not_empty, one_of, percent
from passk_jax.errors import InputError
from passk_jax.tasks import arc_items, drawings
from passk_jax.tasks.arc_items import ArcItem
from passk_jax.tasks.records import located, place_of
from passk_jax.tasks.task import (
    ASCII,
    About,
    EmptySplitError,
    Task,
    check_choice,
)
from passk_jax.types import Problem, Verdict
from passk_jax.verifiers.answers import Wrong, as_block, last_block
from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.grids import (
    MAX_TEXT,
    grid_text,
    may_be_grid,
    read_grid,
    usual_grid,
)

# Longer answers are wrong, and a report truncates them.
_MAX_PARSED = 4096

_INSTRUCTIONS = """One rule makes each output grid below from its input grid. Cells are colours, written as the digits 0 to 9.

{examples}

Find the rule, and apply it to this input:
{test}

"""  # noqa: E501
_ANSWER = 'Reason step by step, and give the output grid alone in a code block (```) at the end: one row a line, cells separated by spaces.'  # noqa: E501

PROMPTS = {
    'bare': '{examples}\n\nInput:\n{test}\nOutput:\n',
    'instruct': _INSTRUCTIONS + _ANSWER,
}


@dataclasses.dataclass(frozen=True)
class ArcParams:
    """Files of tasks, shares of the splits, and the prompt.

    Attributes:
        training, evaluation: a JSON file of tasks by name, or a folder with one file
            per task; a relative path starts at ``data.dir``, or without that at the
            working directory. The evaluation tasks are the split test.
        validation_percent: the share of training tasks in the split validation, chosen
            by the hash of their examples; the rest is train.
        max_characters: the longest prompt; longer problems are left out of every split,
            and the log counts them. 0: no limit.
        prompt: ``'bare'`` (just grids) or ``'instruct'`` (English).
    """

    training: str = not_empty()
    evaluation: str = not_empty()
    validation_percent: int = percent()
    max_characters: int = count(0)
    prompt: str = one_of(*PROMPTS)


class ArcTask(Task):
    """ARC-AGI-1 as a :class:`passk_jax.tasks.task.Task`.

    The category of a problem is its set, ``'training'`` or ``'evaluation'``.
    """

    name = 'arc'
    splits = ('train', 'validation', 'test')
    Params = ArcParams
    about = About(
        summary='ARC-AGI-1: find the rule of example grids and apply it',
        size='415 training, 419 evaluation',
        licence='Apache-2.0',
        source=arc_items.HOW_TO_GET,
        example={
            'training': 'ARC-AGI/data/training',
            'evaluation': 'ARC-AGI/data/evaluation',
            'validation_percent': 0,
            'max_characters': 0,
            'prompt': 'instruct',
        },
    )
    instructions = (_ANSWER,)
    demonstrations = ('solution',)
    # Prompts and answers keep to ASCII.
    alphabet = ASCII
    draw = staticmethod(drawings.draw_grid)

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split, sorted by task.

        It leaves out training tasks that have the examples of an evaluation task (one
        in the published sets) and problems that are too long. The log counts both.
        Raises ValueError if a set is missing or malformed, or if the split is unknown
        or empty.
        """
        check_choice('split', split, self.splits)
        evaluation = _read(self.params.evaluation, data_dir)
        if split == 'test':
            problems_found = self._problems(evaluation, 'evaluation')
        else:
            training = _read(self.params.training, data_dir)
            chosen = self._training(training, without=evaluation)
            problems_found = self._problems(chosen[split], 'training')
        if not problems_found:
            raise EmptySplitError(
                f'split {split!r} of the arc task is empty: {self.params}'
            )
        return problems_found

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns just the right grid, in the form that the prompt asks for.

        Raises ValueError unless ``kind`` is one of ``demonstrations``.
        """
        del rng
        check_choice('kind', kind, self.demonstrations)
        return as_block(grid_text(problem.data['output']))

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes the examples; tests do not count.

        The puzzle ``symbolic_hard`` has the same problems.
        """
        return problem.data['examples']

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads the benchmark's record of a task.

        If it has several tests, an added field ``test_index`` (from 0) chooses one.
        Raises ValueError for text or a malformed record.
        """
        if not isinstance(record, Mapping):
            raise InputError("give ARC's record as an object, not as text")
        task = arc_items.parse_task(record, name=str(record.get('name', '')))
        index, number = record.get('test_index', 0), len(task.test)
        if number > 1 and 'test_index' not in record:
            raise InputError(f'field test_index must name one of {number} tests')
        if type(index) is not int or not 0 <= index < number:
            raise InputError(f'test_index={index!r} must lie in [0, {number})')
        return _problem(task, index, category='record', prompt='bare')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        answer = last_block(response, like=may_be_grid) or last_box(response) or ''
        answer = answer.strip()
        with contextlib.suppress(Wrong):
            answer = usual_grid(answer[: MAX_TEXT + 1])
        try:
            error = _difference(answer, problem.data['output'])
        except Wrong as e:
            error = str(e)
        return Verdict(error is None, answer[:_MAX_PARSED], error)

    # The benchmark's rule is this one.
    official_verdict = verdict

    def _training(
        self, tasks: Iterable[ArcItem], *, without: Iterable[ArcItem]
    ) -> dict[str, list[ArcItem]]:
        """Returns the tasks of train and validation."""
        hashes = {task.content_hash for task in without}
        chosen: dict[str, list[ArcItem]] = {'train': [], 'validation': [], 'taken': []}
        for task in tasks:
            digest = task.content_hash
            validation = place_of(digest) < self.params.validation_percent
            split = 'validation' if validation else 'train'
            chosen['taken' if digest in hashes else split].append(task)
        if names := [task.name for task in chosen['taken']]:
            message = 'arc: left out %d training tasks that the evaluation set has: %s'
            logging.warning(message, len(names), names)
        return chosen

    def _problems(self, tasks: Sequence[ArcItem], category: str) -> list[Problem]:
        prompt, most = self.params.prompt, self.params.max_characters
        every = [
            _problem(task, index, category=category, prompt=prompt)
            for task in tasks
            for index in range(len(task.test))
        ]
        short = [p for p in every if not most or len(p.prompt) <= most]
        if len(short) < len(every):
            message = 'arc: left out %d of %d %s problems with more than %d characters'
            logging.warning(
                message, len(every) - len(short), len(every), category, most
            )
        return [dataclasses.replace(p, id=i) for i, p in enumerate(short)]


def _read(path: str, data_dir: str) -> list[ArcItem]:
    return arc_items.read_tasks(located(path, data_dir))


def _problem(task: ArcItem, index: int, *, category: str, prompt: str) -> Problem:
    test = task.test[index]
    text = PROMPTS[prompt].format(examples=task.examples, test=grid_text(test.input))
    data = {
        'task': task.name,
        'test_index': index,
        'examples': task.content_hash,
        'output': test.output,
    }
    return Problem(0, text, data, category)


def _difference(answer: str, gold: list[list[int]]) -> str | None:
    """Says how an answer differs from the right grid; ``None`` if they are equal."""
    if not answer:
        raise Wrong('no grid in a code block or a box')
    grid = read_grid(answer)
    if (len(grid), len(grid[0])) != (len(gold), len(gold[0])):
        return (
            f'a grid of {len(grid)} x {len(grid[0])}, not {len(gold)} x {len(gold[0])}'
        )
    wrong = sum(
        cell != right
        for row, right_row in zip(grid, gold, strict=True)
        for cell, right in zip(row, right_row, strict=True)
    )
    return f'{wrong} cells differ' if wrong else None
