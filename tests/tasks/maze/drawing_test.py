"""A drawing shows the path an answer took and the move at which it failed."""

import xml.etree.ElementTree as ElementTree

import pytest

from passk_jax.tasks.maze import drawing

_MAZE = 'S.*\n*..\n**E'


def _draw(parsed, correct=False, maze=_MAZE):
    svg = drawing.draw_maze({'maze': maze}, parsed, correct=correct)
    return ElementTree.fromstring(svg)


def _with_class(svg, name):
    return [e for e in svg.iter() if e.get('class') == name]


def test_a_path_to_the_end_is_drawn_whole_and_green():
    svg = _draw('RDRD', correct=True)
    assert svg.get('class') == 'maze right'
    (path,) = _with_class(svg, 'path')
    assert path.get('points') == '8.0,8.0 24.0,8.0 24.0,24.0 40.0,24.0 40.0,40.0'
    assert _with_class(svg, 'cross') == []
    assert len(_with_class(svg, 'wall')) == 4


@pytest.mark.parametrize(
    ('parsed', 'failing'),
    [('D', 1), ('RR', 2), ('RDL', 3), ('U', 1), ('RDRR', 4), ('RDRDD', 5)],
)
def test_the_move_into_a_wall_or_out_of_the_grid_is_crossed(parsed, failing):
    svg = _draw(parsed)
    assert svg.get('class') == 'maze wrong'
    (cross,) = _with_class(svg, 'cross')
    assert cross[0].text == f'move {failing} fails'
    assert _with_class(svg, 'tip') == []


def test_the_colour_follows_the_recorded_verdict_and_not_the_path():
    assert _draw('RDRD', correct=False).get('class') == 'maze wrong'
    assert _draw('R', correct=True).get('class') == 'maze right'


def test_letters_that_are_no_moves_are_passed_over_and_case_does_not_matter():
    moves = _with_class(_draw('r, d -> r d!'), 'path')[0].get('points')
    assert moves == _with_class(_draw('RDRD'), 'path')[0].get('points')


def test_an_empty_answer_stays_at_the_start():
    svg = _draw('')
    assert _with_class(svg, 'tip')[0].get('cx') == '8.0'


@pytest.mark.parametrize('maze', ['', '***\n***', 'S', '.S\n.'])
def test_odd_mazes_do_not_break_a_drawing(maze):
    assert _draw('RD', maze=maze).tag == 'svg'


def test_an_answer_cannot_write_into_the_page():
    svg = drawing.draw_maze({'maze': _MAZE}, '"><script>', correct=False)
    assert '<script>' not in svg
