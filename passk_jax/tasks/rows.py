"""Reads the rows of a file of problems, and their fields.

A file has JSON lines, a JSON list, CSV (``.csv``, ``.tsv``), Parquet or Arrow, or is a
directory of Hugging Face ``save_to_disk``. The content decides, except for CSV, where
the name does. Files may be compressed by gzip, bzip2 or xz.

:func:`field_value` finds a field of a row and :func:`gold_text` reads a right answer.
:mod:`passk_jax.tasks.chats` reads a prompt.
"""

import ast
import collections
import csv
import decimal
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import records

Records = list[tuple[int, Any]]

_PACKED = ('.gz', '.bz2', '.xz')
_DELIMITERS = {'.csv': ',', '.tsv': '\t'}
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b'PAR1', b'ARROW1', b'\xff\xff\xff\xff'
_BINARY_SUFFIXES = ('.parquet', '.arrow', '.feather')
_MAX_CHARACTERS = 60


def stem(name: str) -> str:
    """Returns the last part of a name without its extensions.

    >>> stem('aime/aime_2024.jsonl'), stem('train.jsonl.gz')
    ('aime_2024', 'train')
    """
    return _unpacked(name).stem


def _unpacked(name: str) -> pathlib.PurePath:
    """Returns the name without the suffix of a compressed file."""
    path = pathlib.PurePath(name)
    return path.with_suffix('') if path.suffix in _PACKED else path


def read(file: pathlib.Path, *, name: str = '') -> tuple[str, Records]:
    """Reads a file.

    Args:
        file: the file, or a directory of ``save_to_disk``.
        name: its original name, if ``file`` has another, as in the hub's cache.

    Returns:
        What the numbers count (line, row or record), and the rows with their numbers,
        from 1.

    Raises:
        ValueError: the file cannot be read; if possible, the message says what it is.
    """
    if file.is_dir():
        return 'row', _number(_saved_to_disk(file))
    suffix = _unpacked(name or file.name).suffix
    content = records.read_bytes(file)
    if content.startswith((_PARQUET, _ARROW_FILE, _ARROW_STREAM)):
        return 'row', _number(_table(content, file))
    if suffix in _BINARY_SUFFIXES:
        raise InputError(f'problems {str(file)!r} cannot be read: not {suffix[1:]}')
    text = records.decode(content, file)
    if suffix in _DELIMITERS:
        return 'row', _number(_csv(text, file, delimiter=_DELIMITERS[suffix]))
    return _json(text, file)


def field_value(record: Mapping[str, Any], field: str) -> Any:
    """Returns the value at ``field`` or, part by part, at ``outer.0.inner``.

    A list or an object on the path may be text.

    Raises ValueError if the row has no such field.
    """
    if field in record:
        return record[field]
    value: Any = record
    for part in field.split('.'):
        value = unwritten(value)
        inside = dict(enumerate(value)) if isinstance(value, list) else value
        key = int(part) if isinstance(value, list) and _is_index(part) else part
        if not isinstance(inside, Mapping) or key not in inside:
            raise InputError(f'no field {field!r}; have {list(record)}{_hint(record)}')
        value = inside[key]
    return value


def _hint(record: Mapping[str, Any]) -> str:
    """Says what to do with a record whose field may have all records of a file."""
    for name, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            return f'; if {name!r} has the records, write it to a file of its own'
    return ''


def unwritten(value: Any) -> Any:
    """Parses a text that has a list or an object, in JSON or as Python prints it.

    Returns any other value unchanged.

    >>> unwritten('["7"]'), unwritten("{'a': 'b'}"), unwritten('[1, 2)')
    (['7'], {'a': 'b'}, '[1, 2)')
    """
    if not isinstance(value, str) or not value.lstrip().startswith(('[', '{')):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            read_value = parse(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(read_value, list | dict):
            return read_value
    return value


def gold_text(value: Any, *, field: str) -> str:
    """Reads a right answer: text, a number, or a list with one of them.

    A list may be text, as in ``["7"]``. Null and an empty list are ``''``.

    Raises ValueError, which names ``field``, for anything else.
    """
    written = unwritten(value)
    # As text, [1, 2] is an interval or a vector, and [] the empty list.
    texts = isinstance(written, list) and {type(item) for item in written} == {str}
    if isinstance(value, list) or texts:
        answers = list(dict.fromkeys(gold_text(item, field=field) for item in written))
        if len(answers) > 1:
            raise InputError(
                f'the gold, field {field!r}, has {len(answers)} answers, '
                f'{_shorten(answers)}: name the one to be given, for example '
                f"'{field}.0', or join them in one text"
            )
        return answers[0] if answers else ''
    if value is None:
        return ''
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f'the gold, field {field!r}, must be text or a number')
    return value.strip()


def check_varied(
    field: str, texts: Sequence[str], beside: Sequence[str], *, source: str
) -> None:
    """Checks that a field is not the same text in all rows of a source.

    Args:
        field: its name.
        texts: the field in each row.
        beside: another field in each row; if it is constant too, the rows are copies
            and nothing is checked.
        source: the name of the source.

    Raises:
        ValueError: the field is constant in more than two rows.
    """
    if len(texts) > 2 and len(set(texts)) == 1 < len(set(beside)):
        raise InputError(
            f'{source}: field {field!r} is the same text in all {len(texts)} rows, '
            f'{_shorten(texts[0])}: name the field that differs from row to row'
        )


def _check_distinct(names: Sequence[str], file: pathlib.Path) -> None:
    """Raises ValueError if columns of a table share a name: a record has one of it."""
    counts = collections.Counter(names)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f'{file}: several columns are called {_shorten(twice)}')


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdigit()


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_CHARACTERS else f'{text[:_MAX_CHARACTERS]}...'


def _number(values: Sequence[Any]) -> Records:
    return list(enumerate(values, start=1))


def _json(text: str, file: pathlib.Path) -> tuple[str, Records]:
    """Reads JSON lines, a list or one object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as e:
        if text.lstrip().startswith('['):
            raise InputError(f'{file}: not JSON: {e}') from e
        return 'line', records.parse_lines(text, file)
    if isinstance(value, list):
        return 'record', _number(value)
    if isinstance(value, Mapping):
        _check_record(value, file)
    return 'line', _number([value])


# Fields that describe a whole file.
_ABOUT = ('version', 'name', 'title', 'description', 'license', 'split', 'source')


def _check_record(value: Mapping[str, Any], file: pathlib.Path) -> None:
    """Raises ValueError if an object has the rows in one of its fields.

    A record with a text, such as its prompt, may have a list of objects besides.
    """
    if any(isinstance(x, str) and name not in _ABOUT for name, x in value.items()):
        return
    for name, rows in value.items():
        has_rows = isinstance(rows, list) and rows and isinstance(rows[0], Mapping)
        if has_rows and 'role' not in rows[0] and 'from' not in rows[0]:
            raise InputError(
                f'{file}: one object, not a list of records: write the list in its '
                f'field {name!r} to a file of its own'
            )


def _csv(text: str, file: pathlib.Path, *, delimiter: str) -> list[dict[str, str]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(io.StringIO(text, newline=''), delimiter=delimiter)
    rows = []
    try:
        _check_distinct(reader.fieldnames or (), file)
        for row in reader:
            if None in row or None in row.values():
                raise InputError(
                    f'{file}: line {reader.line_num}: not as many fields as the '
                    f'{len(reader.fieldnames or ())} names of the first line'
                )
            rows.append(row)
    except csv.Error as e:
        raise InputError(f'{file}: line {reader.line_num}: not CSV: {e}') from e
    return rows


def _table(content: bytes, file: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the rows of Parquet, of an Arrow file or of an Arrow stream."""
    import pyarrow
    from pyarrow import ipc, parquet

    try:
        if content.startswith(_PARQUET):
            # Unlike read_table(), it reads columns that share a name.
            table = parquet.ParquetFile(io.BytesIO(content)).read()
        elif content.startswith(_ARROW_FILE):
            table = ipc.open_file(content).read_all()
        else:
            table = ipc.open_stream(content).read_all()
        table_rows = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as e:
        raise InputError(f'problems {str(file)!r} cannot be read: {e}') from e
    _check_distinct(table.column_names, file)
    return table_rows


def _saved_to_disk(directory: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the rows of a data set that Hugging Face ``save_to_disk`` wrote."""
    files = sorted(directory.glob('data-*.arrow')) or sorted(directory.glob('*.arrow'))
    if not files or not (directory / 'state.json').is_file():
        inside = sorted(path.name for path in directory.iterdir())
        raise InputError(
            f'problems {str(directory)!r} cannot be read: a directory; name a file or '
            f'a split in it, {_shorten(inside)}'
        )
    return [row for file in files for row in _table(records.read_bytes(file), file)]
