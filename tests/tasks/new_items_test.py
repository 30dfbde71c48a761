import itertools

import pytest

from passk_jax.tasks.new_items import take_new


def _take(stream, count, *, seen=None, patience=(5, 2), key=abs):
    seen = set() if seen is None else seen
    return take_new(
        iter(stream),
        count=count,
        seen=seen,
        key=key,
        patience=patience,
        description='numbers',
    )


def test_the_first_new_items_are_taken_and_remembered():
    seen = {3}
    assert _take([1, 3, None, -1, 2, 4], 2, seen=seen) == [1, 2]
    assert seen == {1, 2, 3}


def test_no_item_is_drawn_beyond_the_last_that_is_wanted():
    stream = iter([1, 2, 3])
    assert _take(stream, 2) == [1, 2]
    assert next(stream) == 3
    assert _take(stream, 0) == []


@pytest.mark.parametrize(('new', 'fruitless'), [(1, 5), (2, 5), (3, 6), (10, 20)])
def test_a_stream_ends_after_draws_in_proportion_to_what_was_found(new, fruitless):
    stream = itertools.chain(range(1, new + 1), itertools.repeat(1))
    message = f'wanted 99 numbers, but only {new} found; the last {fruitless} draws'
    with pytest.raises(ValueError, match=message):
        _take(stream, 99)


def test_a_new_item_and_only_that_renews_the_patience():
    assert _take([1, 1, 1, 1, 1, 2, 2, None, 2, 2, 3], 3) == [1, 2, 3]
    with pytest.raises(ValueError, match='only 1 found'):
        _take([1, *[None] * 5, 2], 2)
