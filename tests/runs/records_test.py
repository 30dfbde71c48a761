"""Records that are not what was written are found, whatever was done to them."""

import json

import pytest

from passk_jax.runs.records import Lines, LinesDigest, changed_records
from tests.runs.metric_writer_test import _open, _run


def changed(path, digests, step=4):
    texts = changed_records(Lines(path), step=step, digests=digests)
    return [text.removesuffix(f' as it was before step {step}') for text in texts]


@pytest.fixture
def written(tmp_path):
    """A run killed after step 5, and the digests of its checkpoint before step 4."""
    _run(tmp_path, start=0, stop=4)
    with _open(tmp_path, resume_step=4) as writer:
        digests = writer.digests(4)
    _run(tmp_path, start=4, stop=6)
    return tmp_path, digests


def cut(content):
    """Loses the last line of step 3 and all later ones."""
    lines = content.splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if json.loads(line)['step'] == 3)
    return b''.join(lines[:last])


def flip(content):
    """Another digit, so that it is JSON still."""
    place = content.rindex(b'"step": 2') - 3
    while not content[place : place + 1].isdigit():
        place -= 1
    digit = b'%d' % (9 - int(content[place : place + 1]))
    return content[:place] + digit + content[place + 1 :]


def repeat(content):
    first, tail = content.split(b'\n', 1)
    return first + b'\n' + first + b'\n' + tail


def reorder(content):
    lines = content.splitlines(keepends=True)
    return b''.join([lines[1], lines[0], *lines[2:]])


def add_nan(content):
    head, tail = content.split(b'}', 1)
    return head + b', "loss": NaN}' + tail


DAMAGE = (cut, flip, repeat, reorder, add_nan, lambda content: b'')


@pytest.mark.parametrize('damage', DAMAGE)
@pytest.mark.parametrize('name', ['metrics', 'timing', 'diagnostics', 'digests'])
def test_a_file_of_lines_is_what_was_written(written, name, damage):
    path, digests = written
    assert changed(path, digests) == []
    file = path / f'{name}.jsonl'
    file.write_bytes(damage(file.read_bytes()))
    assert changed(path, digests) == [f'{name}.jsonl']
    file.unlink()
    assert changed(path, digests) == [f'{name}.jsonl']


@pytest.mark.parametrize(
    'damage',
    [lambda x: x[:-1], lambda x: x + x, lambda x: x.replace(b'2', b'3'), lambda x: b''],
)
@pytest.mark.parametrize(
    'name',
    ['rollouts/step_00000002.jsonl', 'evaluation/validation_step_00000002.jsonl'],
)
def test_a_file_of_a_step_is_what_was_written(written, name, damage):
    path, digests = written
    (path / name).write_bytes(damage((path / name).read_bytes()))
    assert changed(path, digests) == [name]
    # missing_records() names absent files.
    (path / name).unlink()
    assert changed(path, digests) == []


def test_what_came_after_the_checkpoint_may_be_anything(written):
    path, digests = written
    for name in ('metrics', 'timing', 'diagnostics', 'digests'):
        lines = (path / f'{name}.jsonl').read_text().splitlines(keepends=True)
        early = [line for line in lines if json.loads(line)['step'] < 4]
        (path / f'{name}.jsonl').write_text(''.join(early) + '{"step": 4}\n{"ste')
    (path / 'rollouts' / 'step_00000005.jsonl').write_text('')
    assert changed(path, digests) == []


def test_of_many_files_a_few_are_named(written):
    path, digests = written
    for file in (path / 'rollouts').iterdir():
        file.write_text('')
    assert changed(path, digests)[-1] == '1 more files'


def test_a_run_older_than_digests_is_taken_as_it_is(written):
    path, _ = written
    (path / 'digests.jsonl').unlink()
    assert changed(path, {}) == []


def test_a_digest_of_lines_is_that_of_the_steps_before():
    digest = LinesDigest(b'', 0)
    assert digest.before(0) == LinesDigest(b'', 5).before(5)
    digest.add(0, b'a\n')
    digest.add(0, b'b\n')
    assert digest.before(1) == LinesDigest(b'a\nb\n', 1).before(1)
    digest.add(2, b'c\n')
    assert digest.before(2) == LinesDigest(b'a\nb\n', 2).before(2)
    assert digest.before(3) == LinesDigest(b'a\nb\nc\n', 3).before(3)
