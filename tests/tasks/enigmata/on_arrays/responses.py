"""Responses of every kind to a puzzle, most of them nearly right."""

import random
import re

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.on_arrays.batch import verify
from passk_jax.tasks.enigmata.on_arrays.table import RULES
from passk_jax.tasks.enigmata.puzzle import Puzzle
from passk_jax.tasks.enigmata.table import PUZZLES

# Puzzle -> its array of clues, and the number that stands for no clue.
_CLUES = {
    'sudoku2': ('grid', 0),
    'sudoku': ('grid', 0),
    'binario': ('grid', -1),
    'slant': ('corners', -1),
    'magic_square': ('given', 0),
    'star_battle': ('blocked', 0),
}
_ITEM = re.compile(r'"[^"]*"|\([^)]*\)|[UDLR]|-?\w+|[.*]')
_NUMBER = re.compile(r'-?[0-9]+')
_OTHER_NUMBERS = (-1, 0, 1, 2, 3, 10, 999_999_999, -999_999_999, 1_000_000_000)


def problems(puzzle: Puzzle, levels, count: int) -> list[dict]:
    """Problems of some levels; every other one without its clues where it has some."""
    items = [puzzle.generate(Draws(i), levels[i % len(levels)]) for i in range(count)]
    name, nothing = _CLUES.get(puzzle.name, ('', 0))
    return [
        data | {name: [[nothing] * len(row) for row in data[name]]}
        if name and i // len(levels) % 2
        else data
        for i, data in enumerate(items)
    ]


def response(puzzle: Puzzle, data, other_items, rng: random.Random) -> str:
    """A response to a problem, from its solution or that of another problem."""
    kind = rng.choice(_KINDS)
    if kind in _RESPONSE_CHANGES:
        return kind(puzzle.response(data['answer']), rng)
    source = data if rng.random() < 0.9 else rng.choice(other_items)
    answer = kind(source['answer'], rng)
    while rng.random() < 0.2:
        answer = rng.choice(_ANSWERS)(answer, rng)
    return puzzle.response(answer)


def _same(answer, rng):
    return answer


def _one_changed(answer, rng):
    items = list(_ITEM.finditer(answer))
    if not items:
        return answer
    a, b = rng.choice(items), rng.choice(items)
    return answer[: a.start()] + b[0] + answer[a.end() :]


def _swapped(answer, rng):
    items = list(_ITEM.finditer(answer))
    if len(items) < 2:
        return answer
    a, b = sorted(rng.sample(items, 2), key=lambda item: item.start())
    middle = answer[a.end() : b.start()]
    return answer[: a.start()] + b[0] + middle + a[0] + answer[b.end() :]


def _number_changed(answer, rng):
    numbers = list(_NUMBER.finditer(answer))
    if not numbers:
        return answer
    n = rng.choice(numbers)
    other = rng.choice((int(n[0]) + 1, int(n[0]) - 1, rng.choice(_OTHER_NUMBERS)))
    return f'{answer[: n.start()]}{other}{answer[n.end() :]}'


def _items_changed(change):
    """Changes the list of items; what stood between the first two joins them."""

    def changed(answer, rng):
        items = list(_ITEM.finditer(answer))
        if len(items) < 2:
            return answer
        joint = answer[items[0].end() : items[1].start()]
        before, after = answer[: items[0].start()], answer[items[-1].end() :]
        return before + joint.join(change([i[0] for i in items], rng)) + after

    return changed


def _dropped(items, rng):
    i = rng.randrange(len(items))
    return items[:i] + items[i + 1 :]


def _repeated(items, rng):
    i = rng.randrange(len(items))
    return items[:i] + [items[i]] * rng.randint(1, 4) + items[i:]


def _inserted(items, rng):
    """Two of them several times: to and fro on a board, for example."""
    i = rng.randrange(len(items) + 1)
    return items[:i] + rng.choices(items, k=2) * rng.randint(1, 20) + items[i:]


def _lines_changed(change):
    def changed(answer, rng):
        return '\n'.join(change(answer.split('\n'), rng))

    return changed


def _shuffled(items, rng):
    return rng.sample(items, len(items))


def _reversed(items, rng):
    return items[::-1]


def _transposed(lines, rng):
    rows = [line.split() for line in lines]
    return [' '.join(row) for row in zip(*rows, strict=False)]


def _swapped_lines(lines, rng):
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return lines


def _loosely_written(answer, rng):
    return answer.replace(' ', rng.choice(('', '  ', '\t', '\u00a0'))) + ' '


def _foreign(answer, rng):
    i = rng.randrange(len(answer) + 1)
    sign = rng.choice(
        ('٣', '²', 'é', '🙂', '+', '-', '0', 'x', '\n', '\u2028', '"', ',')
    )
    return answer[:i] + sign + answer[i:]


def _claim(answer, rng):
    claims = (
        'No feasible move path exists.',
        'The output sequence is not a valid stack permutation.',
        'No valid sequence of moves exists.',
        'not exist the path from start to end.',
        '"NO"',
        'No valid solution exists for the given Hitori puzzle.',
        'No solution, unable to solve the given Light Up puzzle.',
        'Unable to determine any mine locations.',
    )
    return rng.choice(claims)


def _nothing(answer, rng):
    return rng.choice(('', '[]', '[[]]', '\n', '()', 'null', '0'))


def _truncated(text, rng):
    return text[: rng.randrange(len(text))]


def _long(text, rng):
    return rng.choice(('x' * 100_000 + '\n' + text, text * (100_000 // len(text))))


def _long_answer(answer, rng):
    return answer * (10_000 // max(len(answer), 1) + rng.randint(-1, 1))


_ANSWERS = (
    *(_one_changed, _one_changed, _swapped, _swapped, _number_changed, _number_changed),
    *map(_items_changed, (_dropped, _repeated, _inserted, _shuffled, _reversed)),
    *map(_lines_changed, (_swapped_lines, _shuffled, _reversed, _transposed)),
    *(_loosely_written, _foreign),
)
_RARE = (_claim, _nothing, _long_answer)
_RESPONSE_CHANGES = (_truncated, _long)
_KINDS = (*(_same,) * 4, *_ANSWERS * 2, *_RARE, *_RESPONSE_CHANGES)


def judged(name: str, data, *answers: str) -> list[bool]:
    """The verdicts on answers to one problem, by the host and, equal, on arrays."""
    puzzle = PUZZLES[name]
    texts = [puzzle.response(answer) for answer in answers]
    correct, _ = verify(puzzle, RULES[name], [data] * len(texts), texts)
    host = [puzzle.verdict(data, text, official=False).correct for text in texts]
    assert correct.tolist() == host
    return host
