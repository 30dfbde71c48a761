"""What an evaluation leaves, and what may take its place."""

import dataclasses
import json

import pytest

from passk_jax.errors import InputError
from passk_jax.evaluation import saved
from passk_jax.types import Problem

ROWS = [{'n': 1, 'text': 'a\u2028b\ud800'}, {'n': 2, 'text': ''}]
SETTINGS = {
    'step': 4,
    'task': {'name': 'math', 'params': {'test_files': ('a',)}},
    'data': {'dir': '/a', 'max_prompt_tokens': 8},
    'problems': '0f',
}


@pytest.fixture
def path(tmp_path):
    """Of an evaluation that is there."""
    summary = SETTINGS | {'metrics': {'pass_at_1': 0.5}}
    saved.write(tmp_path / 'x_k=1.5', ROWS, summary)
    return tmp_path / 'x_k=1.5'


def test_what_was_written_is_read(path):
    rows, summary = saved.read(path)
    assert rows == ROWS
    assert summary['metrics'] == {'pass_at_1': 0.5}


def test_a_name_says_what_was_changed_and_no_two_are_equal():
    names = [
        saved.name_of('test', 5, {'task': value, 'top_k': 2})
        for value in ('a/b', 'a%2Fb', 'a_b')
    ]
    assert names[2] == 'test_step_00000005_task=a_b_top_k=2'
    assert len({*names}) == 3
    assert not any('/' in name for name in names)


@pytest.mark.parametrize('letter', ['a', 'ä', '💡'])
def test_a_long_name_can_be_written_and_no_two_are_equal(letter, tmp_path):
    tasks = letter * 300, letter * 301
    names = [saved.name_of('test', 5, {'task': task, 'top_k': 2}) for task in tasks]
    assert len({*names}) == 2
    for name in names:
        assert name.startswith(f'test_step_00000005_task={letter * 30}')
        saved.write(tmp_path / name, ROWS, {})
        assert saved.read(tmp_path / name)[0] == ROWS


def test_the_same_settings_are_there_wherever_the_problems_lie(path):
    assert saved.is_there(path, SETTINGS)
    moved = SETTINGS | {'data': SETTINGS['data'] | {'dir': '/b'}}
    assert saved.is_there(path, moved)
    assert not saved.is_there(path.with_name('y'), SETTINGS)


def test_what_earlier_versions_did_not_write_is_unknown(path, tmp_path):
    more = SETTINGS | {'seed': 0, 'max_response_tokens': 8}
    assert saved.is_there(path, more)
    saved.write(tmp_path / 'z', ROWS, more)
    assert saved.is_there(tmp_path / 'z', more)
    with pytest.raises(ValueError, match='max_response_tokens: 8 there, 9 now'):
        saved.is_there(tmp_path / 'z', more | {'max_response_tokens': 9})


@pytest.mark.parametrize(
    ('changes', 'ending'),
    [
        ({'step': 5}, 'step: 4 there, 5 now'),
        (
            {'task': {'name': 'math', 'params': {'test_files': ('b',)}}},
            r'task.params.test_files: \["a"\] there, \["b"\] now',
        ),
        (
            {'problems': 'ff', 'data': {'dir': '/b', 'max_prompt_tokens': 8}},
            'data.dir: "/a" there, "/b" now\n  problems: "0f" there, "ff" now',
        ),
        ({'checkpoint': 'ff'}, 'checkpoint: absent there, "ff" now'),
    ],
)
def test_other_settings_are_refused_by_name(path, changes, ending):
    words = r'x_k=1.5.json is of an evaluation with other settings: remove .* '
    with pytest.raises(InputError, match=f'(?s){words}.*--overwrite.*{ending}$'):
        saved.is_there(path, SETTINGS | changes)


def test_what_was_interrupted_is_not_there(path, monkeypatch):
    """Neither the records alone nor the settings alone."""
    path.with_name(f'{path.name}.jsonl').rename(path.with_name('moved'))
    assert not saved.is_there(path, SETTINGS)

    def full(*_):
        raise OSError('disk full')

    monkeypatch.setattr(saved, 'atomic_write_text', full)
    with pytest.raises(OSError, match='disk full'):
        saved.write(path, [], SETTINGS)
    path.with_name('moved').rename(path.with_name(f'{path.name}.jsonl'))
    assert not saved.is_there(path, SETTINGS)


def test_what_cannot_be_read_is_refused(path):
    file = path.with_name(f'{path.name}.json')
    for text in ('{"step"', '[]', '3'):
        file.write_text(text)
        with pytest.raises(InputError, match=r'x_k=1.5.json is of an evaluation'):
            saved.is_there(path, SETTINGS)
    file.write_text('{"step"')
    with pytest.raises(InputError, match=r'x_k=1.5.jsonl or .json cannot be read'):
        saved.read(path)


def test_problems_are_the_same_if_all_of_each_is():
    problems = [Problem(i, f'p{i}', {'answer': 'x'}, 'c') for i in range(2)]
    digest = saved.digest_of(problems)
    assert digest == saved.digest_of(iter(problems))
    assert json.dumps(digest)
    for changes in (
        {'id': 7},
        {'prompt': 'q'},
        {'data': {'answer': 'y'}},
        {'category': 'd'},
        {'images': (b'x',)},
    ):
        other = dataclasses.replace(problems[1], **changes)
        assert saved.digest_of([problems[0], other]) != digest
    assert saved.digest_of(problems[::-1]) != digest
    pictured = [dataclasses.replace(problems[0], images=(x,)) for x in (b'x', b'y')]
    assert saved.digest_of(pictured[:1]) != saved.digest_of(pictured[1:])
