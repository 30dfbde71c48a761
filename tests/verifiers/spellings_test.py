"""Readers of usual spellings; enigmata/table_spellings_test.py tries many of each."""

import re

import pytest

from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('**[1]**', '[1]'),
        (r'$\boxed{[1]}$', '[1]'),
        ('Answer: `[1]`.', '[1]'),
        ('The answer is: [1]', '[1]'),
        ('```json\n[1]\n```', '[1]'),
        ('\ufeff［１］。', '[1]'),
        ('cells = [1]', '[1]'),
        ('np.array([1])', '[1]'),
    ],
)
def test_what_stands_around_an_answer_is_none_of_it(text, expected):
    assert spellings.bare(text) == expected


@pytest.mark.parametrize(
    ('read', 'texts'),
    [
        (
            spellings.integers,
            ['1 2]', '1,,2', '1-2', '1 2 or 3', '[1] [2]', '1.5', 'x'],
        ),
        (spellings.pairs, ['(1, 2), 3', '[(1, 2)', '(1, 2, 3)', '1 2 3', '', '(1, x)']),
        (spellings.moves, ['', 'LURDX', 'go up', '5', 'up and away']),
        (spellings.letters, ['', '12', 'A1', 'A+B']),
        (
            spellings.integer_grid,
            [
                '',
                'x',
                '1 2\nx',
                '[[1, 2], x]',
                '[[1]] [[2]]',
                '[[1]',
                '[1]]',
                'f([1], [2])',
                '1.5 2',
                '1-2\n3',
            ],
        ),
        (spellings.board, ['', '. ?', 'X 1', '* T']),
        (
            lambda text: spellings.word(text, ['yes']),
            ['', 'no', 'yes or no', 'not yes'],
        ),
        (
            lambda text: spellings.expression(text, 24),
            ['', '4*6 = 25', '4*6 = x', '24 = 25', '4*6 = 24 = 25', '2^3*3', '4(6)/1'],
        ),
        (
            lambda text: spellings.items(text, re.compile('[AB]'), lambda m: m[0]),
            ['', 'C', 'A, C', 'A B?'],
        ),
    ],
)
def test_what_can_be_read_otherwise_is_not_read(read, texts):
    for text in texts:
        with pytest.raises(Wrong):
            read(text)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('4*6 = 24', '4 * 6'),
        ('24 = 4×6', '4 * 6'),
        (r'\frac{48}{2} \times 1 = 24.', '((48) / (2)) * 1'),
        ('(8 − 2)(3 + 1)', '(8 - 2)*(3 + 1)'),
        ('(8/2)*(8-2) = 4*6 = 24', '(8 / 2) * (8 - 2)'),
        ('x = 4 x 6', '4 * 6'),
    ],
)
def test_an_expression_is_read_as_it_is_meant(text, expected):
    assert spellings.expression(text, 24).replace(' ', '') == expected.replace(' ', '')


def test_a_line_of_a_table_that_only_parts_others_is_a_rule():
    for rule in ('|---|---|', '+--+', '|:-:|', '─────', '===='):
        assert spellings.is_rule(rule)
    for row in ('- - -', '|-|-|', '-1 -1', '. .', '| | |'):
        assert not spellings.is_rule(row)


@pytest.mark.parametrize('head', ['| | |', '|   |   |', '|||'])
def test_the_empty_head_of_a_table_is_no_row(head):
    text = f'{head}\n|:-:|:-:|\n| 1 | 2 |\n| 3 | 4 |'
    assert spellings.integer_grid(text) == '1 2\n3 4'


def test_a_claim_is_read_with_a_name_or_without():
    assert spellings.claims('Answer: **No way!**', 'no way')
    assert spellings.claims('The way is no way.', 'the way is no way')
    assert not spellings.claims('no', 'no way')
