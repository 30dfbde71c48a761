import itertools

import pytest

from passk_jax.tasks.enigmata import sliding
from passk_jax.tasks.enigmata.sliding import EIGHT_PUZZLE, FIFTEEN_PUZZLE
from tests.tasks.enigmata.judge import drawn, error_of

_NONE = 'No feasible move path exists.'
# The blank goes down, then right.
_DATA = {'board': [[1, 2, 3], [4, 0, 6], [7, 5, 8]], 'answer': 'DR'}
_ODD = {'board': [[2, 1, 3], [4, 5, 6], [7, 8, 0]], 'answer': _NONE}


@pytest.mark.parametrize(
    ('data', 'answer', 'error', 'official'),
    [
        (_DATA, 'DR', None, None),
        (_DATA, 'D R\n', None, None),
        (_DATA, 'UDDR', None, None),
        # The moves of the tiles.
        (_DATA, 'UL', *['the tiles are not in order'] * 2),
        (_DATA, 'D', *['the tiles are not in order'] * 2),
        (_DATA, 'DRD', *['left the board at move 3'] * 2),
        (_DATA, 'UUDDDR', *['left the board at move 2'] * 2),
        (_DATA, 'D->R', None, None),
        (_DATA, 'dr', None, 'no moves'),
        (_DATA, _NONE, *['there is a path'] * 2),
        (_ODD, _NONE, None, None),
        (_ODD, 'no feasible move path exists', None, None),
        (_ODD, 'LR', *['the tiles are not in order'] * 2),
    ],
)
def test_letters_move_the_blank(data, answer, error, official):
    assert error_of(EIGHT_PUZZLE, data, answer) == error
    assert error_of(EIGHT_PUZZLE, data, answer, official=True) == official


@pytest.mark.parametrize('side', [2, 3])
def test_solvable_boards_are_those_that_moves_reach(side):
    goal = sliding._goal(side)
    corner = (side - 1, side - 1)
    reached, boards = {str(goal)}, [(goal, corner)]
    # 12 boards of side 2; of side 3 the first thousands suffice.
    while boards and len(reached) < 3000:
        board, blank = boards.pop(0)
        assert sliding.solvable(board)
        for move in 'UDLR':
            ahead = sliding._move(board, blank, move)
            if ahead and str(ahead[0]) not in reached:
                reached.add(str(ahead[0]))
                boards.append(ahead)
    if side == 2:
        every = itertools.permutations(range(4))
        assert len(reached) == 12
        assert sum(sliding.solvable([p[:2], p[2:]]) for p in every) == 12


def test_levels_have_their_lengths_and_both_verdicts():
    for puzzle, lengths in (
        (EIGHT_PUZZLE, ((8, 12), (13, 18), (19, 30))),
        (FIFTEEN_PUZZLE, ((8, 16), (17, 32), (33, 60))),
    ):
        for level, (low, high) in enumerate(lengths):
            answers = [data['answer'] for data in drawn(puzzle, level)]
            assert 5 < answers.count(_NONE) < 35
            answer_lengths = {len(answer) for answer in answers if answer != _NONE}
            assert low <= min(answer_lengths) < max(answer_lengths) <= high
