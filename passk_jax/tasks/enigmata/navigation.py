"""Navigation: the shortest way in a tree of landmarks to the nearest one of a kind."""

import re
from collections.abc import Mapping

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong

KINDS = ('store', 'bank', 'house', 'cinema', 'garden', 'school')

_SIZES = (7, 10)
# For each level, minimum and maximum of landmarks on the way, its ends included.
_WAYS = ((2, 2), (3, 3), (4, 6))
_METRES = (100, 200)

_START = re.compile(r'The start point is ([a-z]+) ([A-Z])\.')
_ROAD = re.compile(
    r'There is a road which is ([0-9]{1,6}) meters long '
    r'from ([a-z]+) ([A-Z]) to ([a-z]+) ([A-Z])\.'
)
_TARGET = re.compile(r'how to reach the nearest ([a-z]+)\?')


class Navigation(Puzzle):
    """Navigation; data: ``start``, ``kinds``, ``roads`` and ``target``.

    ``kinds`` maps a landmark's letter to its kind; ``target`` is a kind. A road has its
    landmarks' letters, the upper one first, and its length in metres. A way to any of
    the nearest landmarks is right; generated problems have only one.

    The strict rule also reads the spellings of ``spellings.letters`` (arrows, commas,
    spaces, lower case) and the kind of a landmark before its letter.
    """

    name = 'natural_language_navigation'
    category = 'Graph'
    rules = (
        'Landmarks have a kind and a letter. Roads join them and can be walked in the '
        'direction that is given. Find the shortest way from the start point to the '
        'nearest landmark of the kind that the question asks for; its length is the '
        'sum of the lengths of its roads.\n'
        'Answer: the letters of the landmarks on the way, from the start point to the '
        'end, without anything between them, for example EFJ'
    )

    def generate(self, draws, level):
        low, high = _WAYS[level]
        while True:
            data = _random_tree(draws)
            nearest = _nearest(data)
            if len(nearest) == 1 and low <= len(nearest[0]) <= high:
                return data | {'answer': nearest[0]}

    def question(self, data):
        kinds = data['kinds']
        roads = ''.join(
            f' There is a road which is {metres} meters long from {kinds[a]} {a} to '
            f'{kinds[b]} {b}.'
            for a, b, metres in data['roads']
        )
        start = data['start']
        return (
            f'The start point is {kinds[start]} {start}.{roads}\n'
            f'Question: From the start point, how to reach the nearest '
            f'{data["target"]}?'
        )

    def usual(self, data, answer):
        """Reads also a landmark's kind before its letter, and "to" between letters."""
        kinds = '|'.join(map(re.escape, set(data['kinds'].values())))
        words = rf'\b(?:(?i:{kinds})(?=\s+[A-Z]\b)|to|then)\b'
        return spellings.letters(re.sub(words, '', answer))

    def check(self, data, answer):
        if answer not in _nearest(data):
            raise Wrong('not a way to a nearest landmark of that kind')

    def check_official(self, data, answer):
        """Compares with the stored answer."""
        if answer != data['answer']:
            raise Wrong('not the stored answer')

    def read(self, record):
        text = str(record['meta']['question'])
        start, target = _START.search(text), _TARGET.search(text)
        if not start or not target:
            raise ValueError('no start point or no question')
        kinds, roads = {start[2]: start[1]}, []
        for metres, kind_a, a, kind_b, b in _ROAD.findall(text):
            # In a tree, a road leads from a listed landmark to a new one.
            if kinds.get(a) != kind_a or b in kinds:
                raise ValueError(f'the road from {a} to {b} does not continue a tree')
            kinds[b] = kind_b
            roads.append([a, b, int(metres)])
        return {
            'start': start[2],
            'kinds': kinds,
            'roads': roads,
            'target': target[1],
            'answer': str(record['answer']),
        }


def _random_tree(draws: Draws) -> dict[str, object]:
    """Draws a tree with at most two roads down from each landmark, and a question."""
    letters = draws.sample('ABCDEFGHIJ', draws.between(*_SIZES))
    kinds = {letter: draws.choice(KINDS) for letter in letters}
    free = [letters[0]] * 2
    roads = []
    for letter in letters[1:]:
        upper = free.pop(draws.below(len(free)))
        roads.append([upper, letter, draws.choice(_METRES)])
        free += [letter] * 2
    start = letters[0]
    kinds_elsewhere = [kind for kind in KINDS if kind != kinds[start]]
    target = draws.choice(kinds_elsewhere)
    return {'start': start, 'kinds': kinds, 'roads': roads, 'target': target}


def _nearest(data: Data) -> list[str]:
    """Returns the ways from the start to the nearest landmarks of the kind."""
    ways: dict[str, tuple[int, str]] = {data['start']: (0, data['start'])}
    for a, b, metres in data['roads']:
        length, way = ways[a]
        ways[b] = (length + metres, way + b)
    kinds: Mapping[str, str] = data['kinds']
    targets = [ways[letter] for letter in ways if kinds[letter] == data['target']]
    return [way for length, way in targets if length == min(targets)[0]]


NAVIGATION = Navigation()
