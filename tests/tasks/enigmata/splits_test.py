import pytest

from passk_jax.tasks.enigmata import splits
from passk_jax.tasks.enigmata.table import PUZZLES

_SUDOKU = PUZZLES['sudoku2']


class _Dice(type(_SUDOKU)):
    """A puzzle with six problems, for counting."""

    def __init__(self):
        super().__init__('dice', 2, ())

    def generate(self, draws, level):
        return {'grid': [[draws.between(1, 6)]], 'answer': ''}


def _make(puzzle=None, *, seed=0, levels=('easy', 'hard'), upto='train', **counts):
    counts = {'test': 3, 'validation': 2, 'train': 4} | counts
    return splits.generate_splits(
        puzzle or _SUDOKU, levels=levels, counts=counts, seed=seed, upto=upto
    )


def test_problems_name_their_puzzle_and_level():
    by_split = _make()
    assert {split: len(problems) for split, problems in by_split.items()} == {
        'test': 6,
        'validation': 4,
        'train': 8,
    }
    levels = [data['level'] for data in by_split['train']]
    assert levels == ['easy'] * 4 + ['hard'] * 4
    assert {data['puzzle'] for data in by_split['test']} == {'sudoku2'}


def test_no_problem_occurs_twice_in_all_splits_and_levels():
    by_split = _make(_Dice(), test=1, validation=1, train=1)
    faces = [data['grid'][0][0] for split in by_split.values() for data in split]
    assert sorted(faces) == [1, 2, 3, 4, 5, 6]


def test_too_few_problems_are_an_error_that_counts_them():
    with pytest.raises(ValueError, match=r"train problems of dice at level 'hard': want"
                       r'ed 2 that no other .* only 0 found'):  # fmt: skip
        _make(_Dice(), test=1, validation=1, train=2, levels=('easy', 'hard'))


def test_a_split_depends_on_no_later_one_and_on_the_seed():
    by_split = _make()
    assert _make(upto='test') == {'test': by_split['test']}
    assert _make(train=9, validation=1)['test'] == by_split['test']
    assert _make(train=9)['train'][:4] == by_split['train'][:4]
    assert _make(seed=1)['test'] != by_split['test']


def test_the_hash_is_of_the_question():
    data = _make()['test'][0]
    same = data | {'answer': '', 'level': 'hard'}
    assert _SUDOKU.question_hash(data) == _SUDOKU.question_hash(same)
    other = data | {'grid': data['grid'][::-1]}
    assert _SUDOKU.question_hash(data) != _SUDOKU.question_hash(other)
