import bz2
import decimal
import gzip
import json
import lzma

import pyarrow
import pytest
from pyarrow import ipc, parquet

from passk_jax.tasks import rows

ROWS = [{'problem': f'é {i}', 'answer': [str(i)]} for i in range(3)]
LINES = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in ROWS)
TABLE = pyarrow.Table.from_pylist(ROWS)
TWICE = TABLE.append_column('answer', TABLE['problem'])


def _arrow(*, stream, table=TABLE):
    sink = pyarrow.BufferOutputStream()
    open_sink = ipc.new_stream if stream else ipc.new_file
    with open_sink(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _parquet(table=TABLE):
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


FORMS = {
    'lines.jsonl': LINES.encode(),
    'lines_with_mark.jsonl': LINES.encode('utf-8-sig'),
    'joined_with_marks.jsonl': b''.join(
        line.encode('utf-8-sig') for line in LINES.splitlines(keepends=True)
    ),
    'wide.jsonl': LINES.encode('utf-16'),
    'wider.jsonl': LINES.encode('utf-32'),
    'windows.jsonl': LINES.replace('\n', '\r\n').encode(),
    'lines_named.json': LINES.encode(),
    'list_named.jsonl': json.dumps(ROWS, indent=1).encode(),
    'list.json': json.dumps(ROWS).encode('utf-8-sig'),
    'packed.jsonl.gz': gzip.compress(LINES.encode(), mtime=0),
    'packed_without_saying.jsonl': gzip.compress(LINES.encode(), mtime=0),
    'packed.json.bz2': bz2.compress(json.dumps(ROWS).encode()),
    'packed.jsonl.xz': lzma.compress(LINES.encode()),
    'table.parquet': _parquet(),
    'table.arrow': _arrow(stream=False),
    'stream.arrow': _arrow(stream=True),
    'table_without_saying': _parquet(),
}


@pytest.mark.parametrize('name', FORMS)
def test_every_form_of_a_file_has_the_same_rows(tmp_path, name):
    (tmp_path / name).write_bytes(FORMS[name])
    _, numbered = rows.read(tmp_path / name)
    assert numbered == list(enumerate(ROWS, start=1))


@pytest.mark.parametrize(('ending', 'comma'), [('csv', ','), ('tsv', '\t')])
def test_csv_has_texts(tmp_path, ending, comma):
    text = f'problem{comma}answer\n"a{comma}\nb"{comma}007\n\nc{comma}\n'
    for name, content in (
        (f'a.{ending}', text.encode('utf-8-sig')),
        (f'a.{ending}.gz', gzip.compress(text.encode(), mtime=0)),
    ):
        (tmp_path / name).write_bytes(content)
        unit, numbered = rows.read(tmp_path / name)
        assert unit == 'row'
        assert [row for _, row in numbered] == [
            {'problem': f'a{comma}\nb', 'answer': '007'},
            {'problem': 'c', 'answer': ''},
        ]


def test_a_single_record_is_read_in_one_line_or_in_many(tmp_path):
    row = {'prompt': [{'role': 'user', 'content': 'a'}], 'answer': '1'}
    for indent in (None, 2):
        (tmp_path / 'a.json').write_text(json.dumps(row, indent=indent))
        assert rows.read(tmp_path / 'a.json')[1] == [(1, row)]


def test_a_single_record_may_have_a_list_of_objects(tmp_path):
    record = {'prompt': '2+2?', 'tests': [{'input': '1', 'output': '2'}]}
    (tmp_path / 'a.jsonl').write_text(json.dumps(record) + '\n')
    assert [row for _, row in rows.read(tmp_path / 'a.jsonl')[1]] == [record]
    (tmp_path / 'a.json').write_text(json.dumps({'version': '1', 'data': [record]}))
    with pytest.raises(ValueError, match="write the list in its field 'data'"):
        rows.read(tmp_path / 'a.json')
    (tmp_path / 'a.json').write_text(json.dumps({'set': 'aime', 'problems': [record]}))
    ((_, row),) = rows.read(tmp_path / 'a.json')[1]
    with pytest.raises(ValueError, match="if 'problems' has the records, write it to"):
        rows.field_value(row, 'prompt')


def test_a_directory_that_save_to_disk_wrote_is_read(tmp_path):
    for part in range(2):
        file = tmp_path / f'data-0000{part}-of-00002.arrow'
        file.write_bytes(_arrow(stream=True))
    with pytest.raises(ValueError, match='a directory; name a file or a split in it'):
        rows.read(tmp_path)
    (tmp_path / 'state.json').write_text('{}')
    assert [row for _, row in rows.read(tmp_path)[1]] == ROWS * 2


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('a.jsonl', b'version https://git-lfs.github.com/spec/v1\n', 'git lfs pull'),
        ('a.parquet', b'version https://git-lfs.github.com/spec/v1', 'git lfs pull'),
        ('a.jsonl', b'/annex/objects/SHA256E-s1--2\n', 'git annex get'),
        ('a.jsonl', b'\n<!DOCTYPE html><html>', 'a web page: download'),
        ('a.jsonl.zst', b'(\xb5/\xfd\x00', 'zstd -d'),
        ('a.zip', b'PK\x03\x04', 'a ZIP archive: unpack it'),
        ('a.jsonl.gz', gzip.compress(LINES.encode(), mtime=0)[:-9], 'cannot be read'),
        ('a.parquet', b'{}', 'cannot be read: not parquet'),
        ('a.parquet', _parquet()[:-9], 'cannot be read'),
        ('a.arrow', _arrow(stream=True)[:99], 'cannot be read'),
        ('a.csv', b'a,b\n1\n', 'line 2: not as many fields as the 2 names'),
        ('a.csv', b'a,b\n1,2,3\n', 'line 2: not as many fields'),
        ('a.csv', b'a,b,a\n1,2,3\n', r"several columns are called \['a'\]"),
        ('a.parquet', _parquet(TWICE), r"columns are called \['answer'\]"),
        ('a.arrow', _arrow(stream=True, table=TWICE), r"columns .* \['answer'\]"),
        ('a.json', b'{"rows": [{"a": 1}]}', "write the list in its field 'rows'"),
        ('a.pkl', b'\x80\x04\x95', 'cannot be read'),
        ('a.txt', b'What is 1+1?\n', 'line 1: not JSON'),
    ],
)
def test_what_is_no_data_is_named_with_the_way_out(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        rows.read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert '\n' not in str(error.value)


def test_a_field_is_found_in_lists_and_objects_that_are_texts():
    row = {
        'reward': json.dumps({'golds': ['7', None]}),
        'printed': "[{'role': 'user', 'content': 'q'}]",
        'null': {'gold': None},
        'a.b': 'plain',
    }
    for field, value in (
        ('reward.golds.0', '7'),
        ('reward.golds.1', None),
        ('printed.0.content', 'q'),
        ('null.gold', None),
        ('a.b', 'plain'),
    ):
        assert rows.field_value(row, field) == value
    for field in ('reward.golds.2', 'reward.golds.x', 'a.c', 'a.b.c', 'null.x'):
        with pytest.raises(ValueError, match=f"no field '{field}'; have"):
            rows.field_value(row, field)


@pytest.mark.parametrize(
    ('value', 'gold'),
    [
        (' 7 ', '7'),
        (7, '7'),
        (decimal.Decimal('1.50'), '1.50'),
        (None, ''),
        (['7'], '7'),
        ([7], '7'),
        ([['7']], '7'),
        (['7', '7'], '7'),
        ([], ''),
        ([None], ''),
        ('["7"]', '7'),
        ("['7']", '7'),
        # An interval, a set, the empty list.
        ('[1, 2]', '[1, 2]'),
        ('{1, 2}', '{1, 2}'),
        ('[]', '[]'),
    ],
)
def test_a_gold_is_read_from_text_numbers_and_lists(value, gold):
    assert rows.gold_text(value, field='answer') == gold


@pytest.mark.parametrize(
    ('value', 'message'),
    [
        (['1', '2'], r"'answer', has 2 answers, \['1', '2'\]: name .*'answer.0'"),
        ('["1", "2"]', 'has 2 answers'),
        (True, 'must be text or a number'),
        ({'a': 1}, 'must be text or a number'),
    ],
)
def test_what_is_no_gold_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        rows.gold_text(value, field='answer')
