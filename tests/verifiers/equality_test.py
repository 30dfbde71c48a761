"""What math-verify accepts here; slow expressions are for judge_test.py."""

import pytest

from passk_jax.verifiers import equality


@pytest.mark.parametrize(
    ('gold', 'answer', 'equal'),
    [
        (r'\sqrt{8}', r'2\sqrt{2}', True),
        (r'4\sqrt{15}-14', r'-14+4\sqrt{15}', True),
        ('x^2-1', '(x-1)(x+1)', True),
        ('1000', '1,000', True),
        # What docstrings call lenient.
        ('5', '5 cm', True),
        ('5', r'5\text{ cm}', True),
        ('90', r'90^\circ', True),
        ('204', r'\$204', True),
        ('204', 'x=204', True),
        ('204', '203=204', True),
        ('204', '203+1', True),
        ('204', r'\{204\}', True),
        ('204', '[204]', True),
        ('1/3', '0.333333', True),
        ('(1,2)', r'\{1,2\}', True),
        (r'\{1,2\}', '(1,2)', True),
        # And what is not.
        ('1/3', '0.3333', False),
        ('(-1,1)', '-1<x<1', False),
        ('204', '1,204', False),
        ('204', '204 or 1', False),
        ('204', '204x', False),
        ('204', '204=1', False),
        ('204', r'\text{204 and 205}', False),
    ],
)
def test_equality_is_that_of_math_verify(gold, answer, equal):
    assert equality.equal(gold, answer) is equal


@pytest.mark.parametrize('answer', [r'204\%', r'\frac{', '', r'\text{'])
def test_what_is_no_latex_raises(answer):
    with pytest.raises(equality.ParseError):
        equality.equal('204', answer)
