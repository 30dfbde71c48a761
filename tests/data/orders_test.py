"""Rows by weights of parts, in epochs or by chance."""

import collections
import itertools

import numpy as np
import pytest

from passk_jax.data.orders import Order

PARTS = {
    'mazes': np.arange(0, 22),
    'sudoku': np.arange(22, 33),
    'sums': np.arange(33, 100),
}
WEIGHTS = {'mazes': 5, 'sudoku': 2, 'sums': 4}
TOTAL = sum(WEIGHTS.values())


def make_order(weights=WEIGHTS, parts=PARTS, **changes):
    options = {'num_prompts': 6, 'seed': (0, 2)} | changes
    return Order(parts, weights=weights, **options)


def part_of(row):
    return next(name for name, rows in PARTS.items() if row in rows)


def counts(rows):
    return collections.Counter(part_of(row) for row in rows)


CHANCES = np.where(np.arange(100) % 2, 3.0, 1.0)


@pytest.mark.parametrize('chances', [None, CHANCES], ids=['epochs', 'chances'])
@pytest.mark.parametrize('num_prompts', [1, 6, 10])
def test_weights_are_honoured_exactly(num_prompts, chances):
    order = make_order(num_prompts=num_prompts)
    steps = [order.rows(step, chances) for step in range(3 * TOTAL)]
    assert {len(rows) for rows in steps} == {num_prompts}
    drawn = counts(np.concatenate(steps).tolist())
    assert drawn == {name: 3 * num_prompts * w for name, w in WEIGHTS.items()}
    # No part is ever ahead or behind by a whole problem.
    totals = collections.Counter()
    for number, rows in enumerate(steps, start=1):
        totals += counts(rows.tolist())
        for name, weight in WEIGHTS.items():
            ideal = number * num_prompts * weight / TOTAL
            assert abs(totals[name] - ideal) < 1, (number, name)


@pytest.mark.parametrize('chances', [None, CHANCES], ids=['epochs', 'chances'])
def test_a_step_is_a_pure_function_and_has_no_row_twice(chances):
    forward = [make_order().rows(step, chances).tolist() for step in range(60)]
    order = make_order()
    backward = [order.rows(step, chances).tolist() for step in reversed(range(60))]
    assert forward == backward[::-1]
    assert all(len(set(rows)) == 6 for rows in forward)
    other = make_order(seed=(1, 2))
    assert not any(other.rows(s, chances).tolist() == forward[s] for s in range(60))


def test_each_part_goes_through_epochs_of_its_own():
    order = make_order()
    seen = [order.rows(step).tolist() for step in range(200)]
    for name, rows in PARTS.items():
        steps = [[row for row in step if part_of(row) == name] for step in seen]
        epochs, epoch = [], []
        for step in steps:
            # A step that the rest of the epoch does not suffice for begins a new one.
            if len(epoch) + len(step) > len(rows):
                epochs.append(epoch)
                epoch = []
            epoch = epoch + step
        assert len(epochs) > 5
        assert all(len(set(epoch)) == len(epoch) > len(rows) - 4 for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) == len(epochs)


def test_the_places_of_a_part_in_a_batch_are_random():
    """A mini-batch strides over a batch and must not be of one part."""
    order = make_order(weights={'mazes': 1, 'sums': 1})
    firsts = [part_of(order.rows(step)[0]) for step in range(40)]
    assert 8 < firsts.count('mazes') < 32


def test_the_orders_of_a_part_do_not_depend_on_what_other_parts_hold():
    alone, beside = (
        [row for step in range(30) for row in order.rows(step) if row < 22]
        for order in (
            make_order(),
            make_order(parts=PARTS | {'sums': np.arange(33, 60)}),
        )
    )
    assert alone == beside


@pytest.mark.parametrize('chances', [None, CHANCES], ids=['epochs', 'chances'])
def test_the_others_are_all_but_the_steps_own_by_weight(chances):
    order = make_order()
    for step in range(4):
        step_rows = order.rows(step, chances).tolist()
        remaining = list(order.draw_others(step, seed=(0, 6), chances=chances))
        assert sorted([*step_rows, *remaining]) == list(range(100))
        # As long as each part has some left.
        first = counts(remaining[:TOTAL])
        assert all(abs(first[name] - weight) <= 3 for name, weight in WEIGHTS.items())
        again = list(make_order().draw_others(step, seed=(0, 6), chances=chances))
        assert again == remaining
        other = list(order.draw_others(step, seed=(1, 6), chances=chances))
        assert other != remaining


def test_chances_are_those_of_draws_without_replacement():
    chances = np.array([1.0, 2.0, 3.0, 6.0])
    order = make_order(
        weights={'': 1}, parts={'': np.arange(4)}, num_prompts=2, seed=(4,)
    )
    draws = [frozenset(order.rows(s, chances).tolist()) for s in range(12_000)]
    counts = collections.Counter(draws)
    share = chances / chances.sum()
    for i, j in itertools.combinations(range(4), 2):
        # i and then j, or j and then i.
        p = share[i] * share[j] * (1 / (1 - share[i]) + 1 / (1 - share[j]))
        error = (p * (1 - p) / len(draws)) ** 0.5
        assert abs(counts[frozenset((i, j))] / len(draws) - p) < 4 * error


def test_a_part_that_is_too_small_for_a_batch_is_refused():
    small = PARTS | {'sudoku': np.arange(22, 23)}
    message = "part 'sudoku' has 1 problems, but with the weights .* takes up to 2 of"
    with pytest.raises(ValueError, match=message):
        make_order(parts=small)
    make_order(parts=small, num_prompts=1)
    with pytest.raises(ValueError, match="part 'sudoku' has 0 problems"):
        make_order(parts=PARTS | {'sudoku': np.array([], int)})
