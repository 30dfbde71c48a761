import itertools

import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.car_painting import CAR_PAINTING, best_order, switches_of
from tests.tasks.enigmata.judge import drawn, error_of

# The optimum is 1, but a heuristic stored 3.
_DATA = {
    'colours': 'ABAB',
    'reach': 1,
    'switches': 1,
    'stored_switches': 3,
    'answer': '[1, 3, 2, 4]',
}


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('[1, 3, 2, 4]', None, '1 switches, not 3'),
        ('[1, 2, 3, 4]', '3 switches, not 1', None),
        ('[3, 1, 2, 4]', *['car 3 moves more than 1 places'] * 2),
        ('[1, 3, 2]', *['not every car exactly once'] * 2),
        ('[1, 3, 3, 4]', *['not every car exactly once'] * 2),
        ('[0, 1, 2, 3]', *['not every car exactly once'] * 2),
        ('[]', 'not every car exactly once', 'no list in brackets'),
        ('cars [1, 2,, 3, 4] or [1]', 'no list in brackets', None),
        ('1, 3, 2, 4', None, 'no list in brackets'),
        (f'[{"9" * 5000}]', *['no comma after item 1'] * 2),
    ],
)
def test_any_optimal_order_is_right_and_nothing_else(answer, error, official):
    assert error_of(CAR_PAINTING, _DATA, answer) == error
    assert error_of(CAR_PAINTING, _DATA, answer, official=True) == official


def test_no_order_has_fewer_switches():
    for i in range(80):
        draws = Draws('cars', i)
        colours = ''.join(draws.choice('ABC') for _ in range(draws.between(1, 7)))
        reach = draws.between(0, 4)
        order = best_order(colours, reach)
        orders = [
            other
            for other in itertools.permutations(range(len(colours)))
            if all(abs(place - car) <= reach for place, car in enumerate(other))
        ]
        assert tuple(order) in orders
        fewest = min(switches_of(colours, other) for other in orders)
        assert switches_of(colours, order) == fewest, (colours, reach)


def test_a_record_has_its_exact_optimum_beside_the_stored_one():
    meta = {
        'colors': list('ABAB'),
        'K': 1,
        'car_ids': [1, 2, 3, 4],
        'min_switches': 3,
        'solution': [1, 2, 3, 4],
    }
    data = CAR_PAINTING.read({'meta': meta})
    assert data == _DATA | {'answer': '[1, 2, 3, 4]'}
    for change in (
        {'colors': ['A', 'B', 'A', 'AB']},
        {'colors': ['A', 'B', 'A', 'a']},
        {'car_ids': [1, 2, 4, 3]},
        {'car_ids': [], 'colors': []},
        {'car_ids': list(range(1, 66)), 'colors': ['A'] * 65},
        {'K': 7},
        {'K': -1},
        {'K': '1'},
    ):
        with pytest.raises(ValueError, match=r'.'):
            CAR_PAINTING.read({'meta': meta | change})


def test_levels_have_their_sizes():
    for level, (cars, colours, reach) in enumerate(
        (((8, 15), 4, (2, 4)), ((15, 25), 6, (3, 5)), ((25, 40), 9, (2, 4)))
    ):
        problems = drawn(CAR_PAINTING, level)
        lengths = [len(data['colours']) for data in problems]
        assert (min(lengths), max(lengths)) == cars
        assert max(len(set(data['colours'])) for data in problems) == colours
        assert {data['reach'] for data in problems} == set(
            range(reach[0], reach[1] + 1)
        )
        assert all(data['switches'] == data['stored_switches'] for data in problems)
