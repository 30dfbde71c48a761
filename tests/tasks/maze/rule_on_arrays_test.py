import json
import time

import jax
import numpy as np
import pytest

from passk_jax.tasks.maze import rule as maze
from passk_jax.tasks.maze import rule_on_arrays


def _random_maze(rng, height, width):
    cells = np.where(rng.random(height * width) < 0.15, maze.WALL, maze.FREE)
    start, *ends = rng.permutation(height * width)[: rng.integers(2, 5)]
    cells[start], cells[ends] = maze.START, maze.END
    return '\n'.join(''.join(row) for row in cells.reshape(height, width))


def _random_moves(rng, longest):
    return ''.join(rng.choice(list(maze.MOVES), rng.integers(0, longest)))


def test_every_official_verdict_is_reproduced(shared_dir):
    path = shared_dir / 'data' / 'maze' / 'verifier_parity.jsonl'
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    correct = rule_on_arrays.verify(
        [case['maze'] for case in cases],
        [[maze.parse_moves(case['response'])] for case in cases],
    )
    official = np.array([[case['official_score']] for case in cases], bool)
    np.testing.assert_array_equal(correct, official)


def test_it_agrees_with_the_scalar_rule_on_random_mazes_of_mixed_shapes():
    rng = np.random.default_rng(0)
    mazes = [_random_maze(rng, *rng.integers(2, 10, 2)) for _ in range(400)]
    moves = [[_random_moves(rng, 12) for _ in range(20)] for _ in mazes]
    moves[0][0] = 'U' * 300  # Another length of the encoded array for all.
    correct = rule_on_arrays.verify(mazes, moves)
    scalar = [
        [maze.verdict(text, path).correct for path in row]
        for text, row in zip(mazes, moves, strict=True)
    ]
    np.testing.assert_array_equal(correct, scalar)
    assert 100 < correct.sum() < correct.size - 100


def test_a_very_long_path_is_judged_and_holds_up_no_other():
    paths = ['RL' * 50_000, 'RL' * 50_000 + 'RR', *['RR', 'R'] * 511]
    rule_on_arrays.verify(['S.E'], [paths[2:] * 2])
    start = time.process_time()
    correct = rule_on_arrays.verify(['S.E'], [paths])
    assert time.process_time() - start < 0.5
    assert correct.tolist() == [[False, True, *[True, False] * 511]]


def test_padding_of_grids_and_moves_does_not_change_a_verdict():
    rng = np.random.default_rng(1)
    mazes = [_random_maze(rng, 4, 4) for _ in range(200)]
    moves = [_random_moves(rng, 9) for _ in mazes]
    exact, padded = (
        rule_on_arrays.verify_moves(
            rule_on_arrays.encode_grids(mazes, multiple_of=side),
            rule_on_arrays.encode_moves(moves, length=length),
        )
        for side, length in ((4, 8), (11, 40))
    )
    np.testing.assert_array_equal(exact, padded)
    assert exact.any()


def test_staying_anywhere_in_a_path_changes_nothing():
    grid = rule_on_arrays.encode_grids(['S.E'])
    moves = np.zeros((1, 6), np.int8)
    moves[0, [1, 4]] = rule_on_arrays.RIGHT
    assert rule_on_arrays.verify_moves(grid, moves).tolist() == [True]


def test_a_grid_without_a_start_is_never_solved():
    grids = np.full((1, 3, 3), rule_on_arrays.END, np.int8)
    assert not rule_on_arrays.verify_moves(grids, np.zeros((1, 4), np.int8)).any()


def test_it_runs_inside_the_mesh_of_a_training_loop():
    axis_types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ('data', 'fsdp'), axis_types=axis_types)
    with jax.set_mesh(mesh), jax.transfer_guard('disallow'):
        correct = rule_on_arrays.verify(['S.E', 'SE.'], [['RR', 'R'], ['RR', 'R']])
    assert correct.tolist() == [[True, False], [False, True]]


def test_similar_batches_share_a_compiled_program():
    rule_on_arrays.verify(['S....E'], [['RRRRR'] * 70])
    compiled = rule_on_arrays.verify_moves._cache_size()
    rule_on_arrays.verify(['S.\n.E'] * 3, [['RD'] * 40] * 3)
    rule_on_arrays.verify(['S.E'], [['R' * 16] * 100])
    assert rule_on_arrays.verify_moves._cache_size() == compiled


def test_no_responses_give_no_verdicts():
    assert rule_on_arrays.verify([], []).shape == (0, 0)
    assert rule_on_arrays.verify(['S.E'], [[]]).shape == (1, 0)


def test_impossible_arguments_are_refused():
    with pytest.raises(ValueError, match='same number of paths'):
        rule_on_arrays.verify(['S.E', 'S.E'], [['R'], ['R', 'R']])
    with pytest.raises(ValueError, match='same number of paths'):
        rule_on_arrays.verify(['S.E'], [['R'], ['R']])
    with pytest.raises(ValueError, match='no E'):
        rule_on_arrays.verify(['S..'], [['R']])
    with pytest.raises(ValueError, match='do not fit'):
        rule_on_arrays.encode_moves(['RRR'], length=2)
