import json

import pytest

from passk_jax.tasks.enigmata.checkmate_in_one import CHECKMATE_IN_ONE
from tests.tasks.enigmata.judge import error_of

# The scholar's mate.
_DATA = {'question': '1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4.', 'answer': 'Qxf7#'}


def test_the_file_is_that_of_big_bench(tmp_path):
    example = {
        'input': _DATA['question'] + ' ',
        'target': _DATA['answer'],
        'target_scores': {'Qxf7#': 1, 'Qxe5+': 0},
    }
    file = tmp_path / 'task.json'
    file.write_text(json.dumps({'name': 'checkmate_in_one', 'examples': [example]}))
    (problem,) = CHECKMATE_IN_ONE.problems(file)
    assert (problem.group, problem.level) == (_DATA['question'], 'medium')
    assert problem.data == _DATA


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('Qxf7#', None),
        ('qxf7#', 'another move'),
        ('Bxf7+', 'another move'),
        ('Qf8', 'another move'),
        ('Qxf7# or Qxe5+', 'another move'),
    ],
)
def test_the_stored_move_is_right(answer, error):
    for official in (False, True):
        assert error_of(CHECKMATE_IN_ONE, _DATA, answer, official=official) == error


def test_a_record_of_enigmata_keeps_its_text():
    record = {'meta': {'question': _DATA['question']}, 'answer': 'Qxf7#'}
    assert CHECKMATE_IN_ONE.read(record) == _DATA
