r"""The maze task: find a path from S to E; the answer is a string over U, D, L, R.

The paper describes its mazes in the appendix "Details of Downstream Tasks", but neither
their generator nor the prompt, so this package has its own. Walls are ``*``, as in the
paper's released verifier.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from passk_jax.config.ranges import count, not_negative, one_of, ranged, section
from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.tasks.maze import demonstrations as maze_paths
from passk_jax.tasks.maze import drawing, rule, rule_on_arrays
from passk_jax.tasks.maze import generator as maze_generator
from passk_jax.tasks.task import (
    GENERATED,
    OURS,
    About,
    EmptySplitError,
    Task,
    check_choice,
)
from passk_jax.types import PICTURE, Problem, Verdict, Verdicts

_INSTRUCTIONS = r"""Find a path through this maze:

{maze}

Each line is a row of the maze and each character a cell: `*` is a wall, `.` is free, `S` is the start and `E` is the end. A move goes from a cell to the next one: `U` up, `D` down, `L` left, `R` right. The path begins at `S`, ends at `E`, and must neither enter a wall nor leave the maze; it need not be the shortest.

"""  # noqa: E501
ANSWER = r'Reason step by step, and put your final answer, the moves as one string of the letters U, D, L and R, within \boxed{}.'  # noqa: E501

# Style of the prompt -> (prompt, form of a demonstrated answer).
PROMPTS = {
    'bare': ('{maze}\n', '{moves}'),
    'instruct': (
        _INSTRUCTIONS + ANSWER.replace('{}', '{{}}'),
        r'\boxed{{{moves}}}',
    ),
}


@section
class MazeParams:
    """The mazes to generate, and the prompt.

    Attributes:
        generator: ``'wilson'`` (uniform perfect mazes of odd side, S and E in opposite
            corners) or ``'percolation'`` (cells are walls at random, S and E anywhere).
        wall_probability: the probability that a cell is a wall; only for percolation.
        min_path: the least length, in moves, of the shortest path from S to E.
        max_path: the greatest length of that path; 0: any.
        train_sizes, validation_sizes, test_sizes: sides of the split's mazes.
        train_counts, validation_counts, test_counts: number of mazes of each size.
        seed: decides which mazes are generated.
        prompt: ``'bare'`` (just the maze and a line break) or ``'instruct'`` (English).
    """

    generator: str = one_of(*maze_generator.GENERATORS)
    wall_probability: float = ranged('lie in [0, 1)', lambda x: 0 <= x < 1)
    min_path: int = count(0)
    max_path: int = count(0)
    train_sizes: tuple[int, ...]
    train_counts: tuple[int, ...]
    validation_sizes: tuple[int, ...]
    validation_counts: tuple[int, ...]
    test_sizes: tuple[int, ...]
    test_counts: tuple[int, ...]
    seed: int = not_negative()
    prompt: str = one_of(*PROMPTS)

    def __post_init__(self):
        min_path, max_path = self.min_path, self.max_path
        if 0 < max_path < min_path:
            raise InputError(f'{max_path=} is less than {min_path=}')
        num_mazes = collections.Counter()
        for split in maze_generator.SPLITS:
            num_mazes.update(self._checked_split(split))
        if self.generator != 'wilson':
            return
        for size, number in num_mazes.items():
            if number > (exist := maze_generator.num_perfect_mazes(size)):
                raise InputError(
                    f'all splits together ask for {number} perfect mazes of size '
                    f'{size}, but only {exist:.0f} exist'
                )

    def get_by_split(self, field: str) -> dict[str, tuple[int, ...]]:
        """Returns the ``'sizes'`` or ``'counts'`` of each split."""
        return {s: getattr(self, f'{s}_{field}') for s in maze_generator.SPLITS}

    def _checked_split(self, split: str) -> dict[int, int]:
        """Checks a split; returns size -> number of mazes."""
        sizes, counts = (getattr(self, f'{split}_{f}') for f in ('sizes', 'counts'))
        if len(sizes) != len(counts) or len(set(sizes)) != len(sizes):
            raise InputError(
                f'{split}_sizes={sizes} and {split}_counts={counts}: give every size '
                f'once and a count for each'
            )
        if any(count < 0 for count in counts):
            raise InputError(f'{split}_counts={counts}: a count is negative')
        for size in sizes:
            if self.generator == 'wilson' and (size < 5 or size % 2 == 0):
                raise InputError(
                    f'{split}_sizes={sizes}: the side of a perfect maze is odd '
                    f'and at least 5, not {size}'
                )
            if size < 2 or size * size <= self.min_path:
                raise InputError(
                    f'{split}_sizes={sizes}: {size} is too small for a path of '
                    f'{max(self.min_path, 1)} moves'
                )
        return dict(zip(sizes, counts, strict=True))


class MazeTask(Task):
    """Mazes as a :class:`passk_jax.tasks.task.Task`, with most optional abilities."""

    name = 'maze'
    splits = ('train', 'validation', 'test')
    Params = MazeParams
    instructions = (ANSWER,)
    prompts: ClassVar[Mapping[str, tuple[str, str]]] = PROMPTS
    about = About(
        summary='mazes as text: find a path from S to E',
        size='any number; of 7 x 7 cells 192 perfect ones, of 9 x 9 100,352',
        licence=OURS,
        source=GENERATED,
        example={
            'generator': 'wilson',
            'wall_probability': 0.0,
            'min_path': 0,
            'max_path': 0,
            'train_sizes': (9,),
            'train_counts': (10,),
            'validation_sizes': (),
            'validation_counts': (),
            'test_sizes': (9,),
            'test_counts': (10,),
            'seed': 0,
            'prompt': 'instruct',
        },
        # The sizes and counts of the paper's test set.
        benchmark={
            'test_sizes': tuple(range(7, 22, 2)),
            'test_counts': (75, *[100] * 7),
        },
    )
    demonstrations = tuple(maze_paths.DEMONSTRATIONS)
    draw = staticmethod(drawing.draw_maze)

    @property
    def alphabet(self) -> str:
        """Returns symbols, moves, then other characters of prompts and answers."""
        first = rule.SYMBOLS + '\n' + rule.MOVES
        prompt, answer = self.prompts[self.params.prompt]
        texts = prompt.format(maze='') + answer.format(moves='')
        characters = set(texts.replace(PICTURE, '')) - set(first)
        return first + ''.join(sorted(characters))

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split; the first call generates and stores them.

        ``data_dir=''`` means ``~/.cache/passk_jax``. Raises ValueError if the split is
        unknown or empty, or if its mazes cannot be generated or stored.
        """
        # Imported here, because it loads TFDS, which verdicts and drawings do not need.
        from passk_jax.tasks.maze import dataset

        check_choice('split', split, self.splits)
        params, counts = self.params, self.params.get_by_split('counts')
        if not sum(counts[split]):
            empty = f'{split}_counts={counts[split]}'
            raise EmptySplitError(f'split {split!r} of the maze task is empty: {empty}')
        config = dataset.MazeConfig.create(
            generator=params.generator,
            wall_probability=params.wall_probability,
            min_path=params.min_path,
            max_path=params.max_path,
            sizes=params.get_by_split('sizes'),
            counts=counts,
            seed=params.seed,
        )
        mazes = dataset.open_split(config, split, data_dir=data_dir)
        return [self.problem(maze, id=i) for i, maze in enumerate(mazes)]

    def problem(self, maze: str, *, id: int) -> Problem:
        """Makes the problem of a maze."""
        return _problem(maze, id=id, prompt=self.prompts[self.params.prompt][0])

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems in one call.

        Raises ValueError if the problems have different numbers of responses.
        """
        moves = [[rule.parse_moves(r) for r in row] for row in responses]
        correct = rule_on_arrays.verify([p.data['maze'] for p in problems], moves)
        return Verdicts(correct.astype(np.float32), correct, moves)

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns a right response, or a walk, in the form that the prompt asks for.

        Raises ValueError unless ``kind`` is one of ``demonstrations``.
        """
        check_choice('kind', kind, self.demonstrations)
        maze = rule.parse_maze(problem.data['maze'])
        moves = maze_paths.DEMONSTRATIONS[kind](maze, rng)
        return self.prompts[self.params.prompt][1].format(moves=moves)

    def check_answerable(self, max_response_tokens: int) -> None:
        """Checks that a bare answer, one token per move, and the stop token fit.

        Without ``max_path`` the longest answer is unknown; then the shortest path that
        the largest Wilson maze can have must fit. Raises ValueError if they do not fit.
        """
        if self.params.prompt != 'bare':
            return
        longest = self.params.max_path
        if not longest and self.params.generator == 'wilson':
            sizes = self.params.get_by_split('sizes').values()
            longest = 2 * (max((s for split in sizes for s in split), default=3) - 3)
        if longest + 1 > max_response_tokens:
            raise InputError(
                f'{max_response_tokens=} is too small for answers of {longest} moves '
                f'and a stop token'
            )

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes ``canonical_form`` of the maze, so symmetric mazes have one hash."""
        return records.content_hash(rule.canonical_form(problem.data['maze']))

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a maze from text; its prompt is bare, because verdicts ignore it.

        Raises ValueError for a record or a malformed maze.
        """
        if not isinstance(record, str):
            raise InputError('give a maze as text, not as a record')
        rule.parse_maze(record)
        return _problem(record.strip(), id=0, prompt=PROMPTS['bare'][0])

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        return rule.verdict(problem.data['maze'], response)

    # The paper's released verifier is the rule.
    official_verdict = verdict


def _problem(maze: str, *, id: int, prompt: str) -> Problem:
    rows = maze.split('\n')
    return Problem(
        id=id,
        prompt=prompt.format(maze=maze),
        data={'maze': maze},
        category=f'{len(rows)}x{len(rows[0])}',
    )
