"""The Enigmata task: all 36 puzzles of Enigmata (arXiv:2505.19914).

Generators, prompts and verdicts are ours; :mod:`passk_jax.tasks.enigmata.table` lists
the puzzles. Five have no generator and read problems from local files
(:mod:`passk_jax.tasks.enigmata.files`). The answer is in the last fenced block of a
response, between board tags or in the last table, as in the official verifiers.
Verdicts are strict: they apply the stated rules and accept any valid solution.
``official=True`` gives the official verdict, to compare with published results.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from passk_jax.config.ranges import count, not_negative, one_of
from passk_jax.errors import InputError
from passk_jax.tasks.enigmata import files, splits
from passk_jax.tasks.enigmata.puzzle import LEVELS, MALFORMED, AnyPuzzle, opened
from passk_jax.tasks.enigmata.table import ALL_PUZZLES, FILE_PUZZLES, PUZZLES
from passk_jax.tasks.judging import judge_together
from passk_jax.tasks.task import (
    ASCII,
    GENERATED,
    OURS,
    About,
    EmptySplitError,
    Task,
    check_choice,
    check_several,
)
from passk_jax.types import Problem, Verdict, Verdicts

# Puzzles that take at most half the time for ``MANY`` responses on arrays;
# benchmarks/README.md has the times of every puzzle.
FASTER_ON_ARRAYS = ('slant',)
MANY = 1024

# Whether the puzzle has board tags -> the place that the prompt asks for.
_PLACE = {
    False: 'Give your final answer alone in a code block (```) at the end.',
    True: 'Give your final answer alone between <begin_board> and <end_board>.',
}
PROMPTS = {
    'bare': '{puzzle}\n{question}\n',
    'instruct': '{rules}\n\nThe puzzle:\n{question}\n\nReason step by step. {place}',
}


@dataclasses.dataclass(frozen=True)
class EnigmataParams:
    """The puzzles, how many problems to generate, and the prompt.

    Attributes:
        puzzles: names of puzzles; their problems come in this order.
        levels: some of ``'easy'``, ``'medium'`` and ``'hard'``.
        train_count, validation_count, test_count: number of problems of each puzzle
            and level; for a puzzle from files, fewer if the files have fewer.
        seed: decides which problems are generated.
        prompt: ``'bare'`` (the puzzle's name and the problem) or ``'instruct'`` (with
            the rules and the format of the answer, in English).
    """

    puzzles: tuple[str, ...]
    levels: tuple[str, ...]
    train_count: int = count(0)
    validation_count: int = count(0)
    test_count: int = count(0)
    seed: int = not_negative()
    prompt: str = one_of(*PROMPTS)

    def __post_init__(self):
        for name, choices in (('puzzles', ALL_PUZZLES), ('levels', LEVELS)):
            check_several(name, getattr(self, name), choices)


class EnigmataTask(Task):
    """Puzzles as a :class:`~passk_jax.tasks.task.Task`; the category is the puzzle."""

    name = 'enigmata'
    splits = ('train', 'validation', 'test')
    Params = EnigmataParams
    about = About(
        summary=f'Enigmata, {len(ALL_PUZZLES)} puzzles: {", ".join(ALL_PUZZLES)}',
        size='any number of most puzzles, in three levels',
        licence=OURS,
        source=f'{GENERATED}, except {", ".join(FILE_PUZZLES)}',
        example={
            'puzzles': tuple(PUZZLES),
            'levels': LEVELS[:1],
            'train_count': 1,
            'validation_count': 0,
            'test_count': 1,
            'seed': 0,
            'prompt': 'instruct',
        },
        # Enigmata-Eval has at most as many of each puzzle and level.
        benchmark={'levels': LEVELS, 'test_count': 50},
    )
    instructions = tuple(_PLACE.values())
    demonstrations = ('solution',)
    # Results are broken down by puzzle, and tables by Enigmata's seven categories.
    groups: ClassVar = {name: puzzle.category for name, puzzle in ALL_PUZZLES.items()}
    # Puzzles with a generator use only ASCII; some files do not.
    alphabet = ASCII

    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """Returns the problems of a split; makes or reads them at the first call.

        Puzzles without a generator read files below ``data_dir``, or below the working
        directory. Raises ValueError if the split is unknown or empty, if a puzzle has
        too few problems, or if one of its files is missing.
        """
        check_choice('split', split, self.splits)
        if not (count := getattr(self.params, f'{split}_count')):
            raise EmptySplitError(
                f'split {split!r} of the enigmata task is empty: {split}_count={count}'
            )
        problems = _problems(self.params, split, data_dir)
        if not problems:
            raise EmptySplitError(
                f'no puzzle of {self.params.puzzles} has {split} problems'
            )
        return problems

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems, on arrays if that is faster.

        Raises ValueError if the problems have different numbers of responses.
        """
        return judge_together(problems, responses, judge=_judge, failures={})

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns a solution in the form that the prompt asks for, always the same.

        Raises ValueError unless ``kind`` is one of ``demonstrations``.
        """
        del rng
        check_choice('kind', kind, self.demonstrations)
        return ALL_PUZZLES[problem.data['puzzle']].response(problem.data['answer'])

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes the puzzle's problem; the style of the prompt does not count."""
        return ALL_PUZZLES[problem.data['puzzle']].content_hash(problem.data)

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a record of Enigmata; the problem has the record's prompt.

        Raises ValueError for text, a malformed record or an unknown puzzle.
        """
        if isinstance(record, str):
            raise InputError("give Enigmata's record as an object, not as text")
        try:
            puzzle, data = _read(record)
            prompt = str(record['prompt'])
        except InputError:
            raise
        except MALFORMED as e:
            raise InputError(f'malformed record: {type(e).__name__}: {e}') from None
        return Problem(0, prompt or puzzle.question(data), data, puzzle.name)

    @staticmethod
    def verdict(problem: Problem, response: str, *, official: bool = False) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        puzzle = ALL_PUZZLES[problem.data['puzzle']]
        return puzzle.verdict(problem.data, response, official=official)

    @staticmethod
    def draw(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
        """Draws a puzzle's board as SVG; ``''`` for a puzzle without one."""
        return ALL_PUZZLES[data['puzzle']].draw(data, parsed, correct=correct)

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response by the official rule; a wrong one gets a reason."""
        return EnigmataTask.verdict(problem, response, official=True)


def _judge(problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
    verdicts: dict[int, Verdict] = {}
    names = [problem.data['puzzle'] for problem in problems]
    for name in FASTER_ON_ARRAYS:
        if names.count(name) >= MANY:
            rows = [row for row, other in enumerate(names) if other == name]
            verdicts |= zip(
                rows, _on_arrays(name, problems, responses, rows), strict=True
            )
    return [
        verdicts.get(row) or EnigmataTask.verdict(problem, response)
        for row, (problem, response) in enumerate(zip(problems, responses, strict=True))
    ]


def _on_arrays(
    name: str,
    problems: Sequence[Problem],
    responses: Sequence[str],
    rows: Sequence[int],
) -> list[Verdict]:
    # Imported here, because they load JAX, which single verdicts do not need.
    from passk_jax.tasks.enigmata.on_arrays import batch, table

    verdicts = batch.verify(
        ALL_PUZZLES[name],
        table.RULES[name],
        [problems[row].data for row in rows],
        [responses[row] for row in rows],
    )
    return [
        Verdict(bool(correct), parsed, None if correct else 'breaks a rule')
        for correct, parsed in zip(*verdicts, strict=True)
    ]


def _read(record: Mapping[str, Any]) -> tuple[AnyPuzzle, dict[str, Any]]:
    # The published files call the puzzle task_name.
    name = record['task'] if 'task' in record else record['task_name']
    if not isinstance(name, str) or name not in ALL_PUZZLES:
        raise InputError(f'puzzle {name!r} is none of {list(ALL_PUZZLES)}')
    puzzle, record = ALL_PUZZLES[name], opened(record)
    data = puzzle.read(record)
    level = str(record['meta'].get('difficulty_level', ''))
    return puzzle, {'puzzle': name, 'level': level} | data


def prompt_of(puzzle: AnyPuzzle, data: Mapping[str, Any], *, style: str) -> str:
    """Formats the prompt of a problem in one of the styles of ``PROMPTS``."""
    return PROMPTS[style].format(
        puzzle=puzzle.name,
        rules=puzzle.rules,
        question=puzzle.question(data),
        place=_PLACE[puzzle.board],
    )


@functools.lru_cache(maxsize=8)
def _problems(params: EnigmataParams, split: str, data_dir: str) -> tuple[Problem, ...]:
    counts = {name: getattr(params, f'{name}_count') for name in splits.SPLITS}
    problems = []
    for name in params.puzzles:
        if name in FILE_PUZZLES:
            split_problems = files.read_splits(
                FILE_PUZZLES[name],
                levels=params.levels,
                counts=counts,
                data_dir=data_dir,
            )
        else:
            split_problems = splits.generate_splits(
                PUZZLES[name],
                levels=params.levels,
                counts=counts,
                seed=params.seed,
                upto=split,
            )
        problems += [(ALL_PUZZLES[name], data) for data in split_problems[split]]
    return tuple(
        Problem(i, prompt_of(puzzle, data, style=params.prompt), data, puzzle.name)
        for i, (puzzle, data) in enumerate(problems)
    )
