"""What a worker decides; slow expressions are for mathematics_test.py."""

import pytest

from passk_jax.verifiers import equality


@pytest.mark.parametrize(
    ('gold', 'answer', 'equal'),
    [
        (r'\sqrt{8}', r'2\sqrt{2}', True),
        (r'4\sqrt{15}-14', r'-14+4\sqrt{15}', True),
        ('x^2-1', '(x-1)(x+1)', True),
        ('1000', '1,000', True),
        ('5', '5 cm', True),
        ('90', r'90^\circ', True),
        ('204', 'x=204', True),
        ('204', '203+1', True),
        ('204', r'\{204\}', True),
        ('1/3', '0.333333', True),
        ('2x+1=y', '4x+2=2y', True),
        ('204', '203=204', False),
        ('(1,2)', r'\{1,2\}', False),
        (r'\{1,2\}', '(1,2)', False),
        ('1/3', '0.3333', False),
        ('(-1,1)', '-1<x<1', False),
        ('204', '1,204', False),
        ('204', r'204\text{ or }1', False),
        ('204', '204x', False),
        ('204', '204=1', False),
        # math-verify, for what no reader knows.
        (r'\int x dx', r'\int  x dx', True),
        (r'\mathbb{R}', r'(-\infty,\infty)', True),
        (r'(-\infty,2)\cup(2,\infty)', r'\mathbb{R}\setminus\{2\}', True),
        (r'\sum_{k=1}^{3} k', '6', True),
        (r'\sum_{k=1}^{3} k', '7', False),
        (r'\sum_{k=20}^{20} 10^{-k}', '10^{-21}', False),
    ],
)
def test_values_and_then_math_verify_decide(gold, answer, equal):
    assert equality.equal(gold, answer) is equal


@pytest.mark.parametrize(
    'answer',
    [
        r'\frac{',
        '',
        r'\text{',
        r'204\text{ and a half}',
        r'14\text{ or more}',
        '2 04',
        '20"4',
        "2'04",
    ],
)
def test_what_is_no_latex_raises(answer):
    with pytest.raises(equality.ParseError):
        equality.equal('204', answer)


def test_a_text_equals_itself_if_it_can_be_parsed():
    assert equality.equal(r'\mathbb{Z}', r'\mathbb{Z}')
    with pytest.raises(equality.ParseError):
        equality.equal(r'\frac{', r'\frac{')


@pytest.mark.parametrize(
    ('gold', 'answer'), [(r'\gcd(m,n)', '1'), (r'2^{\gcd(m,n)}-1', '1')]
)
def test_letters_may_have_a_common_divisor(gold, answer):
    with pytest.raises(equality.ParseError):
        equality.equal(gold, answer)
