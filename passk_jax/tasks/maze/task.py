r"""The maze task: find a path from S to E; the answer is a string over U, D, L, R.

The paper's mazes (appendix, Implementation Details) are not public, nor is the code
that made them: these are generated here, with walls ``*`` as its released verifier has
them. The wording of the prompt is ours too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks.maze import dataset, rule, rule_on_arrays
from passk_jax.tasks.maze import demonstrations as maze_paths
from passk_jax.tasks.maze import generator as maze_generator
from passk_jax.types import Problem, Verdict, Verdicts

_INSTRUCTIONS = r"""Find a path through this maze:

{maze}

Each line is a row of the maze and each character a cell: `*` is a wall, `.` is free, `S` is the start and `E` is the end. A move goes from a cell to the next one: `U` up, `D` down, `L` left, `R` right. The path begins at `S`, ends at `E`, and must neither enter a wall nor leave the maze; it need not be the shortest.

Reason step by step, and put your final answer, the moves as one string of the letters U, D, L and R, within \boxed{{}}."""  # noqa: E501

# How a maze is put to the policy -> (prompt, form of a demonstrated answer).
PROMPTS = {
    'bare': ('{maze}\n', '{moves}'),
    'instruct': (_INSTRUCTIONS, r'\boxed{{{moves}}}'),
}


@dataclasses.dataclass(frozen=True)
class MazeParams:
    """What decides the problems.

    Attributes:
        generator: ``'wilson'`` (uniform perfect mazes of odd side, S and E in opposite
            corners) or ``'percolation'`` (cells are walls at random, S and E anywhere).
        wall_probability: of each cell, for percolation; Wilson does not read it.
        min_path: shortest length, in moves, of the shortest path from S to E.
        max_path: longest length of it; 0: any.
        train_sizes, validation_sizes, test_sizes: sides of the split's mazes.
        train_counts, validation_counts, test_counts: mazes of each of these sizes.
        seed: of the mazes.
        prompt: ``'bare'`` (the maze and a line break) or ``'instruct'`` (English).
    """

    generator: str
    wall_probability: float
    min_path: int
    max_path: int
    train_sizes: tuple[int, ...]
    train_counts: tuple[int, ...]
    validation_sizes: tuple[int, ...]
    validation_counts: tuple[int, ...]
    test_sizes: tuple[int, ...]
    test_counts: tuple[int, ...]
    seed: int
    prompt: str

    def __post_init__(self):
        _check_choice('generator', self.generator, maze_generator.GENERATORS)
        _check_choice('prompt', self.prompt, tuple(PROMPTS))
        for name in ('min_path', 'max_path', 'seed'):
            _check_integer(name, getattr(self, name), minimum=0)
        probability = self.wall_probability
        if not isinstance(probability, (int, float)) or not 0 <= probability < 1:
            raise InputError(f'wall_probability={probability!r} is not in [0, 1)')
        if self.max_path and self.max_path < self.min_path:
            raise InputError(f'{self.max_path=} is less than {self.min_path=}')
        for split in maze_generator.SPLITS:
            self._check_split(split)
        if self.generator == 'wilson':
            self._check_enough_perfect_mazes()

    def by_split(self, field: str) -> dict[str, tuple[int, ...]]:
        """``'sizes'`` or ``'counts'`` of each split."""
        return {s: getattr(self, f'{s}_{field}') for s in maze_generator.SPLITS}

    def _check_split(self, split: str) -> None:
        sizes, counts = (getattr(self, f'{split}_{f}') for f in ('sizes', 'counts'))
        for field, values in (('sizes', sizes), ('counts', counts)):
            name = f'{split}_{field}'
            if not isinstance(values, tuple):
                raise InputError(f'{name}={values!r} is not a tuple of integers')
            for value in values:
                _check_integer(name, value, minimum=0)
        if len(sizes) != len(counts) or len(set(sizes)) != len(sizes):
            raise InputError(
                f'{split}_sizes={sizes} and {split}_counts={counts}: every size once, '
                f'and a count for each'
            )
        for size in sizes:
            if self.generator == 'wilson' and (size < 5 or size % 2 == 0):
                raise InputError(
                    f'{split}_sizes={sizes}: {size} is no side of a perfect maze, '
                    f'which is odd and at least 5'
                )
            if size < 2 or size * size <= self.min_path:
                raise InputError(
                    f'{split}_sizes={sizes}: {size} is too small for a path of '
                    f'{max(self.min_path, 1)} moves'
                )

    def _check_enough_perfect_mazes(self) -> None:
        wanted: dict[int, int] = {}
        for split in maze_generator.SPLITS:
            sizes, counts = (getattr(self, f'{split}_{f}') for f in ('sizes', 'counts'))
            for size, count in zip(sizes, counts, strict=True):
                wanted[size] = wanted.get(size, 0) + count
        for size, count in wanted.items():
            if count > (there_are := maze_generator.num_perfect_mazes(size)):
                raise InputError(
                    f'{count} perfect mazes of size {size} are asked for in all '
                    f'splits together, and there are {there_are:.0f}'
                )


@dataclasses.dataclass(frozen=True)
class MazeProblems(Sequence[Problem]):
    """The problems of a split; a problem's id is its place.

    Attributes:
        mazes: texts, rows separated by newlines.
        prompt: a name of ``PROMPTS``.
    """

    mazes: Sequence[str]
    prompt: str

    def __len__(self) -> int:
        return len(self.mazes)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        maze = self.mazes[index]
        return _problem(maze, id=int(index) % len(self), prompt=self.prompt)


@dataclasses.dataclass(frozen=True)
class MazeTask:
    """See :class:`passk_jax.tasks.Task`."""

    params: MazeParams

    name = 'maze'
    splits = ('train', 'validation', 'test')
    demonstrations = tuple(maze_paths.DEMONSTRATIONS)

    @classmethod
    def create(cls, params: Mapping[str, Any]) -> 'MazeTask':
        """The task with these fields of :class:`MazeParams`; lists count as tuples."""
        names = [field.name for field in dataclasses.fields(MazeParams)]
        if unknown := sorted(params.keys() - set(names)):
            raise InputError(f'maze has no parameter {unknown[0]!r}, but {names}')
        if missing := [name for name in names if name not in params]:
            raise InputError(f'maze needs the parameters {missing}')
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in params.items()}
        return cls(MazeParams(**values))

    @property
    def alphabet(self) -> str:
        """Symbols and moves first, then whatever else prompt and answer hold."""
        first = rule.SYMBOLS + '\n' + rule.MOVES
        prompt, answer = PROMPTS[self.params.prompt]
        rest = set(prompt.format(maze='') + answer.format(moves='')) - set(first)
        return first + ''.join(sorted(rest))

    def source(self, split: str, *, data_dir: str) -> MazeProblems:
        """The problems of a split, generated and written to disk at the first call.

        Args:
            split: one of ``splits``.
            data_dir: where data sets live; ``''``: ``~/.cache/passk_jax``.

        Raises:
            ValueError: an unknown or empty split; mazes that cannot be generated; a
                directory that cannot be used.
        """
        _check_choice('split', split, self.splits)
        counts = self.params.by_split('counts')
        if not sum(counts[split]):
            raise InputError(
                f'split {split!r} of the maze task is empty: '
                f'{split}_counts={counts[split]}'
            )
        config = dataset.MazeConfig.create(
            generator=self.params.generator,
            wall_probability=self.params.wall_probability,
            min_path=self.params.min_path,
            max_path=self.params.max_path,
            sizes=self.params.by_split('sizes'),
            counts=counts,
            seed=self.params.seed,
        )
        mazes = dataset.open_split(config, split, data_dir=data_dir)
        return MazeProblems(mazes, self.params.prompt)

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Verdicts of N responses to each of P problems, all at once.

        Raises:
            ValueError: problems without the same number of responses each.
        """
        moves = [[rule.parse_moves(r) for r in row] for row in responses]
        correct = rule_on_arrays.verify([p.data['maze'] for p in problems], moves)
        return Verdicts(correct.astype(np.float32), correct, moves)

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """An answer in the form the prompt asks for.

        Args:
            problem: of this task.
            kind: one of ``demonstrations``.
            rng: consumed.

        Raises:
            ValueError: an unknown kind.
        """
        _check_choice('kind', kind, self.demonstrations)
        maze = rule.parse_maze(problem.data['maze'])
        moves = maze_paths.DEMONSTRATIONS[kind](maze, rng)
        return PROMPTS[self.params.prompt][1].format(moves=moves)

    def check_answerable(self, max_response_tokens: int) -> None:
        """Checks that bare answers, a token a move, and the stop token have room.

        Without ``max_path`` the longest answer is not known: the shortest possible one
        of the largest maze must fit.

        Raises:
            ValueError: they have not.
        """
        if self.params.prompt != 'bare':
            return
        longest = self.params.max_path
        if not longest and self.params.generator == 'wilson':
            sizes = self.params.by_split('sizes').values()
            longest = 2 * (max((s for split in sizes for s in split), default=3) - 3)
        if longest + 1 > max_response_tokens:
            raise InputError(
                f'{max_response_tokens=} is too little for answers of {longest} moves '
                f'and a stop token'
            )

    @staticmethod
    def parse_problem(text: str) -> Problem:
        """A maze given as text; its prompt is the bare one, as only a verdict needs it.

        Raises:
            ValueError: a malformed maze.
        """
        rule.parse_maze(text)
        return _problem(text.strip(), id=0, prompt='bare')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """The verdict on one response, with the reason if it is not correct."""
        return rule.verdict(problem.data['maze'], response)


def _problem(maze: str, *, id: int, prompt: str) -> Problem:
    rows = maze.split('\n')
    return Problem(
        id=id,
        prompt=PROMPTS[prompt][0].format(maze=maze),
        data={'maze': maze},
        category=f'{len(rows)}x{len(rows[0])}',
    )


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f'{name} {value!r} is none of {list(choices)}')


def _check_integer(name: str, value: Any, *, minimum: int) -> None:
    # bool is a kind of int, and True mazes are not one maze.
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(f'{name}: {value!r} is no integer of at least {minimum}')
