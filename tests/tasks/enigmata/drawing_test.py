"""Whatever a response says, its drawing is well-formed and its words are escaped."""

import time
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passk_jax.tasks.enigmata import drawing
from passk_jax.tasks.enigmata.boards import BESIDE, KINDS, Board, Cell
from passk_jax.tasks.enigmata.puzzle import LEVELS
from passk_jax.tasks.enigmata.symbolic_hard import SYMBOLIC_HARD
from passk_jax.tasks.enigmata.table import ALL_PUZZLES, PUZZLES
from passk_jax.tasks.enigmata.task import EnigmataTask
from tests.tasks.enigmata.judge import LONG, TEXTS, drawn, problem_of

# Those that :func:`draw_board` draws.
WITH_BOARD = (
    *('sudoku2', 'sudoku', 'binario', 'kakurasu', 'hitori', 'light_up', 'slant'),
    *('minesweeper', 'tic_tac_toe', 'skyscraper', 'sum_skyscraper', 'magic_square'),
    *('star_battle', 'campsite', 'eight_puzzle', 'fifteen_puzzle', 'twiddle'),
    *('nine_puzzle', 'sixteen_puzzle', 'maze', 'full_crosswords'),
)
PROBLEMS = {name: problem_of(ALL_PUZZLES[name], 1) for name in WITH_BOARD}
# Answers that no puzzle can draw.
GARBAGE = ('', 'no idea', '</svg><script>', '"&<>\x00\ud800\u202e٣', *LONG)


def _draw(name, answer, *, correct=False):
    data = PROBLEMS[name] | {'puzzle': name}
    return EnigmataTask.draw(data, answer, correct=correct)


def test_puzzles_without_a_board_have_no_drawing():
    for name in set(ALL_PUZZLES) - {*WITH_BOARD, 'symbolic_hard'}:
        puzzle = ALL_PUZZLES[name]
        data = problem_of(puzzle, 0)
        assert puzzle.draw(data, data['answer'], correct=True) == ''


@pytest.mark.parametrize('name', WITH_BOARD)
def test_a_solution_is_in_its_drawing_and_nothing_of_it_is_wrong(name):
    svg = ElementTree.fromstring(_draw(name, PROBLEMS[name]['answer'], correct=True))
    assert svg.get('class').split()[:2] == ['board', 'right']
    assert svg.get('aria-label') == f'{name}, right answer'
    puzzle = ALL_PUZZLES[name]
    problems = [PROBLEMS[name]]
    if name in PUZZLES:
        problems = [data for i in range(len(LEVELS)) for data in drawn(puzzle, i, 3)]
    differ = 0
    for data in problems:
        solved = puzzle.draw(data, data['answer'], correct=True)
        assert 'class="bad' not in solved
        assert 'class="flag"' not in solved
        assert 'class="cross"' not in solved
        assert 'class="corner bad"' not in solved
        differ += solved != puzzle.draw(data, '', correct=True)
    # The answer to a maze or to moves may be that there are none.
    assert differ > len(problems) / 4


@pytest.mark.parametrize('name', WITH_BOARD)
def test_what_cannot_be_drawn_leaves_the_problem_alone(name):
    plain = _draw(name, '')
    assert ElementTree.fromstring(plain).get('class').split()[:2] == ['board', 'wrong']
    assert 'shape new' not in plain
    start = time.process_time()
    for garbage in GARBAGE:
        assert _draw(name, garbage) == plain
    assert time.process_time() - start < 1


@pytest.mark.parametrize('name', WITH_BOARD)
@settings(max_examples=15)
@given(text=TEXTS, place=st.integers(0, 200), cut=st.integers(0, 5))
def test_no_answer_makes_a_drawing_raise_or_breaks_it(name, text, place, cut):
    answer = PROBLEMS[name]['answer']
    for changed in (text, answer[:place] + text + answer[place + cut :]):
        svg = _draw(name, changed)
        svg.encode()
        assert ElementTree.fromstring(svg).tag == 'svg'


def test_an_answer_of_the_longest_length_takes_no_time():
    start = time.process_time()
    for name, moves in (
        ('fifteen_puzzle', 'UD' * 5_000),
        ('maze', '->'.join(['(1,1)', '(1,2)'] * 714)),
        ('kakurasu', f'[{"(1, 1)," * 1_400}]'),
    ):
        assert 9_000 < len(moves) <= 10_000
        assert ElementTree.fromstring(_draw(name, moves)).tag == 'svg'
    assert time.process_time() - start < 0.5


def test_letters_of_an_answer_are_escaped():
    svg = _draw('full_crosswords', 'across: <&", \x00\ud800\ndown: >x')
    letters = [element.text for element in ElementTree.fromstring(svg).iter('text')]
    assert letters == ['</>', '&', '"', 'X', '\ufffd', '\ufffd']


def test_an_answer_to_a_task_of_arc_is_drawn_as_arc_does():
    data = problem_of(SYMBOLIC_HARD, 0)
    draw = SYMBOLIC_HARD.draw
    assert draw(data, data['answer'], correct=True).count('<rect') == 4
    assert 'circle' not in draw(data, data['answer'], correct=True)
    assert draw(data, '3 0\n2 2', correct=False).count('<circle') == 1
    for garbage in GARBAGE:
        assert '<script' not in draw(data, garbage, correct=False)


def _drawn(board, correct=False):
    svg = drawing.draw_board(board, 'a & b', correct=correct)
    return ElementTree.fromstring(svg)


def _with_class(svg, name):
    return [element for element in svg.iter() if element.get('class') == name]


def test_cells_of_each_kind_are_one_path():
    cells = {(0, c): Cell(kind=kind) for c, kind in enumerate(KINDS)}
    svg = _drawn(Board(cells | {(1, 0): Cell()}))
    for column, kind in enumerate(KINDS):
        (path,) = _with_class(svg, kind)
        squares = f'M{16 * column},0h16v16h-16z'
        assert path.get('d') == squares + ('M0,16h16v16h-16z' if not column else '')


def test_clues_lie_outside_the_frame_and_inside_the_picture():
    cells = {(r, c): Cell() for r in range(5) for c in range(6)}
    for kind in BESIDE:
        svg = _drawn(Board(cells | {(-1, 0): Cell('7', kind), (0, 6): Cell('8', kind)}))
        (frame,) = _with_class(svg, 'frame')
        assert frame.get('d') == 'M0,0H96V80H0Z'
        assert svg.get('viewBox') == '-3 -19 118 102'
        assert [element.text for element in _with_class(svg, kind)] == ['7', '8']


def test_a_wrong_cell_has_a_corner_and_a_dark_one_keeps_its_ground():
    wall = Cell('1', 'wall', wrong=True)
    svg = _drawn(Board({(0, 0): Cell(wrong=True), (0, 1): wall}))
    assert _with_class(svg, 'bad')[0].get('d').count('M') == 1
    assert _with_class(svg, 'bad dark')[0].get('d').count('M') == 1
    assert _with_class(svg, 'flag')[0].get('d').count('M') == 2
    assert not _with_class(_drawn(Board({(0, 0): Cell()})), 'flag')


@pytest.mark.parametrize(
    ('text', 'label', 'size'),
    [
        ('7', '7', 9.5),
        ('-12', '-12', 8),
        ('123456', '123456', 4),
        ('1234567', '12345…', 4),
    ],
)
def test_a_long_text_is_small_and_a_longer_one_is_cut(text, label, size):
    (element,) = _drawn(Board({(0, 0): Cell(text, 'given')})).iter('text')
    assert (element.text, float(element.get('font-size'))) == (label, size)


def test_a_narrow_board_is_not_drawn_large_and_a_wide_one_asks_for_room():
    for columns, edge, width, wide in (
        (1, -35, 86, False),
        (5, -3, 86, False),
        (11, -3, 182, False),
        (12, -3, 198, True),
    ):
        svg = _drawn(Board({(0, c): Cell() for c in range(columns)}))
        assert svg.get('viewBox').split()[::2] == [str(edge), str(width)]
        assert ('wide' in svg.get('class').split()) == wide


def test_boxes_have_lines_between_them():
    cells = {(r, c): Cell() for r in range(4) for c in range(4)}
    (lines,) = _with_class(_drawn(Board(cells, box=2)), 'lines')
    assert lines.get('d') == 'M0,32H64M32,0V64'


def test_what_the_answer_made_stands_to_the_right_of_the_problem():
    cells = {(r, c): Cell() for r in range(3) for c in range(3)}
    svg = _drawn(Board(cells, after=Board(cells)), correct=True)
    assert [element.get('transform') for element in svg.iter('g')] == ['translate(72)']
    (arrow,) = _with_class(svg, 'shape')
    assert arrow.get('transform') == 'translate(52,16)'
    assert svg.get('viewBox') == '-3 -3 126 54'
    assert svg.get('class') == 'board right'


def test_a_note_stands_below_and_is_escaped():
    svg = _drawn(Board({(0, c): Cell() for c in range(5)}, note='<b>\x07'))
    (note,) = _with_class(svg, 'note')
    assert note.text == '<b>\ufffd'
    assert svg.get('viewBox') == '-3 -3 86 34'


def test_a_way_ends_in_a_tip_or_in_a_cross():
    cells = {(0, c): Cell() for c in range(5)}
    way = [(0, 0), (0, 1)]
    svg = _drawn(Board(cells, way=way))
    assert _with_class(svg, 'path')[0].get('points') == '8.0,8.0 24.0,8.0'
    assert _with_class(svg, 'tip')
    svg = _drawn(Board(cells, way=way, blocked=(0, 2)))
    assert _with_class(svg, 'cross')
    assert not _with_class(svg, 'tip')


def test_every_shape_that_a_puzzle_names_exists():
    shapes = {'arrow', 'ring'}
    for name in ('campsite', 'light_up', 'minesweeper', 'slant', 'star_battle'):
        data = PROBLEMS[name]
        board = ALL_PUZZLES[name].picture(data, data['answer'])
        shapes |= {cell.shape for cell in board.cells.values()} - {''}
    assert shapes == set(drawing.SHAPES)
