"""What random responses seldom show; ``table_test`` has these."""

from tests.tasks.enigmata.on_arrays.responses import judged


def test_no_move_is_right_where_nothing_is_to_be_done():
    sorted_board = {'board': [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}
    assert judged('nine_puzzle', sorted_board, '[]', '["R11"]') == [True, False]
    nothing = {'input': [], 'output': []}
    assert judged('stack_permutation', nothing, '[]', '["Pop()"]') == [True, False]


def test_the_blank_never_leaves_the_board():
    data = {'board': [[1, 2, 3], [4, 5, 6], [7, 0, 8]]}
    paths = 'R', 'DR', 'LLRR', 'LLRRR', 'RRL', 'UUUDDDR', 'R' + 'LR' * 40, 'LR'
    assert judged('eight_puzzle', data, *paths) == [
        *(True, False, False, False, False, False, True, False),
    ]


def test_a_push_of_another_number_and_a_pop_of_nothing_are_wrong():
    data = {'input': [3, 0, 7], 'output': [0, 7, 3]}
    right = '["Push(3)","Push(0)","Pop()","Push(7)","Pop()","Pop()"]'
    answers = (
        right.replace('0', '7'),
        right.replace('Push(0)', 'Pop()'),
        right[:-1] + ',"Pop()"]',
        '["Push(3)","Pop()","Push(0)","Pop()","Push(7)","Pop()"]',
        '["Pop()","Push(3)","Push(0)","Pop()","Push(7)","Pop()"]',
    )
    verdicts = judged('stack_permutation', data, right, *answers)
    assert verdicts == [True] + [False] * 5


def test_no_number_is_pushed_or_popped_twice():
    data = {'input': [1, 2, 3, 4], 'output': [1, 2, 3, 4]}
    three = ''.join(f'"Push({n})","Pop()",' for n in (1, 2, 3))
    ends = (
        '"Push(4)","Pop()"',
        '"Push(4)","Pop()","Push(4)"',
        '"Push(4)","Push(4)"',
        '"Pop()","Push(4)"',
        '"Pop()","Pop()"',
    )
    answers = [f'[{three}{end}]' for end in ends]
    assert judged('stack_permutation', data, *answers) == [True] + [False] * 4


def test_walks_of_the_smallest_graphs():
    pair = {'num_vertices': 2, 'edges': [[0, 1], [0, 0]], 'answer': 'NO'}
    walks = '[0, 1, 0]', '[0, 0, 1]', '[1, 0]', 'NO'
    assert judged('hamiltonian_cycle', pair, *walks) == [False, False, False, True]
    pair |= {'answer': '[0, 1]'}
    assert judged('hamiltonian_path', pair, *walks) == [False, False, True, False]
    triangle = {'num_vertices': 3, 'edges': [[0, 1], [1, 2], [2, 0]], 'answer': ''}
    walks = '[0, 1, 2, 0]', '[0, 1, 2, 1]', '[0, 1, 2, 3]', '[-1, 0, 1, -1]'
    assert judged('hamiltonian_cycle', triangle, *walks) == [True] + [False] * 3
    alone = {'num_vertices': 1, 'edges': [], 'answer': '[0]'}
    assert judged('hamiltonian_path', alone, '[0]', '[1]') == [True, False]


def test_a_way_may_return_but_not_jump_or_leave():
    data = {'blocked': [[0, 0], [1, 0]], 'answer': ''}
    ways = (
        '(1,1)->(1,2)->(2,2)',
        '(1,1)->(1,2)->(1,1)->(1,2)->(2,2)',
        '(1,1)->(2,2)',
        '(1,1)->(2,1)->(2,2)',
        '(1,1)->(1,2)->(0,2)->(1,2)->(2,2)',
        '(1,1)->(1,2)->(1,3)->(1,2)->(2,2)',
        '(1,1)->(1,2)',
        '(1,2)->(2,2)',
    )
    assert judged('maze', data, *ways) == [True] * 2 + [False] * 6
    assert judged('maze', {'blocked': [[0]], 'answer': ''}, '(1,1)') == [True]


def test_a_car_moves_as_far_as_the_reach_and_no_farther():
    data = {'colours': 'ABAB', 'reach': 1, 'switches': 1}
    orders = (
        '[1, 3, 2, 4]',
        '[1, 3, 4, 2]',
        '[1, 2, 3, 4]',
        '[1, 3, 3, 4]',
        '[0, 3, 2, 1]',
    )
    assert judged('car_painting', data, *orders) == [True] + [False] * 4
    assert judged('car_painting', data | {'switches': 3}, orders[2]) == [True]
