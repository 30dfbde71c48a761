import itertools
import json

import numpy as np
import pytest

from passk_jax.tasks.maze import rule as maze

# S at row 1, column 1; two E: under it at distance 3, and to its right at 2.
_MAZE = '*****\n*S.E.\n*.***\n*.***\n*E***'


def test_every_official_verdict_is_reproduced(shared_dir):
    path = shared_dir / 'data' / 'maze' / 'verifier_parity.jsonl'
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(cases) == 1472
    for case in cases:
        verdict = maze.verdict(case['maze'], case['response'])
        assert verdict.correct == bool(case['official_score']), case
        assert (verdict.error is None) == verdict.correct


@pytest.mark.parametrize(
    ('response', 'parsed', 'error'),
    [
        ('RR', 'RR', None),
        (r'\boxed{down, Down, D}', 'DDD', None),
        ('RRRL', 'RRRL', None),
        ('', '', 'no moves'),
        (r'Right Right \boxed{}', '', 'no moves'),
        ('R', 'R', 'ended at . not E'),
        ('RL', 'RL', 'ended at S not E'),
        ('RRRR', 'RRRR', 'left the grid at move 4'),
        ('DDDD', 'DDDD', 'left the grid at move 4'),
        ('RRUDD', 'RRUDD', 'stepped on a wall at move 3'),
    ],
)
def test_a_wrong_path_says_what_is_wrong(response, parsed, error):
    verdict = maze.verdict(_MAZE, response)
    assert verdict.parsed == parsed
    assert verdict.error == error
    assert verdict.correct == (error is None)


@pytest.mark.parametrize(
    ('response', 'parsed', 'error'),
    [
        # Commands of LaTeX are letters like others.
        (
            r'\boxed{R \rightarrow R}',
            'RRRRR',
            r'left the grid at move 4; letters of \rightarrow count as moves',
        ),
        (
            r'\boxed{\mathrm{RR}\quad\mathrm{}}',
            'RRRUDR',
            r'stepped on a wall at move 4; letters of \mathrm, \quad count as moves',
        ),
        (r'\boxed{\mathrm{R}}', 'RR', None),
        (r'\boxed{\text{RR}}', 'RR', None),
        (r'\boxed{\text{R}}', 'R', 'ended at . not E'),
        # And without a box, all text is the answer.
        ('The answer is RR.', 'RRR', 'ended at . not E'),
        ('The answer is R.', 'RR', None),
    ],
)
def test_every_letter_of_a_move_counts_as_in_the_released_verifier(
    response, parsed, error
):
    verdict = maze.verdict(_MAZE, response)
    assert (verdict.parsed, verdict.error) == (parsed, error)


def test_leaving_the_grid_is_not_coming_in_on_the_other_side():
    assert maze.verdict('S.E\n...', 'LRR').error == 'left the grid at move 1'
    assert maze.verdict('S.E\n...', 'ULRRRD').error == 'left the grid at move 1'


def test_white_space_around_a_maze_is_ignored():
    assert maze.verdict('\n' + _MAZE + '\n\n', 'RR').correct


@pytest.mark.parametrize(
    ('text', 'error'),
    [
        ('', 'empty'),
        (' \n ', 'empty'),
        ('S.\nE', 'different lengths'),
        ('S.\n\nE.', 'different lengths'),
        ('..\nE.', '0 S'),
        ('SS\nE.', '2 S'),
        ('S.\n..', 'no E'),
        ('S#\nE.', "'#'"),
        ('S.\r\nE.\r\n', "'\\r'|different lengths"),
    ],
)
def test_a_malformed_maze_is_an_error_and_never_correct(text, error):
    with pytest.raises(ValueError, match=error):
        maze.parse_maze(text)
    verdict = maze.verdict(text, 'D')
    assert not verdict.correct
    assert verdict.error.startswith('malformed maze: ')
    assert verdict.parsed == 'D'


def images_of(text):
    """All turns and mirror images of a maze, and the same from E to S."""
    cells = np.array([list(row) for row in text.split('\n')])
    images = [
        np.rot90(image, turns) for image in (cells, cells.T) for turns in range(4)
    ]
    texts = {'\n'.join(map(''.join, image)) for image in images}
    return texts | {text.translate(str.maketrans('SE', 'ES')) for text in texts}


def test_turned_mirrored_and_reversed_mazes_are_one_maze():
    cells = itertools.permutations('SE.**.', 6)
    mazes = sorted({'\n'.join((''.join(x[:3]), ''.join(x[3:]))) for x in cells})
    assert len(mazes) > 100
    for a, b in itertools.product(mazes, repeat=2):
        alike = maze.canonical_form(a) == maze.canonical_form(b)
        assert alike == (b in images_of(a))


def test_a_maze_with_two_ends_is_not_reversed():
    assert maze.canonical_form('S.E\n..E').count('S') == 1
    assert maze.canonical_form('S.E\n..E') == maze.canonical_form('E..\nE.S')
