import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passk_jax.verifiers import answers
from passk_jax.verifiers.answers import Wrong

_TEXTS = st.lists(
    st.sampled_from(['```', '``', '`', '\n', 'a', ' ', 'python', '1 2'])
).map(''.join)


@given(_TEXTS)
def test_the_last_block_is_that_of_the_official_expressions(text):
    blocks = re.findall(r'```.*?\n(.*?)```', text, re.DOTALL)
    blocks = blocks or re.findall(r'```(.*?)```', text, re.DOTALL)
    assert answers.last_block(text) == (blocks[-1].strip() if blocks else '')


@pytest.mark.parametrize(
    ('response', 'board'),
    [
        ('', ''),
        ('. *', ''),
        ('<begin_board>. *', ''),
        ('. *<end_board>', ''),
        ('<end_board><begin_board>. *', ''),
        ('```\n<begin_board>\n. *\n<end_board>\n```', '. *'),
        ('<begin_board>1<end_board> no, <begin_board>2<end_board>', '2'),
        ('<begin_board>1<end_board> no, <begin_board>2', '1'),
        ('<begin_board><begin_board>2<end_board>3<end_board>', '2'),
    ],
)
def test_the_last_board_is_the_last_that_ends(response, board):
    assert answers.last_board(response) == board


_BARS = st.lists(st.sampled_from(['|', '\n', 'a', ' ', '\t'])).map(''.join)


@given(_BARS)
def test_the_last_table_is_that_of_the_official_expression(text):
    tables = re.findall(r'(\|[^\n]+\|(?:\n\s*\|[^\n]+\|)*)', text)
    table = answers.last_table(text)
    assert table == (tables[-1] if tables else '')
    rows = answers.table_rows(table)
    assert rows == [
        [cell.strip() for cell in re.sub(r'\s+', ' ', line).strip().split('|')[1:-1]]
        for line in table.split('\n')
        if line.strip()
    ]


def test_a_block_and_a_board_are_found_again():
    assert answers.last_block(answers.as_block('1 2\n3 4')) == '1 2\n3 4'
    assert answers.last_board(answers.as_board('. *\n* .')) == '. *\n* .'


@pytest.mark.parametrize(
    ('parse', 'text', 'value'),
    [
        (answers.pair_list, '[]', []),
        (answers.pair_list, '[(1, 2), (-3,4) ,( 5 , 6 ),]', [(1, 2), (-3, 4), (5, 6)]),
        (answers.integer_list, '[0, 12,\n3]', [0, 12, 3]),
        (answers.text_list, '["R11", \'C23\', ""]', ['R11', 'C23', '']),
        (answers.pair_chain, '(0,0)', [(0, 0)]),
        (answers.pair_chain, '(0, 0) -> (1,1)', [(0, 0), (1, 1)]),
    ],
)
def test_literals_are_read(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ('parse', 'texts'),
    [
        (
            answers.pair_list,
            ['', '[', ']', '[(1, 2)', '(1, 2)', '[(1, 2) (3, 4)]', '[,]', '[(1, 2),,]',
             '[(1, 2, 3)]', '[(1)]', '[(1.0, 2)]', '[(1, ٣)]', '[(1, 9999999999)]',
             '[(1, 2)]]', '[[(1, 2)]]', '[(1, 2), x]', '[(1, 2)] + []'],
        ),
        (
            answers.integer_list,
            ['1, 2', '[1 2]', '[0x1]', '[1e3]', '[1_0]', '[a]', '[1][0]', '[²]',
             '[*range(3)]', '[1 for _ in "a"]', '[12345678901]'],
        ),
        (
            answers.text_list,
            ['"R11"', '["R11]', '[R11]', '["a" "b"]', '["\\x41"]', '["a" + "b"]',
             '["a"]*2', '[f"a"]', '["a", 1]'],
        ),
        (answers.pair_chain, ['', '->', '(0,0)->', '(0,0),(1,1)', '(0,0)=>(1,1)']),
    ],
)  # fmt: skip
def test_anything_else_is_wrong(parse, texts):
    for text in texts:
        with pytest.raises(Wrong):
            parse(text)


def test_a_grid_has_its_side_and_integers_only():
    assert answers.integer_grid('1 -2\n\n +3  04 ', side=2) == [[1, -2], [3, 4]]
    for text, error in [
        ('1 2', '1 rows, not 2'),
        ('1 2\n3', 'a row of 1 numbers, not 2'),
        ('1 2\n3 x', "'x' is not an integer"),
        ('1 2\n3 4.0', "'4.0' is not an integer"),
        ('1 2\n3 ٤', 'is not an integer'),
        ('1 2\n3 9999999999', 'is not an integer'),
    ]:
        with pytest.raises(Wrong, match=error):
            answers.integer_grid(text, side=2)


def test_a_claim_is_the_whole_sentence():
    assert answers.claims(' "No valid  Solution." ', 'no valid solution')
    assert not answers.claims('no valid solution, or [1]', 'no valid solution')
    assert not answers.claims('', 'no')
