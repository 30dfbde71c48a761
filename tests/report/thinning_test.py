"""Of many rows there are few, whose numbers are means of all."""

import numpy as np
import pytest

from passk_jax.report.thinning import MEAN_OF, Thinned


def thinned(rows, most, **settings):
    result = Thinned(most, **settings)
    for row in rows:
        result.add(row)
    return result.rows()


@pytest.mark.parametrize('count', range(6))
def test_few_rows_are_themselves(count):
    rows = [{'step': step, 'split': 'train', 'x': step % 2} for step in range(count)]
    result = thinned(rows, 4)
    assert all(a is b for a, b in zip(rows, result, strict=True))


@pytest.mark.parametrize('count', [7, 8, 9, 100, 1001, 4096])
def test_means_of_many_rows_are_means_of_all(count):
    x = np.random.default_rng(0).random(count)
    rows = [{'step': step, 'x': value} for step, value in enumerate(x)]
    result = thinned(rows, 4)
    assert 3 < len(result) <= 6
    assert (result[0], result[-1]) == (rows[0], rows[-1])
    weights = [row.get(MEAN_OF, 1) for row in result]
    assert sum(weights) == count
    mean = np.average([row['x'] for row in result], weights=weights)
    assert mean == pytest.approx(x.mean())
    steps = [row['step'] for row in result]
    assert steps == sorted(steps)
    # All but the last before the end are of equally many.
    assert len({*weights[1:-2]}) == 1


def test_a_number_that_some_rows_lack_is_the_mean_of_those_that_have_it():
    rows = [{'step': s} | ({'x': float(s)} if s % 3 == 0 else {}) for s in range(34)]
    result = thinned(rows, 2)
    assert result[1]['x'] == pytest.approx(np.mean(range(3, result[1][MEAN_OF] + 1, 3)))


def test_what_is_no_number_is_that_of_the_last_row():
    rows = [{'step': s, 'stage': s // 8, 'split': f'{s}'} for s in range(18)]
    result = thinned(rows, 2)
    assert [(row['stage'], row['split']) for row in result] == [
        (0, '0'), (1, '8'), (2, '16'), (2, '17')
    ]  # fmt: skip
