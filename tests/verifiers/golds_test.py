import pytest

from passk_jax.verifiers import golds


@pytest.mark.parametrize(
    ('text', 'gold'),
    [
        ('first\n#### 1\nno:\n#### 1,200 ', '1,200'),
        (r'\boxed{1} and then \boxed{2}', '2'),
        (r'\boxed{', r'\boxed{'),
        (' 3/4 ', '3/4'),
        ('$10$ minutes', r'10\text{ minutes}'),
        (r'\boxed{$5$ cm or $6$ cm}', r'5\text{ cm}\text{ or }6\text{ cm}'),
        ('$x=1$, $y=2$', 'x=1, y=2'),
        (r'\(5\) and \(-8\)', r'5\text{ and }-8'),
        ('$5 and $6', '$5 and $6'),
        ('$1,500-$2,000', '$1,500-$2,000'),
        (r'\$5 and \$6', r'\$5 and \$6'),
        (r'\begin{pmatrix}1\\[4pt]2\end{pmatrix}',) * 2,
    ],
)
def test_the_last_mark_of_an_answer_counts(text, gold):
    assert golds.gold_of(text) == gold


def test_what_stands_for_no_gold_is_known():
    for text in ('proof', ' PROOF', '$notfound$', 'NaN', 'null', '', ' '):
        assert golds.is_sentinel(text)
    for text in ('0', 'none', r'\emptyset', 'no', 'prove'):
        assert not golds.is_sentinel(text)


def test_a_dollar_precedes_an_amount_or_belongs_to_a_formula():
    for text in ('$5', '-$5 and $6', r'\$5', '5'):
        assert not golds.has_loose_dollar(text)
    for text in ('5$ cm', '5$6', '$x', '$5$'):
        assert golds.has_loose_dollar(text)
