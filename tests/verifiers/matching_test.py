import pytest

from passk_jax.verifiers.matching import (
    all_of,
    any_of,
    as_sets,
    match_in_any_order,
    match_in_order,
)


def compare(gold, answer):
    return None if '?' in (gold, answer) else gold == answer


@pytest.mark.parametrize(
    ('results', 'every', 'some'),
    [
        ([], True, False),
        ([True, True], True, True),
        ([True, None], None, True),
        ([False, None], False, None),
        ([True, False], False, True),
        ([False], False, False),
    ],
)
def test_three_answers_are_joined(results, every, some):
    assert all_of(results) is every
    assert any_of(results) is some


@pytest.mark.parametrize(
    ('golds', 'answers', 'order', 'any_order', 'sets'),
    [
        ('12', '12', True, True, True),
        ('12', '21', False, True, True),
        ('112', '12', False, False, True),
        ('112', '121', False, True, True),
        ('112', '122', False, False, True),
        ('12', '13', False, False, False),
        ('12', '1?', None, None, None),
        ('12', '3?', False, False, False),
        ('', '', True, True, True),
        ('', '1', False, False, False),
        ('1', '', False, False, False),
    ],
)
def test_items_are_compared(golds, answers, order, any_order, sets):
    assert match_in_order(golds, answers, compare) is order
    assert match_in_any_order(golds, answers, compare) is any_order
    assert as_sets(golds, answers, compare) is sets


def test_each_gold_wants_an_answer_of_its_own():
    """The first fits both, so that the order of trying must not matter."""
    fits = {('a', 'x'), ('a', 'y'), ('b', 'x')}
    assert match_in_any_order('ab', 'xy', lambda *pair: pair in fits)
    assert not match_in_any_order(
        'ab', 'xy', lambda *pair: pair in {('a', 'x'), ('b', 'x')}
    )


def test_many_items_are_compared_in_order_alone():
    many = [str(i) for i in range(200)]
    calls = []
    assert match_in_any_order(many, many, lambda *pair: not calls.append(pair))
    assert as_sets(many, many, compare)
    assert not match_in_any_order(many, many[::-1], compare)
    assert len(calls) == 200
