"""Lists, tuples, sets, unions and matrices, by exact arithmetic alone."""

import pytest

from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.reading import read

MATRIX = r'\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}'


@pytest.mark.parametrize(
    ('gold', 'answer', 'result'),
    [
        ('(1,2)', '(1.0,2)', True),
        ('(1,2)', '(2,1)', False),
        ('(1,2)', '1,2', True),
        ('(1,2)', '2,1', False),
        ('(1,2)', '[1,2]', False),
        ('[1,2]', '1,2', False),
        ('(1,2)', r'\{1,2\}', False),
        ('(3,4)', 'x=3, y=4', True),
        ('(3,4)', 'y=4, x=3', True),
        ('(3,4)', 'y=3, x=4', False),
        ('(3,4)', '(y=4, x=3)', True),
        ('(3,4)', '(y=3, x=4)', False),
        ('(3,4)', r'\{y=4, x=3\}', True),
        ('[1,2]', r'1\le x\le2', True),
        ('(1,2)', '1<x<2', False),
        (r'(1,\infty)', 'x>1', True),
        (r'(1,\sqrt2)', r'(1,2^{1/2})', None),
        ('1,2', '2,1', True),
        ('1,2', '(1,2)', True),
        ('1,2', '(2,1)', False),
        ('1,1,2', '1,2', False),
        ('1,2', r'\{2,1\}', True),
        ('1,2', '[1,2)', False),
        (r'\{1,2\}', '2,1', True),
        (r'\{1,2\}', r'\{2,2,1\}', True),
        (r'\{1,2\}', '(1,2)', False),
        (r'\{5\}', '5', True),
        ('5', r'\{5\}', True),
        (r'\emptyset', r'\{0\}', False),
        (r'\emptyset', r'\text{no solution}', True),
        (r'(0,1)\cup(2,3)', r'(2,3)\cup(0,1)', True),
        (r'(0,1)\cup(2,3)', r'(0,1)\cup(2,3]', False),
        (r'(-\infty,1)\cup(3,\infty)', 'x<1 or x>3', True),
        (r'(-\infty,0)\cup(0,\infty)', r'x\ne0', True),
        (r'(0,1)\cup(2,3)', '(0,3)', None),
        (MATRIX, r'\begin{bmatrix}1&2\\3&4\end{bmatrix}', True),
        (MATRIX, '[[1,2],[3,4]]', True),
        (MATRIX, r'\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}', False),
        (MATRIX, r'\begin{pmatrix} 1 & 2 \end{pmatrix}', False),
        (MATRIX, '(1,2,3,4)', False),
    ],
)
def test_the_gold_decides_what_counts(gold, answer, result):
    assert equal(read(gold), read(answer), Exact()) is result
