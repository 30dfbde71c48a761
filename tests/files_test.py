"""A file is as it was or as it should be, whatever goes wrong in between."""

import json
import os
import pathlib
import threading

import pytest

from passk_jax import files


def test_text_is_written_as_utf_8(tmp_path):
    path = tmp_path / 'a.txt'
    files.atomic_write_text(path, 'Â\n')
    assert path.read_bytes() == 'Â\n'.encode()


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / 'a.bin'
    files.atomic_write_bytes(path, b'old and longer')
    files.atomic_write_bytes(str(path), b'new')
    assert path.read_bytes() == b'new'
    assert os.listdir(tmp_path) == ['a.bin']


@pytest.mark.parametrize('failing', ['fsync', 'replace'])
def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, failing):
    path = tmp_path / 'a.txt'
    files.atomic_write_text(path, 'old')

    def fail(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match='No space left') as error:
        files.atomic_write_text(path, 'new')
    assert error.value.filename == str(path)
    assert path.read_text() == 'old'
    assert os.listdir(tmp_path) == ['a.txt']


def test_the_new_file_is_complete_before_it_replaces_the_old(tmp_path, monkeypatch):
    path = tmp_path / 'a.txt'
    files.atomic_write_text(path, 'old')
    seen = []
    replace = os.replace

    def spy(source, target):
        seen.append((pathlib.Path(source).read_text(), path.read_text()))
        replace(source, target)

    monkeypatch.setattr(os, 'replace', spy)
    files.atomic_write_text(path, 'new')
    assert seen == [('new', 'old')]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    """A device is no regular file either; root would replace ``/dev/null``."""
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    # A writer waits for a reader.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        files.atomic_write_text(pipe, 'a')
        assert os.read(reader, 9) == b'a'
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ['pipe']


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path):
    (tmp_path / 'there').mkdir()
    target, link = tmp_path / 'there' / 'a.txt', tmp_path / 'link'
    link.symlink_to('there/a.txt')
    for text in ('made', 'replaced'):
        files.atomic_write_text(link, text)
        assert (link.is_symlink(), target.read_text()) == (True, text)
    assert os.listdir(target.parent) == ['a.txt']


@pytest.mark.parametrize('stream', [1, 2])
def test_what_an_output_already_has_stays(tmp_path, stream):
    path, before = tmp_path / 'all.txt', os.dup(stream)
    path.write_text('first\n')
    with path.open('ab') as appended:
        os.dup2(appended.fileno(), stream)
    try:
        files.check_writable(f'/dev/fd/{stream}')
        files.atomic_write_text(f'/dev/fd/{stream}', 'second\n')
        files.atomic_write_text(path, 'third\n')
    finally:
        os.dup2(before, stream)
        os.close(before)
    assert path.read_text() == 'first\nsecond\nthird\n'


def test_the_error_of_a_write_is_not_lost_in_cleaning_up(tmp_path, monkeypatch):
    def fail(path):
        raise OSError(5, 'Input/output error', str(path))

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'fsync', full)
    monkeypatch.setattr(os, 'unlink', fail)
    with pytest.raises(OSError, match='No space left'):
        files.atomic_write_text(tmp_path / 'a.txt', '')


def test_what_a_kill_leaves_of_a_write_can_be_told_and_removed(tmp_path, monkeypatch):
    def kill(*_):
        monkeypatch.setattr(os, 'unlink', lambda path: None)
        raise KeyboardInterrupt

    files.atomic_write_text(tmp_path / 'a.txt', 'old')
    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', kill)
        with pytest.raises(KeyboardInterrupt):
            files.atomic_write_text(tmp_path / 'a.txt', 'new')
    monkeypatch.undo()
    assert len(os.listdir(tmp_path)) == 2
    files.remove_unfinished(tmp_path, {'b.txt', 'a'})
    assert len(os.listdir(tmp_path)) == 2
    files.remove_unfinished(tmp_path, {'a.txt'})
    assert os.listdir(tmp_path) == ['a.txt']
    files.remove_unfinished(tmp_path / 'absent')


def test_whether_a_file_can_be_written_is_known_without_writing(tmp_path):
    (tmp_path / 'link').symlink_to('absent/a.txt')
    (tmp_path / 'circle').symlink_to('circle')
    for good in ('a.txt', '/dev/null'):
        files.check_writable(tmp_path / good)
    for bad, error in (
        ('.', IsADirectoryError),
        ('link', FileNotFoundError),
        ('circle', OSError),
        ('/proc/a.txt', OSError),
    ):
        with pytest.raises(error) as raised:
            files.check_writable(tmp_path / bad)
        assert raised.value.filename == str(tmp_path / bad)
    assert sorted(os.listdir(tmp_path)) == ['circle', 'link']


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    path = tmp_path / 'a.txt'
    before = os.umask(0o022)
    try:
        files.atomic_write_text(path, '')
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_place_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(FileNotFoundError, match='absent'):
        files.atomic_write_text(tmp_path / 'absent' / 'a.txt', '')
    with pytest.raises(NotADirectoryError, match='file'):
        files.atomic_write_text(tmp_path / 'file' / 'a.txt', '')


def test_json_is_read_as_utf_8(tmp_path):
    path = tmp_path / 'a.json'
    path.write_bytes('{"a": ["Â", 1.5]}'.encode())
    assert files.read_json(path) == {'a': ['Â', 1.5]}
    path.write_bytes(b'"\xff"')
    with pytest.raises(ValueError, match='utf-8'):
        files.read_json(path)


@pytest.mark.parametrize('deep', [150, 5000, 100_000])
@pytest.mark.parametrize('ends', ['[]', '{}'])
def test_json_that_is_nested_too_deep_is_no_json(tmp_path, deep, ends):
    text = (
        '[' * deep + ']' * deep if ends == '[]' else '{"a":' * deep + '1' + '}' * deep
    )
    path = tmp_path / 'a.json'
    path.write_text(text)
    with pytest.raises(ValueError, match=r'nested'):
        files.read_json(path)


def test_nobody_waits_at_a_pipe(tmp_path):
    os.mkfifo(tmp_path / 'a.json')
    failed = []

    def read():
        try:
            files.read_json(tmp_path / 'a.json')
        except ValueError as error:
            failed.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert failed == ['it is no regular file']
    for other in (tmp_path, '/dev/zero'):
        with pytest.raises(ValueError, match='no regular file'):
            files.read_json(other)


def test_values_that_contain_themselves_or_are_too_many_are_found():
    circle: list = [1]
    circle.append({'a': (circle,)})
    doubled: tuple = (1,)
    for _ in range(60):
        doubled = (doubled, doubled)
    deep: tuple = ()
    for _ in range(10_000):
        deep = (deep,)
    for value in (circle, doubled, deep):
        with pytest.raises(ValueError, match='contains itself, is nested more than'):
            files.check_nesting(value)
    files.check_nesting(json.loads('[' * 100 + ']' * 100))


@pytest.mark.parametrize('scheme', ['gs', 'gcs', 's3', 's3a', 'az', 'abfss', 'file'])
def test_a_bucket_is_one_wherever_it_stands(scheme):
    bucket = f'{scheme}://a/b'
    for value in (bucket, [bucket], ('x', bucket), {'a': {'b': [bucket]}}):
        assert files.is_bucket(value)
    for value in (f'a={bucket}', f'a,{bucket}', f'a, {bucket}'):
        assert files.is_bucket(value)


@pytest.mark.parametrize(
    'value',
    [
        *('', 'gs', 'gs:/a', 'runs/gs://a', 'a prompt of gs://a', 'https://a/b'),
        *('hf://datasets/a/b@c/d', 'tfds://a/b', None, 3, True, [], {}, [1]),
    ],
)
def test_what_is_no_bucket_is_none(value):
    assert not files.is_bucket(value)
