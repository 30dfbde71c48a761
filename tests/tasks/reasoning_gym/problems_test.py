"""Splits from seeds that lie apart, without the package and with it."""

import importlib.util
from importlib import metadata

import pytest

from passk_jax import tasks
from passk_jax.tasks.abilities import Alphabet
from passk_jax.tasks.reasoning_gym import problems, table
from tests.slow import slow_values
from tests.tasks.reasoning_gym import toy

COUNTS = {'test': 4, 'validation': 4, 'train': 8}


def test_ranges_of_splits_and_seeds_do_not_overlap():
    starts = [problems.first_number(s, x) for s in range(3) for x in problems.SPLITS]
    assert starts == [i * 2**32 for i in range(9)]


def test_no_problem_is_in_two_splits_and_test_depends_on_no_other(monkeypatch):
    toy.install(monkeypatch)
    # 16 of the 36 sums, so that draws repeat.
    by_split = problems.generate_splits('gcd', {}, counts=COUNTS, seed=3)
    questions = [item['question'] for items in by_split.values() for item in items]
    assert len({*questions}) == len(questions) == 16
    only = problems.generate_splits('gcd', {}, counts=COUNTS, seed=3, upto='test')
    assert only == {'test': by_split['test']}
    other = problems.generate_splits('gcd', {}, counts=COUNTS, seed=4, upto='test')
    assert other != only


@pytest.mark.parametrize(
    ('config', 'message'),
    [
        (
            {'most': 0},
            r"test problems of gcd: config \{'most': 0\} is refused: .*: most",
        ),
        # The package finds out when it makes an item.
        ({'most': 2.5}, r"test problems of gcd: config \{'most': 2.5\} is refused: "),
        ({'least': 1}, r"config \{'least': 1\} is refused: .*'least'"),
        ({'most': 2}, r'validation problems of gcd: wanted 4 .* only 0 found'),
    ],
)
def test_what_a_set_refuses_or_lacks_is_named(monkeypatch, config, message):
    toy.install(monkeypatch)
    with pytest.raises(ValueError, match=message):
        problems.generate_splits('gcd', config, counts=COUNTS, seed=0)


@pytest.mark.parametrize('installed', [None, '0.1.24'])
def test_a_missing_package_or_version_names_the_package(monkeypatch, installed):
    def version(name):
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(metadata, 'version', version)
    message = rf'needs (\S+==0.1.25), found {installed}: pip install \1$'
    with pytest.raises(ValueError, match=message):
        problems.generate_splits('gcd', {}, counts=COUNTS, seed=0)


def test_an_item_keeps_what_its_scorer_reads_as_json():
    item = {'question': 'q', 'answer': 'a', 'metadata': {'puzzle': (1, {2: 3}), 'x': 4}}
    fields = {'question': 'q', 'answer': 'a'}
    puzzle = {'puzzle': [1, {'2': 3}]}
    assert problems.item_of('jugs', item) == {
        'set': 'jugs',
        **fields,
        'metadata': puzzle,
    }
    assert problems.item_of('dice', item) == {'set': 'dice', **fields, 'metadata': {}}
    assert problems.item_of('maze', item) == {'set': 'maze', **fields}


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'metadata': {}}, "metadata lacks 'puzzle', which jugs needs"),
        ({'metadata': {'puzzle': {1}}}, 'metadata of jugs: .* set is not JSON'),
        ({'answer': ' '}, "answer=' ' is not text"),
        ({'question': 3}, 'question=3 is not text'),
    ],
)
def test_an_item_without_what_a_verdict_reads_is_refused(change, message):
    item = {'question': 'q', 'answer': 'a', 'metadata': {'puzzle': 1}}
    with pytest.raises(ValueError, match=message):
        problems.item_of('jugs', item | change)


def test_problems_with_an_empty_answer_are_left_out(monkeypatch):
    toy.install(monkeypatch)
    monkeypatch.setattr(toy, 'str', lambda n: '' if n == 7 else f'{n}', raising=False)
    by_split = problems.generate_splits('gcd', {}, counts=COUNTS, seed=3)
    answers = [item['answer'] for items in by_split.values() for item in items]
    assert len(answers) == 16
    assert '' not in answers


needs_package = pytest.mark.skipif(
    importlib.util.find_spec('reasoning_gym') is None,
    reason='needs reasoning-gym, an optional extra',
)


@needs_package
@pytest.mark.parametrize(
    'name', ['caesar_cipher', 'letter_counting', 'word_sequence_reversal']
)
def test_the_rare_letters_of_a_book_are_in_the_alphabet(name):
    counts = {'train_count': 1_500, 'validation_count': 0, 'test_count': 0}
    params = {'sets': {name: {}}, 'seed': 0, **counts}
    task = tasks.make_task('reasoning_gym', params)
    problems = task.source('train', data_dir='')
    used = {*''.join(x.data['question'] + x.data['answer'] for x in problems)}
    assert not all(letter.isascii() for letter in used)
    assert used <= {*task.alphabet}


@needs_package
@pytest.mark.parametrize(
    'name',
    slow_values(table.ALLOWED, quick={*table.ALLOWED} - {'futoshiki', 'zebra_puzzles'}),
)
def test_every_set_has_problems_for_each_split_in_its_alphabet(name):
    by_split = problems.generate_splits(name, {}, counts=COUNTS, seed=0)
    assert {split: len(items) for split, items in by_split.items()} == COUNTS
    params = {f'{split}_count': count for split, count in COUNTS.items()}
    task = tasks.make_task('reasoning_gym', {'sets': {name: {}}, 'seed': 0, **params})
    assert isinstance(task, Alphabet)
    assert len(set(task.alphabet)) == len(task.alphabet)
    if name != 'emoji_mystery':
        texts = ''.join(x['question'] + x['answer'] for x in by_split['train'])
        assert set(texts) <= set(task.alphabet)
