"""That verdicts on arrays are the host's, for every puzzle."""

import random

import numpy as np
import pytest

from passk_jax.tasks.enigmata.on_arrays.batch import verify
from passk_jax.tasks.enigmata.on_arrays.table import RULES
from passk_jax.tasks.enigmata.table import PUZZLES
from tests.tasks.enigmata.on_arrays import responses


def _agree(name, *, levels, num_problems, num_responses):
    puzzle, rng = PUZZLES[name], random.Random(name)
    items = responses.problems(puzzle, levels, num_problems)
    pairs = [
        (data, responses.response(puzzle, data, items, rng))
        for data in items
        for _ in range(num_responses)
    ]
    correct, parsed = verify(puzzle, RULES[name], *zip(*pairs, strict=True))
    host = [puzzle.verdict(*pair, official=False) for pair in pairs]
    differ = np.flatnonzero(correct != [verdict.correct for verdict in host])
    assert not differ.size, (pairs[differ[0]], host[differ[0]])
    assert parsed == [verdict.parsed for verdict in host]
    return int(correct.sum()), len(pairs)


def test_every_puzzle_whose_answer_is_an_array_has_a_rule():
    without_rule = {
        *('game24', 'countdown', 'natural_language_navigation', 'zebra_logic'),
        *('knights_and_knaves', 'crypto_KKA', 'crypto_KPA'),
    }
    assert PUZZLES.keys() - RULES.keys() == without_rule
    assert RULES.keys() <= PUZZLES.keys()


@pytest.mark.parametrize('name', RULES)
def test_verdicts_are_the_hosts(name):
    right, count = _agree(name, levels=(0,), num_problems=8, num_responses=8)
    assert 4 < right < count - 4


@pytest.mark.slow
@pytest.mark.parametrize('name', RULES)
def test_ten_thousand_verdicts_are_the_hosts(name):
    right, count = _agree(name, levels=(0, 1, 2), num_problems=250, num_responses=40)
    print(f'{name}: {right} of {count} right')
    assert 1000 < right < count - 1000
