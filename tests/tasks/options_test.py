"""The option that a response names."""

import pytest

from passk_jax.tasks import options

_OPTIONS = ['red', 'dark blue', 'green tea', 'No']


@pytest.mark.parametrize(
    ('response', 'answer'),
    [
        (r'The answer is 3. No: \boxed{4}. The answer is 5.', '4'),
        ('The answer is 4.\nOr not.', '4'),
        ('Answer: **B**', 'B'),
        ('The answer is\n(B).', '(B)'),
        ('First 3. Then 4.', 'Then 4'),
        ('first 3\nthen 4', 'then 4'),
        ('3.5', '3.5'),
        # The letter of an option does not end a sentence.
        ('B. 3.', 'B. 3'),
        ('It has three.\nB. 3', 'B. 3'),
        ('It is B. Then 4', 'Then 4'),
        ('The answer is B. It is not A', 'B'),
        # A box that is not closed, as where a response was cut off.
        (r'The answer is 3, \boxed{4', ''),
        ('', ''),
        (' \n ', ''),
    ],
)
def test_a_response_ends_with_its_answer(response, answer):
    assert options.final_answer(response) == answer


@pytest.mark.parametrize(
    'form',
    [
        *('B (%s)', 'B - %s', r'B\ %s', r'B\text{ }(%s)', r'\text{B. %s}'),
        *(r'\text{B) } %s', r'\text{(B) }%s', r'\textbf{(B)}\;%s', 'B = %s'),
        'The answer is option B: %s',
    ],
)
def test_a_letter_with_a_formula_names_no_other_option(form):
    values = ['-5', r'$\frac{1}{8}$ m', r'$18 \mathrm{~km}$', '- 1 < m']
    assert options.chosen(form % values[1], values) == {'B'}
    assert not options.chosen(form % values[2], values)
    assert options.chosen('D ' + values[3], values) == {'D'}


@pytest.mark.parametrize(
    ('answer', 'letters'),
    [
        ('B', 'B'),
        ('b', 'B'),
        ('(c)', 'C'),
        ('B.', 'B'),
        (r'\text{B}', 'B'),
        (r'$\textbf{(B)}$', 'B'),
        (r'\mathrm{B}', 'B'),
        ('B: dark blue', 'B'),
        ('D) no', 'D'),
        ('Dark  Blue.', 'B'),
        ('no', 'D'),
        ('It has a dark blue roof', 'B'),
        ('It is (B), by (B)', 'B'),
        ('It is option C', 'C'),
        ('Hence **C** is correct', 'C'),
        ('So C is the right choice, as A is wrong', 'C'),
        ('choice C fits', 'C'),
        ('neither A nor C is right', ''),
        ('C is right, and B is right', ''),
        ('C is not correct', ''),
        ('which gives C', 'C'),
        ('(A) is the one, not blue', 'A'),
        # Short texts are words of other sentences; "red" is inside "bored".
        ('There is no such thing', ''),
        ('It is bored of tea', ''),
        ('It is not dark blue', ''),
        ('B -> C -> A', ''),
        ('vitamin-C', 'C'),
        ('it is ABC', ''),
        ('(A) or (B)', ''),
        ('(A) (B) (C) (D)', ''),
        ('dark blue or green tea', ''),
        ('B: green tea', ''),
        ('(B) green tea', ''),
        ('E', ''),
        ('(E) is it', ''),
        ('(A) is not red', ''),
        ('(A) is clearly wrong', ''),
        ("(A) isn't it", ''),
        ('(A) is right, as blue is not', 'A'),
        (r'\text{colour B}', 'B'),
        ('', ''),
    ],
)
def test_an_answer_names_one_choice(answer, letters):
    assert options.chosen(answer, _OPTIONS) == {*letters}


_AMOUNTS = ['8 m/s', '-8 m/s', '0.8 m/s', r'$8 \mathrm{~m}$', r'$\frac{1}{2} a^{2}$']


@pytest.mark.parametrize(
    ('answer', 'letters'),
    [
        ('8 m/s', 'A'),
        ('The speed is 8 m/s, at last', 'A'),
        ('It moves at -8 m/s', 'B'),
        ('It moves at 0.8 m/s', 'C'),
        ('28 m/s', ''),
        ('It is 1.8 m/s', ''),
        ('8 m/s^2', ''),
        (r'8\mathrm{~m}', 'D'),
        (r'-8 \mathrm{~m}', ''),
        (r'3 + 8 \mathrm{~m}', ''),
        (r'\dfrac{1}{2} a^{2}', 'E'),
        (r'\frac{1}{2} a^{2} + b^{2}', ''),
        (r'\text{(E)}\ \frac{1}{2}a^{2}', 'E'),
        (r'\text{(A)}\ \frac{1}{2} a^{2}', ''),
    ],
)
def test_part_of_a_number_or_a_formula_is_no_choice(answer, letters):
    assert options.chosen(answer, _AMOUNTS) == {*letters}
    assert options.chosen('It is x^2 - 1 - y', ['x^2 - 1', 'y - 2 + x']) == set()


@pytest.mark.parametrize(
    ('response', 'letters'),
    [
        ('B\n\nIt is as blue as the sea.', 'B'),
        ('**B. dark blue**\nIt is so.', 'B'),
        ('(B) dark blue. It is so.', 'B'),
        ('(C) dark blue. It is so.', ''),
        ('**B. dark blue**\nA blue one.', ''),
        ('B is what it is.', ''),
        ('B. dark blue\nC. green tea', ''),
        ('B\n\nRather C.', ''),
        ('B\n\n\\boxed{none}', ''),
        ('E\nIt is so.', ''),
        ('E\nIt is B.', ''),
        ('', ''),
    ],
)
def test_a_response_may_begin_with_its_choice(response, letters):
    assert options.first_choice(response, _OPTIONS) == {*letters}


def test_choices_with_one_text_are_all_named():
    assert options.chosen('x', ['x', 'X', 'y']) == {'A', 'B'}
    # A letter is a letter first, and then a text.
    assert options.chosen('B', ['B', 'A', 'F']) == {'B'}
    assert options.chosen('F', ['B', 'A', 'F']) == {'C'}
    assert options.chosen('A cat', ['dog', 'A cat', 'cat']) == {'B'}


def test_an_option_may_be_a_letter_in_text():
    letters = [r'$\text{Z}$', r'$\text{U}$', r'$\text{B}$']
    assert options.chosen(r'\text{Z}', letters) == {'A'}
    # B is an option first.
    assert options.chosen(r'\text{B}', letters) == {'B'}


@pytest.mark.parametrize(
    ('answer', 'split'),
    [
        ('(A) 1, 2', ('A', '1, 2')),
        (r'\text{(B)}\ \dfrac12', ('B', r'\frac12')),
        ('C: 5', ('C', '5')),
        ('E: 5', None),
        ('A:5', None),
        ('A cat', None),
        ('5 (A)', None),
    ],
)
def test_a_letter_before_a_text_is_split_from_it(answer, split):
    assert options.split_letter(answer, _OPTIONS) == split


def test_letters_inside_the_text_of_a_choice_are_no_other_choices():
    letters = options.first_choice('**B. A sea**\n\nIt is so.', ['The sky', 'A sea'])
    assert letters == {'B'}
