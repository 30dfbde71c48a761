import random

import numpy as np

from passk_jax.tasks.enigmata.on_arrays import batch
from passk_jax.tasks.enigmata.on_arrays.batch import PAD, padded, verify
from passk_jax.tasks.enigmata.on_arrays.table import RULES
from passk_jax.tasks.enigmata.table import PUZZLES
from passk_jax.verifiers.answers import MAX_ANSWER
from tests.tasks.enigmata.judge import drawn
from tests.tasks.enigmata.on_arrays.responses import judged

SUDOKU2 = PUZZLES['sudoku2'], RULES['sudoku2']


def _solved(name, count):
    problems = drawn(PUZZLES[name], 0, count)
    return problems, [PUZZLES[name].response(data['answer']) for data in problems]


def test_each_row_has_its_own_verdict():
    problems, responses = _solved('sudoku2', 12)
    wrong = random.Random(0).sample(range(12), 5)
    responses = [r[:-9] if i in wrong else r for i, r in enumerate(responses)]
    correct, parsed = verify(*SUDOKU2, problems, responses)
    assert np.flatnonzero(~correct).tolist() == sorted(wrong)
    assert correct.dtype == bool
    assert parsed == [SUDOKU2[0].find(response) for response in responses]


def test_shapes_of_rows_may_differ():
    problems, responses = _solved('skyscraper', 12)
    larger = drawn(PUZZLES['skyscraper'], 1, 3)
    problems = [*problems, *larger]
    responses += [PUZZLES['skyscraper'].response(data['answer']) for data in larger]
    responses[3] = responses[13]
    correct, _ = verify(PUZZLES['skyscraper'], RULES['skyscraper'], problems, responses)
    assert np.flatnonzero(~correct).tolist() == [3]


def test_few_numbers_of_rows_have_programs_of_their_own():
    problems, responses = _solved('sudoku2', 70)
    program = batch._compiled(SUDOKU2[1].judge)
    program.clear_cache()
    verify(*SUDOKU2, problems[:3], responses[:3])
    verify(*SUDOKU2, problems[:64], responses[:64])
    assert program._cache_size() == 1
    verify(*SUDOKU2, problems, responses)
    assert program._cache_size() == 2


def test_no_row_and_no_answer():
    correct, parsed = verify(*SUDOKU2, [], [])
    assert (correct.shape, parsed) == ((0,), [])
    correct, parsed = verify(*SUDOKU2, _solved('sudoku2', 1)[0] * 2, ['', '```'])
    assert (correct.tolist(), parsed) == ([False] * 2, [''] * 2)


def test_a_right_path_that_is_too_long_is_wrong():
    data = {'board': [[1, 2, 3], [4, 5, 6], [7, 0, 8]]}
    paths = 'R' + 'LR' * 30, 'R' + 'LR' * (MAX_ANSWER // 2)
    assert judged('eight_puzzle', data, *paths) == [True, False]


def test_a_problem_is_encoded_once_for_all_of_its_rows():
    problems, responses = _solved('sudoku2', 1)
    calls = []

    def problem(data):
        calls.append(data)
        return SUDOKU2[1].problem(data)

    rule = SUDOKU2[1]._replace(problem=problem)
    assert verify(SUDOKU2[0], rule, problems * 5, responses * 5)[0].all()
    assert calls == problems


def test_padding_goes_to_a_power_of_two_and_to_the_room_of_the_first_axis():
    assert padded(7).tolist() == 7
    assert padded([]).tolist() == [PAD]
    assert padded([1, 2, 3]).tolist() == [1, 2, 3, PAD]
    assert padded([[1, 2, 3]], room=2).tolist() == [[1, 2, 3, PAD], [PAD] * 4]
    assert [batch.power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 64, 65)] == [
        *(1, 1, 2, 4, 4, 8, 64, 128),
    ]
