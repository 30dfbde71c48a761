"""Digests find every change to a directory's files."""

import json

import pytest

from passk_jax.runs import digests


@pytest.fixture
def written(tmp_path):
    (tmp_path / 'sub').mkdir()
    for name in ('a', 'b', 'sub/c'):
        (tmp_path / name).write_text(f'content of {name}')
    (tmp_path / digests._NAME).mkdir()
    _write_digests(tmp_path, num_processes=2)
    return tmp_path


def _write_digests(directory, num_processes):
    files = [directory / name for name in ('a', 'b', 'sub/c')]
    for process in range(num_processes):
        said = {
            path.relative_to(directory).as_posix(): digests.digest(path)
            for path in files[process::num_processes]
        }
        path = directory / digests._NAME / f'process_{process}.json'
        path.write_text(json.dumps(said))


def _damage(path, num_processes=1):
    found = [
        digests.find_damage(path, process=i, num_processes=num_processes)
        for i in range(num_processes)
    ]
    return [damage for damage in found if damage is not None]


@pytest.mark.parametrize('num_processes', [1, 2, 3])
def test_untouched_files_pass_however_many_processes_check(written, num_processes):
    assert _damage(written, num_processes) == []


@pytest.mark.parametrize('num_processes', [1, 2, 3])
@pytest.mark.parametrize('name', ['a', 'b', 'sub/c'])
def test_one_process_finds_a_changed_file(written, name, num_processes):
    (written / name).write_text('other')
    assert _damage(written, num_processes) == [f'{name} is not what was written']


def test_a_missing_an_extra_and_an_undigested_file_are_found(written):
    (written / 'extra').write_text('')
    assert _damage(written) == ['its digests are incomplete']
    (written / 'b').unlink()
    assert _damage(written) == ['b is missing']


@pytest.mark.parametrize('content', ['', '{"a": ', '[1]', '"text"'])
def test_broken_digests_are_damage_and_not_a_crash(written, content):
    (written / 'digests' / 'process_1.json').write_text(content)
    assert 'its digests cannot be read' in _damage(written)[0]


def test_a_directory_without_digests_is_damaged(tmp_path):
    assert 'its digests cannot be read' in _damage(tmp_path)[0]


def test_one_digest_stands_for_all_files_whoever_wrote_them(written):
    one = digests.combined(written)
    (written / digests._NAME / 'process_1.json').unlink()
    assert digests.combined(written) != one
    _write_digests(written, num_processes=1)
    assert digests.combined(written) == one
    (written / 'a').write_text('other')
    _write_digests(written, num_processes=1)
    assert digests.combined(written) != one
