import xml.etree.ElementTree

from passk_jax.tasks.drawings import draw_grid

_DATA = {'output': [[1, 2], [3, 4]]}


def test_every_cell_has_its_colour_and_a_wrong_one_a_dot():
    picture = draw_grid(_DATA, '1 2\n3 0', correct=False)
    cells = list(xml.etree.ElementTree.fromstring(picture))
    assert [cell.tag for cell in cells] == ['rect'] * 4 + ['circle']
    assert len({cell.get('fill') for cell in cells[:4]}) == 4
    assert 'class="grid wrong"' in picture
    assert 'circle' not in draw_grid(_DATA, '[[1,2],[3,4]]', correct=True)


def test_a_grid_of_another_size_has_no_dots():
    assert draw_grid(_DATA, '0 0 0', correct=False).count('<rect') == 3
    assert 'circle' not in draw_grid(_DATA, '0 0 0', correct=False)


def test_what_is_no_grid_is_not_drawn():
    assert draw_grid(_DATA, '<script>', correct=False) == ''
