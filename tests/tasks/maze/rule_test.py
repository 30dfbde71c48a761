import json

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
