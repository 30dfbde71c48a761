import doctest

import pytest

from passk_jax.verifiers import golds


def test_the_examples_of_the_docstrings_hold():
    result = doctest.testmod(golds)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ('text', 'gold'),
    [
        ('first\n#### 1\nno:\n#### 1,200 ', '1,200'),
        (r'\boxed{1} and then \boxed{2}', '2'),
        (r'\boxed{', r'\boxed{'),
        (' 3/4 ', '3/4'),
    ],
)
def test_the_last_mark_of_an_answer_counts(text, gold):
    assert golds.gold_of(text) == gold


def test_what_stands_for_no_gold_is_known():
    for text in ('proof', ' PROOF', '$notfound$', 'NaN', 'null', '', ' '):
        assert golds.is_sentinel(text)
    for text in ('0', 'none', r'\emptyset', 'no', 'prove'):
        assert not golds.is_sentinel(text)
