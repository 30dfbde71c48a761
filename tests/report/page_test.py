"""Nothing that a policy wrote reaches the page unescaped, and both kinds are shown."""

import re

import pytest

from passk_jax.report import page as report_page
from passk_jax.report.run_data import Run
from passk_jax.tasks.enigmata.boards import BESIDE, KINDS, Board, Cell
from passk_jax.tasks.enigmata.drawing import draw_board


def _run(task):
    return Run(None, {'task': {'name': task}}, {}, [], {}, [], [], {})


def _response(text, correct=False, **values):
    return {
        'problem_id': 4,
        'category': '3x3',
        'prompt': 'go',
        'data': {'maze': 'S.E'},
        'response': text,
        'parsed': text,
        'correct': correct,
        'reward': float(correct),
        'advantage': -0.5,
        'length': 3,
        **values,
    }


@pytest.mark.parametrize('task', ['maze', 'unheard-of'])
@pytest.mark.parametrize('padding', ['', ' long' * 100])
def test_what_a_policy_wrote_is_escaped_everywhere(task, padding):
    evil = '</pre><script>alert("1")</script>' + padding
    rows = [_response(evil, prompt=evil, category=evil, problem_id=evil)]
    card = report_page.problem_card(_run(task), rows, most=6)
    assert '<script' not in card
    assert '&lt;script&gt;' in card
    assert '<title><b>' not in report_page.page('<b>', '')
    assert '<b><' not in report_page.chips({'<a>': '<b>'})


def test_equal_responses_are_one_drawing_with_a_count():
    rows = [_response('R')] * 5 + [_response('RR', correct=True)] * 2
    card = report_page.problem_card(_run('maze'), rows, most=6)
    assert card.count('<figure>') == 2
    assert '× 5' in card
    assert '2 of 7 right' in card
    assert card.index('maze right') < card.index('maze wrong')


def test_a_wrong_response_that_was_rewarded_says_so():
    rows = [_response('R', rewarded=True), _response('RR', True, rewarded=True)]
    card = report_page.problem_card(_run('other'), rows, most=6)
    assert card.count('rewarded as noise') == 1


@pytest.mark.parametrize(
    ('num_right', 'num_wrong', 'counts'),
    [(9, 9, (3, 3)), (1, 9, (1, 5)), (9, 1, (5, 1)), (9, 0, (6, 0)), (2, 2, (2, 2))],
)
def test_both_kinds_are_shown_where_there_are_both(num_right, num_wrong, counts):
    rows = [_response(f'right {i}', correct=True) for i in range(num_right)]
    rows += [_response(f'wrong {i}') for i in range(num_wrong)]
    card = report_page.problem_card(_run('other'), rows, most=6)
    assert (card.count('tag right'), card.count('tag wrong')) == counts


def test_a_task_without_a_drawing_and_a_dump_without_its_fields_show_text():
    card = report_page.problem_card(_run('math'), [_response('x = 2')], most=6)
    assert '<svg' not in card
    assert 'x = 2' in card
    card = report_page.problem_card(_run('maze'), [{'response': 'RR'}], most=6)
    assert '<svg' not in card
    assert 'RR' in card


@pytest.mark.parametrize(('puzzle', 'drawn'), [('sudoku2', True), ('game24', False)])
def test_drawings_stand_closer_than_texts(puzzle, drawn):
    """A task may draw some of its problems only."""
    data = {'puzzle': puzzle, 'grid': [[0] * 4] * 4, 'numbers': [1, 2, 3, 4]}
    rows = [_response('1 2', data=data)]
    card = report_page.problem_card(_run('enigmata'), rows, most=6)
    assert ('<svg class="board wrong"' in card) == drawn
    assert ('class="responses texts"' in card) == (not drawn)


def test_the_style_has_a_rule_for_all_that_a_board_shows():
    cells = {(0, c): Cell('1', kind) for c, kind in enumerate((*KINDS, *BESIDE))}
    cells |= {(1, 0): Cell('2', shape='star', new=True, wrong=True)}
    wall = Cell('', 'wall', shape='star', wrong=True)
    cells |= {(1, 1): wall, (1, 12): Cell()}
    way = {'way': [(0, 0)], 'corners': {(1, 1): Cell('3', wrong=True)}}
    boards = Board(cells, box=1, note='4', **way), Board(cells, **way, blocked=(0, 1))
    svgs = [draw_board(board, 'x', correct=bool(board.box)) for board in boards]
    names = {n for classes in re.findall('class="([^"]*)"', ''.join(svgs))
             for n in classes.split()}  # fmt: skip
    assert {'board', 'wide', 'frame', 'on_wall', 'dark', 'tip', 'cross'} <= names
    styled = set(re.findall(r'\.([a-z_]+)', report_page.STYLE))
    assert names <= styled


def test_the_table_has_the_last_value_its_interval_and_the_change():
    rows = [
        {'step': 0, 'pass_at_1': 0.5, '5x5/pass_at_1': 0.25},
        {'step': 9, 'pass_at_1': 0.25, 'pass_at_1_low': 0.2, 'pass_at_1_high': 0.3,
         '5x5/pass_at_1': 0.75},
    ]  # fmt: skip
    table = report_page.results_table(rows)
    assert 'step 9, from step 0' in table
    assert '0.250<small>0.200 to 0.300</small>' in table
    assert '0.500 <span class="down">−0.250</span>' in table
    assert '0.250 <span class="up">+0.500</span>' in table


def test_one_evaluation_has_no_change():
    table = report_page.results_table([{'step': 3, 'pass_at_1': 0.5}])
    assert 'from' not in table
    assert 'span' not in table
