"""For tasks with files: reads text and JSON lines, hashes problems and splits them.

:mod:`passk_jax.tasks.rows` reads other forms of files.
"""

import bz2
import codecs
import gzip
import hashlib
import json
import lzma
import pathlib
import zlib
from typing import Any

from passk_jax.errors import InputError

# The first bytes of compressed files.
_UNPACK = {b'\x1f\x8b': gzip, b'BZh': bz2, b'\xfd7zXZ\x00': lzma}
# The first bytes of files that are not the data -> what they are, and the remedy.
_NO_DATA = {
    b'version https://git-lfs': 'a pointer of Git LFS: fetch the file by git lfs pull',
    b'# xet version': 'a pointer of Xet: fetch the file by git xet, or from the hub',
    b'/annex/objects/': 'a pointer of git-annex: fetch the file by git annex get',
    b'<!doctype html': 'a web page: download the file that the page shows (of a page '
    'of the hub, /resolve/ in place of /blob/)',
    b'<html': 'a web page: download the file that the page shows',
    b'(\xb5/\xfd': 'compressed by Zstandard: unpack it (zstd -d)',
    b'PK\x03\x04': 'a ZIP archive: unpack it',
}
# Longer marks first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: 'utf-32',
    codecs.BOM_UTF32_BE: 'utf-32',
    codecs.BOM_UTF16_LE: 'utf-16',
    codecs.BOM_UTF16_BE: 'utf-16',
    codecs.BOM_UTF8: 'utf-8-sig',
}


def located(path: str, data_dir: str) -> pathlib.Path:
    """Resolves a path of a task's parameters; a relative one starts at ``data_dir``."""
    return pathlib.Path(data_dir).expanduser() / pathlib.Path(path).expanduser()


def read_lines(file: pathlib.Path) -> list[tuple[int, Any]]:
    """Reads the values of JSON lines with their line numbers, from 1.

    Skips empty lines. Raises ValueError if the file cannot be read or a line is not
    JSON.
    """
    return parse_lines(read_text(file), file)


def parse_lines(text: str, file: pathlib.Path) -> list[tuple[int, Any]]:
    """Parses JSON lines from a text, like :func:`read_lines`."""
    values = []
    for number, line in enumerate(text.split('\n'), start=1):
        # Concatenated files with marks have marks inside.
        line = line.strip().lstrip('\ufeff')
        if not line:
            continue
        try:
            values.append((number, json.loads(line)))
        except (ValueError, RecursionError) as e:
            raise InputError(f'{file}: line {number}: not JSON: {e}') from e
    return values


def read_text(file: pathlib.Path) -> str:
    """Reads the text of a file, in UTF-8 or the encoding of its byte-order mark.

    Raises ValueError like :func:`read_bytes`, or if the file cannot be decoded.
    """
    return decode(read_bytes(file), file)


def decode(content: bytes, file: pathlib.Path) -> str:
    """Decodes the content of a file; see :func:`read_text`."""
    encodings = (name for mark, name in _MARKS.items() if content.startswith(mark))
    try:
        return content.decode(next(encodings, 'utf-8'))
    except UnicodeDecodeError as e:
        raise InputError(f'problems {str(file)!r} cannot be read: {e}') from e


def read_bytes(file: pathlib.Path) -> bytes:
    """Reads a file; decompresses gzip, bzip2 and xz.

    Raises:
        ValueError: the file cannot be read, or is not the data but, for example, a
            pointer to a large file or a web page.
    """
    try:
        content = file.read_bytes()
        for begin, packer in _UNPACK.items():
            if content.startswith(begin):
                content = packer.decompress(content)
                break
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as e:
        raise InputError(f'problems {str(file)!r} cannot be read: {e}') from e
    head = content[:64].lstrip().lower()
    for begin, description in _NO_DATA.items():
        if head.startswith(begin.lower()):
            raise InputError(f'problems {str(file)!r} are {description}')
    return content


def content_hash(*texts: str) -> str:
    """Hashes texts, ignoring white space and case.

    Args:
        texts: the parts of the problem.

    >>> content_hash('Find $x$.') == content_hash('find  $X$. ')
    True
    """
    parts = [' '.join(text.split()).casefold() for text in texts]
    # No part contains a line break, so joining keeps the parts distinct.
    words = '\n'.join(parts)
    return hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()


def place_of(digest: str) -> int:
    """Maps a content hash to 0..99, which decides a problem's split.

    >>> place_of('ff')
    55
    """
    return int(digest, 16) % 100


def check_shares(*, train_percent: int, validation_percent: int) -> None:
    """Raises ValueError if the shares of two splits exceed 100 %."""
    if train_percent + validation_percent > 100:
        raise InputError(
            f'{train_percent=} and {validation_percent=} are more than 100 together'
        )


def split_of(digest: str, *, train_percent: int, validation_percent: int) -> str:
    """Returns the split of a problem with this content hash; the remainder is test.

    >>> split_of('ff', train_percent=50, validation_percent=10)
    'validation'
    """
    place = place_of(digest)
    if place < train_percent:
        return 'train'
    return 'validation' if place < train_percent + validation_percent else 'test'
