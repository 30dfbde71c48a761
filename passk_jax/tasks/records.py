"""Records of JSON lines, and when two problems are equal: for tasks with files."""

import hashlib
import json
import pathlib
from typing import Any

from passk_jax.errors import InputError


def located(path: str, data_dir: str) -> pathlib.Path:
    """A path of a task's parameters, which starts at ``data_dir`` if it is relative."""
    return pathlib.Path(data_dir).expanduser() / pathlib.Path(path).expanduser()


def read_lines(file: pathlib.Path) -> list[tuple[int, Any]]:
    """The values of a file of JSON lines with the numbers of their lines, from 1.

    Empty lines do not count. Raises ValueError if the file cannot be read or a line is
    not JSON.
    """
    records_read = []
    for number, line in enumerate(read_text(file).split('\n'), start=1):
        if not line.strip():
            continue
        try:
            records_read.append((number, json.loads(line)))
        except (ValueError, RecursionError) as e:
            raise InputError(f'{file}: line {number}: not JSON: {e}') from e
    return records_read


def read_text(file: pathlib.Path) -> str:
    """The text of a file with problems; ValueError if it cannot be read."""
    try:
        return file.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f'problems {str(file)!r} cannot be read: {e}') from e


def content_hash(*texts: str) -> str:
    """Equal for problems that differ in blanks and capitals only.

    Args:
        texts: what makes the problem, part by part.

    >>> content_hash('Find $x$.') == content_hash('find  $X$. ')
    True
    """
    parts = [' '.join(text.split()).casefold() for text in texts]
    # No part has a line break, so it cannot be mistaken for two.
    words = '\n'.join(parts)
    return hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()


def place_of(digest: str) -> int:
    """The place of a content hash among a hundred, which decides a problem's split.

    >>> place_of('ff')
    55
    """
    return int(digest, 16) % 100


def check_shares(*, train_percent: int, validation_percent: int) -> None:
    """Raises ValueError if the shares of two splits are more than all problems."""
    if train_percent + validation_percent > 100:
        raise InputError(
            f'{train_percent=} and {validation_percent=} are more than 100 together'
        )


def split_of(digest: str, *, train_percent: int, validation_percent: int) -> str:
    """The split of a problem with this content hash; what is left over is test.

    >>> split_of('ff', train_percent=50, validation_percent=10)
    'validation'
    """
    place = place_of(digest)
    if place < train_percent:
        return 'train'
    return 'validation' if place < train_percent + validation_percent else 'test'
