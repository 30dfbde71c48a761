"""Times of day, with and without minutes and halves."""

import pytest

from passk_jax.verifiers.clock import clock_rule, read_clock
from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.forms import Clock
from passk_jax.verifiers.reading import read


@pytest.mark.parametrize(
    ('text', 'clock'),
    [
        ('12:30', Clock((12, 30), '')),
        (r'4:51:06\text{ p.m.}', Clock((4, 51, 6), 'p')),
        ('10 a.m.', Clock((10, 0), 'a')),
        (r'\text{10 am}', Clock((10, 0), 'a')),
        (r'10\text{ PM}', Clock((10, 0), 'p')),
        ('10 AM', Clock((10, 0), 'a')),
        # A product, a ratio, a number, and hours that no clock shows.
        *((text, None) for text in ('10am', '10 am', '1:60', '25:00', '10', '13 AM')),
    ],
)
def test_it_reads_a_time(text, clock):
    assert read_clock(text) == clock


@pytest.mark.parametrize(
    ('gold', 'answer', 'same'),
    [
        (Clock((10, 0), 'a'), Clock((10, 0), ''), True),
        (Clock((2, 0), 'p'), Clock((14, 0), ''), True),
        (Clock((14, 0), ''), Clock((2, 0), 'p'), True),
        (Clock((12, 0), 'a'), Clock((12, 0), 'p'), False),
        (Clock((14, 0), ''), Clock((2, 0), 'a'), False),
        (Clock((2, 30), 'p'), Clock((2, 0), 'p'), False),
        # It may be a ratio.
        (Clock((1, 30), ''), read(r'\frac1{30}'), True),
        (Clock((1, 30), 'a'), read(r'\frac1{30}'), False),
    ],
)
def test_it_compares_times(gold, answer, same):
    def compare(first, second):
        return equal(first, second, Exact())

    assert clock_rule(gold, answer, compare, Exact()) is same
