import gzip

import pytest

from passk_jax.sweeps.rows import compress_rows, read_rows

ROWS = [{'run': 'a_seed0', 'pass_at_1': 0.25, 'entropy': 1.5}, {'run': 'b', 'step': 4}]


def test_rows_come_back_as_they_were_and_equal_rows_are_equal_bytes(tmp_path):
    path = tmp_path / 'rows.jsonl.gz'
    path.write_bytes(compress_rows(ROWS))
    assert read_rows(path) == ROWS
    assert compress_rows(ROWS) == path.read_bytes()


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / 'rows.jsonl.gz'
    for content in (compress_rows(ROWS)[:-9], b'{}', gzip.compress(b'{', mtime=0)):
        path.write_bytes(content)
        with pytest.raises((OSError, EOFError, ValueError)):
            read_rows(path)
