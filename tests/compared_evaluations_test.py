"""Which evaluations are read, and which are refused."""

import json

import pytest

from passk_jax.compared_evaluations import check_alike, read_evaluations
from passk_jax.errors import InputError
from tests.compare_test import evaluation


def read(*paths, **options):
    chosen = {'split': 'test', 'step': None} | options
    return read_evaluations(map(str, paths), **chosen)


@pytest.mark.parametrize(
    ('row', 'words'),
    [
        ({'problem_id': 9, 'n': 8.9, 'c': 1}, 'record 4 has no whole'),
        ({'problem_id': 9, 'n': 8, 'c': '3'}, 'record 4 has no whole'),
        ({'problem_id': 1, 'n': 4, 'c': 1}, 'record 4 has problem=1 a second time'),
    ],
)
def test_a_record_that_is_not_one_is_refused(row, words, tmp_path):
    file = evaluation(tmp_path, [1, 1, 1])
    file.write_text(file.read_text() + json.dumps(row) + '\n')
    with pytest.raises(InputError, match=words):
        read(file)


def with_seed(run, seed):
    run.mkdir(exist_ok=True)
    (run / 'config.json').write_text(json.dumps({'seed': seed}))
    return run


def test_a_file_of_a_run_has_its_seed_wherever_it_lies(tmp_path):
    files = []
    for name, seed in (('x', 8), ('y', 3)):
        with_seed(tmp_path / name, seed)
        file = evaluation(tmp_path / name, [1, 2])
        files.append(file.parent / 'by_command' / file.name)
        files[-1].parent.mkdir()
        file.rename(files[-1])
    found = read(*files)
    assert [each.seed for each in found] == [3, 8]
    assert [each.file for each in found] == [file.resolve() for file in files[::-1]]


def test_files_without_a_seed_keep_their_order_and_are_not_mixed_with_others(tmp_path):
    files = [evaluation(tmp_path / name, [1, 2]) for name in ('d', 'c', 'b', 'a')]
    assert [each.file for each in read(*files)] == [file.resolve() for file in files]
    check_alike({'one': read(*files[:2]), 'two': read(*files[2:])})
    with_seed(tmp_path / 'b', 5)
    with pytest.raises(InputError, match=r'\[None, None\] and two has \[5, None\]'):
        check_alike({'one': read(*files[:2]), 'two': read(*files[2:])})


def test_a_run_that_is_named_in_two_ways_is_one(tmp_path):
    file = evaluation(tmp_path / 'a', [1, 2])
    again = tmp_path / 'a' / '..' / 'a'
    (tmp_path / 'link').symlink_to(tmp_path / 'a')
    for other in (file, again, tmp_path / 'link'):
        with pytest.raises(InputError, match='would be compared with themselves'):
            check_alike({'one': read(tmp_path / 'a'), 'two': read(other)})


@pytest.mark.parametrize('key', ['category', 'digest'])
def test_other_problems_of_the_same_numbers_are_refused(tmp_path, key):
    for name, own in {'a': 'x', 'b': 'y', 'c': 'x', 'old': None}.items():
        file = evaluation(tmp_path / name, [1, 2])
        rows = [json.loads(line) | {key: own} for line in file.read_text().splitlines()]
        if own is None:
            rows = [{k: v for k, v in row.items() if k != key} for row in rows]
        file.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    arms = {name: read(tmp_path / name) for name in ('a', 'b', 'c', 'old')}
    check_alike({name: arms[name] for name in ('a', 'c', 'old')})
    with pytest.raises(InputError, match='different problems, for example of number'):
        check_alike({name: arms[name] for name in ('a', 'b')})
    with pytest.raises(InputError, match='different problems'):
        check_alike({'one': arms['a'], 'two': [*arms['c'], *arms['b']]})


@pytest.mark.parametrize('cut', ['', '{"problem_id": 9', '[1]', '"x"'])
def test_a_record_that_cannot_be_read_is_named(tmp_path, cut):
    file = evaluation(tmp_path / 'a', [1, 2])
    file.write_text(file.read_text() + cut)
    if not cut:
        assert len(read(file)[0].counts) == 2
        return
    with pytest.raises(InputError, match='record 3 cannot be read'):
        read(file)


def test_a_damaged_config_is_named(tmp_path):
    evaluation(tmp_path / 'a', [1, 2])
    (tmp_path / 'a' / 'config.json').write_text('{"seed"')
    with pytest.raises(InputError, match=r'config\.json cannot be read'):
        read(tmp_path / 'a')
