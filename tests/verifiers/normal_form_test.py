import pathlib
import re
import time

import pytest

import passk_jax
from passk_jax.verifiers.normal_form import normal_form


@pytest.mark.parametrize(
    ('text', 'normal'),
    [
        # Signs.
        ('５７，', '57'),
        ('–3', '-3'),
        ('x²³', 'x^{23}'),
        ('57₈', '57_{8}'),
        ('2¾', r'2\frac{3}{4}'),
        ('90°', r'90^\circ'),
        ('√12', r'\sqrt{12}'),
        ('5\u200b7\ufeff', '57'),
        ('𝑥＝１', 'x=1'),
        ('x≥1', r'x\ge 1'),
        # Surrounding marks.
        ('$$ 5 $$', '5'),
        (r'\( 5 \)', '5'),
        ('**5**', '5'),
        ('**x**: y', 'x: y'),
        ('2**3', '2**3'),
        ('`5`', '5'),
        ('“odd”', 'odd'),
        ('{{5}}', '5'),
        ('{1}{2}', '{1}{2}'),
        # Look.
        (r'\left( \dfrac{1}{2} \right)', r'( \frac{1}{2} )'),
        (r'\leftarrow', r'\leftarrow'),
        (r'{\color{red} 5}', '5'),
        (r'\textcolor{red}{5}', '5'),
        (r'\begin{aligned} x &= 5 \end{aligned}', 'x &= 5'),
        (r'\mathrm{cm}', r'\text{cm}'),
        (r'\textbf{ odd}', r'\text{ odd}'),
        (r'\boldsymbol{5}', '5'),
        (r'x \leqslant 1', r'x \le 1'),
        (r'45^{\circ}', r'45^\circ'),
        (r'\{1\}', r'\{1\}'),
        (r'1 & 2 \\ 3 & 4', r'1 & 2 \\ 3 & 4'),
        # Digits.
        (r'1{,}500', '1500'),
        (r'1,\!500,\!000', '1500000'),
        (r'1\,500', '1500'),
        ('1~500', '1500'),
        ('1 500 000', '1500000'),
        ('1 50', '1 50'),
        ('1,500', '1,500'),
        ('1.500.000', '1500000'),
        ('1{,}5', '1.5'),
        ('5%', r'5\%'),
        ('3 1/2', r'3\frac{1}{2}'),
        # Ends of sentences.
        ('5.', '5'),
        ('5 。', '5'),
        (r'x\\', 'x'),
        ('0.33...', '0.33...'),
        ('= 5', '5'),
        ('5!', '5!'),
        ('.5', '.5'),
    ],
)
def test_a_spelling_becomes_the_normal_one(text, normal):
    assert normal_form(text) == normal


def test_the_normal_form_is_its_own():
    for text in ('57₈', r'\left( x², 3 1/2\right).', '**$5$**', r'12\,\mathrm{cm}'):
        assert normal_form(normal_form(text)) == normal_form(text)


@pytest.mark.parametrize(
    'piece',
    ['{', '}', ' ', '1 ', '1,', '.', '**', '**a', '\\', '1{,}', '"', '$', '{,', '&',
     r'\left', '0', r'\phantom', r'\color{', '999 ', '999.', '. a', r'\text{', '`',
     r'\begin{cases}', r'\text{$', r'\text{a$b$',
     '{}^', r'\sqrt 1', '²', '１', '1 2/', '(1,', "''", '^\\circ'],
)  # fmt: skip
def test_the_time_is_linear_in_the_text(piece):
    text = piece * (4096 // len(piece))
    start = time.process_time()
    normal_form(text + 'a')
    assert time.process_time() - start < 0.5


def test_a_long_sum_of_fractions_takes_no_time():
    text = 'y=' + r'\frac{1}{x+' * 30 + '1' + '}' * 30
    started = time.process_time()
    normal_form(text)
    assert time.process_time() - started < 1


def test_no_pattern_repeats_a_group_possessively():
    """Before Python 3.11.5, such a group matches too little (CPython's gh-106052)."""
    possessive = re.compile(r'\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>')
    for path in pathlib.Path(passk_jax.__file__).parent.rglob('*.py'):
        assert not possessive.search(path.read_text()), path


def test_a_brace_that_counts_what_dots_leave_out_has_its_label():
    one, other = (rf'\underbrace{{11\cdots1}}_{{{n}}}' for n in (2024, 2023))
    assert normal_form(one) != normal_form(other)
    assert normal_form(r'\underbrace{x+1}_{\text{odd}}') == 'x+1'


@pytest.mark.parametrize(
    ('text', 'expected'),
    [('2ᵏ', '2^{k}'), ('aₖ', 'a_{k}'), ('e⁻ᵗ', 'e^{-t}'), ('4ᵗʰ', '4th')],
)
def test_raised_and_lowered_letters_are_powers_and_indices(text, expected):
    assert normal_form(text) == normal_form(expected)
