"""Which evaluations are read, and which are refused."""

import json

import pytest

from passk_jax.errors import InputError
from passk_jax.evaluation.comparable import check_alike, read_evaluations
from tests.compare_test import evaluation


def read(*paths, **options):
    chosen = {'split': 'test', 'step': None} | options
    return read_evaluations(map(str, paths), **chosen)


@pytest.mark.parametrize(
    ('row', 'words'),
    [
        ({'problem_id': 9, 'n': 8.9, 'c': 1}, 'record 4 has no whole'),
        ({'problem_id': 9, 'n': 8, 'c': '3'}, 'record 4 has no whole'),
        ({'problem_id': 9, 'n': 8, 'c': 9}, 'record 4 must have 0 <= c <= n, n >= 1'),
        ({'problem_id': 9, 'n': 8, 'c': -1}, 'record 4 must have 0 <= c <= n'),
        ({'problem_id': 9, 'n': 0, 'c': 0}, 'record 4 must have 0 <= c <= n'),
        ({'problem_id': 9, 'n': 10**30, 'c': 1}, 'record 4 must have 0 <= c <= n'),
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
    evaluations = read(*files)
    assert [evaluation.seed for evaluation in evaluations] == [3, 8]
    assert [evaluation.file for evaluation in evaluations] == files[::-1]


def test_files_without_a_seed_keep_their_order_and_are_not_mixed_with_others(tmp_path):
    files = [evaluation(tmp_path / name, [1, 2]) for name in ('d', 'c', 'b', 'a')]
    assert [evaluation.file for evaluation in read(*files)] == files
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


def test_a_link_of_a_run_to_a_store_has_the_seed_and_step_of_the_run(tmp_path):
    for name, seed, step in (('x', 1, 5), ('y', 2, 7)):
        file = evaluation(with_seed(tmp_path / name, seed), [1, 2], step=step)
        blob = tmp_path / f'blob of {name}'
        file.rename(blob)
        file.symlink_to(blob)
    arms = {name: read(tmp_path / name) for name in ('x', 'y')}
    assert [of_arm[0].seed for of_arm in arms.values()] == [1, 2]
    with pytest.raises(InputError, match='are of different steps'):
        check_alike(arms)
    # And a link to the file of a run has its seed.
    (tmp_path / 'link.jsonl').symlink_to(tmp_path / 'x' / 'evaluation' / file.name)
    (tmp_path / 'x' / 'evaluation' / file.name).write_text('')
    assert read(tmp_path / 'link.jsonl')[0].seed == 1


def test_a_link_in_a_run_to_a_file_of_another_has_the_seed_of_its_own_run(tmp_path):
    target = evaluation(with_seed(tmp_path / 'theirs', 2), [1, 2])
    link = evaluation(with_seed(tmp_path / 'own', 1), [1, 2])
    link.unlink()
    link.symlink_to(target)
    assert read(tmp_path / 'own')[0].seed == 1


def test_where_the_command_runs_gives_no_file_a_seed(tmp_path, monkeypatch):
    inside = evaluation(with_seed(tmp_path / 'a', 1), [1, 2]).parent
    outside = evaluation(tmp_path / 'b', [1, 2])
    monkeypatch.chdir(inside)
    (single,) = read(f'../../b/evaluation/{outside.name}')
    assert (single.file, single.seed) == (outside, None)


@pytest.mark.parametrize('seed', ['0', {}, 1.0])
def test_a_seed_that_is_no_number_is_refused(tmp_path, seed):
    evaluation(with_seed(tmp_path / 'a', seed), [1, 2])
    with pytest.raises(InputError, match=r'config\.json has seed=.* a whole number'):
        read(tmp_path / 'a')


def test_two_runs_of_one_seed_are_not_two_seeds(tmp_path):
    for name, seed in {'a': 0, 'b': 0, 'c': 0, 'd': 1, 'e': 1}.items():
        evaluation(with_seed(tmp_path / name, seed), [1, 2])
    arm = {name: read(tmp_path / name) for name in 'abcde'}
    # One run an arm may be of any seed: nothing is paired.
    check_alike({'one': arm['a'], 'two': arm['d']})
    check_alike({'one': arm['a'] + arm['d'], 'two': arm['b'] + arm['e']})
    with pytest.raises(
        InputError, match=r'two has the seeds \[0, 0\], and \[0\] twice'
    ):
        check_alike({'one': arm['a'] + arm['d'], 'two': arm['b'] + arm['c']})


def test_an_odd_line_break_in_a_response_ends_no_record(tmp_path):
    file = evaluation(tmp_path / 'a', [1, 2])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    texts = [row | {'responses': {'0': 'so\u2028on'}} for row in rows]
    lines = [json.dumps(row, ensure_ascii=False) + '\n' for row in texts]
    file.write_text(''.join(lines))
    assert len(read(file)[0].counts) == 2


@pytest.mark.parametrize('key', ['category', 'problem_digest'])
def test_other_problems_of_the_same_numbers_are_refused(tmp_path, key):
    for name, digest in {'a': 'x', 'b': 'y', 'c': 'x', 'old': None}.items():
        file = evaluation(tmp_path / name, [1, 2])
        rows = [
            json.loads(line) | {key: digest} for line in file.read_text().splitlines()
        ]
        if digest is None:
            rows = [{k: v for k, v in row.items() if k != key} for row in rows]
        file.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    arms = {name: read(tmp_path / name) for name in ('a', 'b', 'c', 'old')}
    check_alike({name: arms[name] for name in ('a', 'c', 'old')})
    with pytest.raises(InputError, match='different problems, for example of number'):
        check_alike({name: arms[name] for name in ('a', 'b')})
    with pytest.raises(InputError, match=r'problems.*set \(a reward function'):
        check_alike({'one': arms['a'], 'two': [*arms['c'], *arms['b']]})
    # A run without the key does not hide the difference between the others.
    with pytest.raises(InputError, match=r'a/.* and .*b/.* have different problems'):
        check_alike({name: arms[name] for name in ('a', 'old', 'b')})


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
