r"""The task visual counting: how many objects of a color does a picture show?

A picture is a grid of cells on black, drawn here by numpy. The color and the number to
count are uniform, so that the best guess without the picture is right once in
``max_count + 1`` times. Objects of other colors fill about half of the other cells.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.config.ranges import count, not_negative, one_of, section
from passk_jax.errors import InputError
from passk_jax.tasks.draws import Draws
from passk_jax.tasks.new_items import take_new
from passk_jax.tasks.task import (
    GENERATED,
    OURS,
    About,
    EmptySplitError,
    Task,
    check_choice,
)
from passk_jax.types import PICTURE, Problem, Verdict
from passk_jax.verifiers.extract import extract_boxed

COLORS: Mapping[str, tuple[int, int, int]] = {
    'red': (230, 40, 40),
    'green': (40, 190, 60),
    'blue': (50, 90, 235),
    'yellow': (235, 215, 40),
    'purple': (150, 60, 200),
    'white': (240, 240, 240),
}
SHAPES = ('square', 'ring', 'cross')
# In the order of generation, so that test problems depend on no other split.
_SPLITS = ('test', 'validation', 'train')
_PATIENCE = (1000, 20)
# An object may be darker, in quarters of its color.
_BRIGHTNESS = (3, 4)
_MAX_PARSED = 64

_ANSWER = r'Put the number within \boxed{}.'
# Style of the prompt -> (prompt, form of an answer).
PROMPTS = {
    'bare': (PICTURE + '{color}\n', '{number}'),
    'instruct': (
        PICTURE
        + '\nHow many {color} objects does the picture show? '
        + _ANSWER.replace('{}', '{{}}'),
        r'\boxed{{{number}}}',
    ),
}


@section
class VisualCountingParams:
    """The pictures to draw, and the prompt.

    Attributes:
        grid_size: cells of a side of a picture.
        cell_pixels: side of a cell in pixels.
        num_colors: how many colors the objects have.
        max_count: the largest right answer.
        train_count, validation_count, test_count: number of problems.
        seed: decides which pictures are drawn.
        prompt: ``'bare'`` (the picture and a color) or ``'instruct'`` (English).
    """

    grid_size: int = count(1, 64)
    cell_pixels: int = count(3, 256)
    num_colors: int = count(2, len(COLORS))
    max_count: int = count(1, 9)
    train_count: int = count(0)
    validation_count: int = count(0)
    test_count: int = count(0)
    seed: int = not_negative()
    prompt: str = one_of(*PROMPTS)

    def __post_init__(self):
        if (cells := self.grid_size**2) < self.max_count:
            raise InputError(
                f'max_count={self.max_count} objects do not fit in the {cells} cells '
                f'of grid_size={self.grid_size}'
            )


class VisualCountingTask(Task):
    """Visual counting as a :class:`passk_jax.tasks.task.Task`.

    ``Problem.data`` has ``color`` and ``count``; categories are the right answers.
    """

    name = 'visual_counting'
    splits = ('train', 'validation', 'test')
    Params = VisualCountingParams
    instructions = (_ANSWER,)
    demonstrations = ('count',)
    about = About(
        summary='pictures of objects: count those of a color',
        size='any number',
        licence=OURS,
        source=GENERATED,
        example={
            'grid_size': 6,
            'cell_pixels': 48,
            'num_colors': 4,
            'max_count': 9,
            'train_count': 10,
            'validation_count': 0,
            'test_count': 10,
            'seed': 0,
            'prompt': 'instruct',
        },
        benchmark={'train_count': 0, 'test_count': 500},
    )

    @property
    def alphabet(self) -> str:
        """Returns the digits, then other characters of prompts and answers."""
        digits = '0123456789'
        prompt, answer = PROMPTS[self.params.prompt]
        texts = prompt.format(color=''.join(COLORS)) + answer.format(number='')
        texts = texts.replace(PICTURE, '')
        return digits + ''.join(sorted(set(texts) - set(digits)))

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Draws the problems of a split.

        Raises ValueError if the split is unknown or empty, or if there are not enough
        different pictures.
        """
        del data_dir  # There are no files.
        check_choice('split', split, self.splits)
        if not (problems := _draw_splits(self.params)[split]):
            empty = f'{split}_count=0'
            raise EmptySplitError(f'split {split!r} of the task is empty: {empty}')
        return [*problems]

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns the right answer in the form that the prompt asks for."""
        del rng
        check_choice('kind', kind, self.demonstrations)
        return PROMPTS[self.params.prompt][1].format(number=problem.data['count'])

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads ``{"color": COLOR, "count": NUMBER}``, as ``Problem.data`` is.

        Raises ValueError for anything else.
        """
        if not isinstance(record, Mapping) or record.keys() != {'color', 'count'}:
            raise InputError('give an object with the fields color and count')
        number, color = record['count'], record['color']
        if type(number) is not int or number < 0:
            raise InputError(f'count={number!r} must be a number of objects')
        if not isinstance(color, str):
            raise InputError(f'color={color!r} must be text')
        return _problem(0, color, number, (), prompt='bare')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response: its box, or all of it, must be the number in digits."""
        answer = extract_boxed(response).strip()
        parsed = answer[:_MAX_PARSED]
        if answer != parsed or not re.fullmatch('[0-9]+', parsed):
            return Verdict(False, parsed, 'no number alone in a box')
        if int(parsed) == problem.data['count']:
            return Verdict(True, parsed, None)
        return Verdict(False, parsed, f'{parsed}, not {problem.data["count"]}')


def _problem(
    number: int, color: str, gold: int, images: tuple[np.ndarray, ...], *, prompt: str
) -> Problem:
    text = PROMPTS[prompt][0].format(color=color)
    data = {'color': color, 'count': gold}
    return Problem(number, text, data, f'count_{gold}', images=images)


@functools.lru_cache(maxsize=4)
def _draw_splits(params: VisualCountingParams) -> dict[str, list[Problem]]:
    seen: set[tuple[str, bytes]] = set()
    splits = {}
    for index, split in enumerate(_SPLITS):
        items = take_new(
            _stream(params, Draws(params.seed, index)),
            count=getattr(params, f'{split}_count'),
            seen=seen,
            key=lambda item: (item[0], item[2].tobytes()),
            patience=_PATIENCE,
            description=f'pictures of split {split!r} that no other has',
        )
        splits[split] = [
            _problem(i, color, gold, (picture,), prompt=params.prompt)
            for i, (color, gold, picture) in enumerate(items)
        ]
    return splits


def _stream(
    params: VisualCountingParams, draws: Draws
) -> Iterator[tuple[str, int, np.ndarray]]:
    """Draws a color, a number and a picture that shows so many objects of it."""
    names = [*COLORS][: params.num_colors]
    cells = params.grid_size**2
    while True:
        color, gold = draws.choice(names), draws.between(0, params.max_count)
        places = draws.permutation(cells)
        other_names = [name for name in names if name != color]
        objects = dict.fromkeys(places[:gold], color)
        objects |= {
            place: draws.choice(other_names)
            for place in places[gold:]
            if draws.chance(1, 2)
        }
        yield color, gold, _draw(params, objects, draws)


def _draw(
    params: VisualCountingParams, objects: Mapping[int, str], draws: Draws
) -> np.ndarray:
    """Draws objects, each of a random shape and brightness, at their cells."""
    side, size = params.cell_pixels, params.grid_size
    picture = np.zeros((size, side, size, side, 3), np.uint8)
    for place, color in objects.items():
        row, column = divmod(place, size)
        values = np.array(COLORS[color]) * draws.between(*_BRIGHTNESS) // 4
        mask = _masks(side)[draws.below(len(SHAPES))]
        picture[row, :, column][mask] = values
    return picture.reshape(size * side, size * side, 3)


@functools.lru_cache(maxsize=16)
def _masks(side: int) -> Sequence[np.ndarray]:
    """Returns the pixels of each shape in a cell, which has a margin on one side."""
    # Twice the distances from the center of the object.
    apart = np.abs(2 * np.arange(side) - (side - 2))
    rows, columns = np.meshgrid(apart, apart, indexing='ij')
    square = np.maximum(rows, columns) < side
    ring = square & (np.maximum(rows, columns) > side // 3)
    cross = square & (np.minimum(rows, columns) <= max(1, side // 3))
    return square, ring, cross
