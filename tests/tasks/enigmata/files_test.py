import json

import pytest

from passk_jax.tasks import records
from passk_jax.tasks.enigmata import files
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import LEVELS, OneAnswer
from passk_jax.tasks.enigmata.splits import SPLITS


class _Sums(OneAnswer, FilePuzzle):
    """A problem is a pair of numbers; pairs with the same first one are a group."""

    name, category, rules = 'sums', 'Arithmetic', 'Answer: the sum'
    files = ('a.jsonl', 'b.jsonl')
    origin = 'make it yourself (public domain)'

    def problems(self, file):
        for _, (first, second) in records.read_lines(file):
            data = {'question': f'{first} + {second}', 'answer': str(first + second)}
            yield FileProblem(str(first), LEVELS[second % 2], data)


class _TestedSums(_Sums):
    files = ('a.jsonl',)
    test_files = ('b.jsonl',)


_ALL = dict.fromkeys(SPLITS, 1000)
_PAIRS = [(first, second) for first in range(100) for second in range(4)]


@pytest.fixture
def write(tmp_path):
    def write(a=_PAIRS, b=()):
        for name, pairs in (('a', a), ('b', b)):
            lines = [json.dumps(pair) + '\n' for pair in pairs]
            (tmp_path / f'{name}.jsonl').write_text(''.join(lines))
        return str(tmp_path)

    return write


def _read(data_dir, puzzle=None, levels=('easy', 'medium'), counts=_ALL):
    return files.read_splits(
        puzzle or _Sums(), levels=levels, counts=counts, data_dir=data_dir
    )


def _questions(splits):
    return {
        split: [data['question'] for data in problems]
        for split, problems in splits.items()
    }


def test_a_group_lies_in_one_split_and_every_problem_in_one(write):
    splits = _questions(_read(write()))
    groups = {
        split: {question.split()[0] for question in questions}
        for split, questions in splits.items()
    }
    assert sum(len(members) for members in groups.values()) == 100
    assert sorted(q for x in splits.values() for q in x) == sorted(
        f'{a} + {b}' for a, b in _PAIRS
    )
    shares = {split: len(groups[split]) for split in SPLITS}
    assert 4 <= shares['validation'] <= 18
    assert 12 <= shares['test'] <= 30


def test_a_split_depends_on_content_only(write):
    splits = _read(write())
    assert _read(write(a=_PAIRS[:200][::-1], b=_PAIRS[150:])) == splits
    fewer = _questions(_read(write(a=_PAIRS[::3])))
    for split, questions in _questions(splits).items():
        assert set(fewer[split]) <= set(questions)


def test_levels_come_one_after_the_other_with_at_most_their_number(write):
    data_dir = write()
    splits = _read(data_dir, counts={'test': 5, 'validation': 0, 'train': 1000})
    assert [data['level'] for data in splits['test']] == ['easy'] * 5 + ['medium'] * 5
    assert {data['puzzle'] for data in splits['test']} == {'sums'}
    assert splits['validation'] == []
    assert 100 < len(splits['train']) < 200 * 2
    every = _read(data_dir)
    assert splits['test'][:5] == every['test'][:5]
    assert (
        _read(data_dir, levels=('medium',))['test']
        == every['test'][
            -len([data for data in every['test'] if data['level'] == 'medium']) :
        ]
    )


def test_what_is_kept_for_tests_is_the_test_split(write):
    b = [(0, 2), (0, 3), (1, 1), (200, 0)]
    splits = _questions(_read(write(b=b), _TestedSums()))
    assert sorted(splits['test']) == ['0 + 2', '0 + 3', '1 + 1', '200 + 0']
    untested = splits['train'] + splits['validation']
    # Nothing of groups 0 and 1.
    assert len(untested) == 98 * 4
    assert {question.split()[0] for question in untested}.isdisjoint({'0', '1', '200'})


def test_a_missing_file_says_where_to_get_it(tmp_path):
    message = r"puzzle sums reads .*a\.jsonl', which is absent: make it yourself \(pub"
    with pytest.raises(ValueError, match=message):
        _read(str(tmp_path))


@pytest.mark.parametrize(
    'line', ['7', '[1]', '{', '[1, null]', '{"a": 1}', '[' * 100_000]
)
def test_a_malformed_file_is_named(write, tmp_path, line):
    data_dir = write()
    (tmp_path / 'b.jsonl').write_text(line)
    with pytest.raises(ValueError, match=r'b\.jsonl: .*(malformed|not JSON)'):
        _read(data_dir)


def test_levels_that_the_files_lack_are_an_error(write):
    message = r"sums has problems of the levels \['easy', 'medium'\], but none of \['h"
    with pytest.raises(ValueError, match=message):
        _read(write(), levels=('hard',))
