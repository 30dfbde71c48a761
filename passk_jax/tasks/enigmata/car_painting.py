"""Car painting: an order of cars with the fewest switches of colour.

Any optimal order is right; the optimum is exact. Enigmata's stored optimum comes from a
heuristic. So the strict rule rejects some stored answers, and the official rule rejects
every better order.
"""

import itertools
import re
from collections.abc import Sequence

from passk_jax.tasks.enigmata.puzzle import Puzzle, read_int
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_list

_LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
# For each level, minimum and maximum of cars, colours and places that a car moves.
_CARS = ((8, 15), (15, 25), (25, 40))
_COLOURS = ((2, 4), (3, 6), (5, 9))
_REACH = ((2, 4), (3, 5), (2, 4))
# The optimum of a record takes milliseconds up to these.
_MOST_CARS, _MOST_REACH = 64, 6
_LIST = re.compile(r'\[([0-9\s,]+)\]')


class CarPainting(Puzzle):
    """Car painting.

    Data: ``colours``, one letter per car; ``reach``, how far a car may move;
    ``switches``, the optimum; ``stored_switches``, which the official verifier expects.

    Any order with the fewest switches is right. The strict rule also reads the
    spellings of ``spellings.integers``: without brackets, without commas, joined by
    arrows or dashes.
    """

    name = 'car_painting'
    category = 'Sequential'
    rules = (
        'Cars stand in line, numbered from 1, and each is to be painted in its colour. '
        'Find an order of the cars in which as few neighbours as possible differ in '
        'colour. No car may move more places from its own, forward or backward, than '
        'the puzzle says. If there are several such orders, any of them is right.\n'
        'Answer: the numbers of the cars in their new order as a list, for example '
        '[2, 1, 3, 4].'
    )

    def generate(self, draws, level):
        count = draws.between(*_CARS[level])
        letters = _LETTERS[: draws.between(*_COLOURS[level])]
        # The first colour is the most frequent one.
        weighted = letters + letters[0] * draws.below(len(letters) + 1)
        colours = ''.join(draws.choice(weighted) for _ in range(count))
        reach = draws.between(*_REACH[level])
        return _data(colours, reach)

    def question(self, data):
        colours = ' '.join(data['colours'])
        return f'Colours: {colours}\nMost places a car may move: {data["reach"]}'

    def usual(self, data, answer):
        return spellings.integers(answer, joined=True)

    def check(self, data, answer):
        switches = _switches_of(data, integer_list(answer))
        if switches > data['switches']:
            raise Wrong(f'{switches} switches, not {data["switches"]}')

    def check_official(self, data, answer):
        """Checks that the answer's first list has the stored number of switches."""
        match = _LIST.search(answer)
        if not match:
            raise Wrong('no list in brackets')
        # The verifier skips empty items.
        items = [item.strip() for item in match[1].split(',')]
        order = integer_list('[' + ','.join(item for item in items if item) + ']')
        switches = _switches_of(data, order)
        if switches != data['stored_switches']:
            raise Wrong(f'{switches} switches, not {data["stored_switches"]}')

    def read(self, record):
        meta = record['meta']
        colours, reach = meta['colors'], read_int(meta['K'])
        if any(len(letter) != 1 or letter not in _LETTERS for letter in colours):
            raise ValueError('a colour is not a letter')
        if meta['car_ids'] != list(range(1, len(colours) + 1)):
            raise ValueError('the cars are not numbered in order')
        if not (0 < len(colours) <= _MOST_CARS and 0 <= reach <= _MOST_REACH):
            raise ValueError('no cars, too many, or they move too far')
        return _data(''.join(colours), reach) | {
            'stored_switches': read_int(meta['min_switches']),
            'answer': str([read_int(car) for car in meta['solution']]),
        }


def best_order(colours: Sequence[str], reach: int) -> list[int]:
    """Finds an order of the cars, from 0, with the fewest switches of colour.

    Dynamic programming over the set of painted cars. Cars of one colour keep their
    order, since restoring it moves no car further. Of the orders of the same cars, only
    those with the fewest switches matter, since one more switch reaches any last
    colour. An order is a linked list of a car and the order before it.
    """
    count = len(colours)
    # Set of painted cars -> switches, and an order for each last colour.
    layer: dict[int, tuple[int, dict[str, tuple]]] = {0: (0, {'': ()})}
    for place in range(count):
        ahead: dict[int, tuple[int, dict[str, tuple]]] = {}
        for painted, (switches, orders) in layer.items():
            cheapest = next(iter(orders.values()))
            for car in _next_cars(colours, painted, place, reach):
                colour = colours[car]
                same = colour in orders or not place
                order = (car, orders.get(colour, cheapest))
                cost = switches + (not same)
                best = ahead.get(painted | 1 << car)
                if best is None or cost < best[0]:
                    ahead[painted | 1 << car] = (cost, {colour: order})
                elif cost == best[0]:
                    best[1].setdefault(colour, order)
        layer = ahead
    ((_, orders),) = layer.values()
    order, linked = [], next(iter(orders.values()))
    while linked:
        car, linked = linked
        order.append(car)
    return order[::-1]


def _next_cars(
    colours: Sequence[str], painted: int, place: int, reach: int
) -> list[int]:
    """Returns the first car of each colour that may be painted at a place."""
    late = place - reach
    if late >= 0 and not painted >> late & 1:
        # The car may not move any further back.
        return [late]
    cars: dict[str, int] = {}
    for car in range(max(late, 0), min(place + reach + 1, len(colours))):
        if not painted >> car & 1:
            cars.setdefault(colours[car], car)
    return list(cars.values())


def switches_of(colours: Sequence[str], order: Sequence[int]) -> int:
    """Counts the neighbours that differ in colour."""
    painted = [colours[car] for car in order]
    return sum(a != b for a, b in itertools.pairwise(painted))


def _switches_of(data, order: list[int]) -> int:
    """Counts the switches of an order of cars from 1; ``Wrong`` if it is no order."""
    if sorted(order) != list(range(1, len(data['colours']) + 1)):
        raise Wrong('not every car exactly once')
    for place, car in enumerate(order, start=1):
        if abs(place - car) > data['reach']:
            raise Wrong(f'car {car} moves more than {data["reach"]} places')
    return switches_of(data['colours'], [car - 1 for car in order])


def _data(colours: str, reach: int) -> dict:
    order = best_order(colours, reach)
    switches = switches_of(colours, order)
    return {
        'colours': colours,
        'reach': reach,
        'switches': switches,
        'stored_switches': switches,
        'answer': str([car + 1 for car in order]),
    }


CAR_PAINTING = CarPainting()
