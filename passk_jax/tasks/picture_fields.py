"""Reads the pictures in the fields of a record.

A picture is a path, a ``data:`` address, the bytes of a file, an array, or an object
that has one of these as ``bytes``, ``path``, ``image``, ``url`` or ``image_url``, as
tables of the Hugging Face hub and parts of chats do. A field has a picture or a list.
"""

import base64
import hashlib
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.types import Picture, Problem

# In the order in which an object is searched; tables of the hub have the first two.
_KEYS = ('bytes', 'path', 'image', 'url', 'image_url')
_DATA = re.compile(r'data:image/[\w.+-]+;base64,')
_ADDRESS = re.compile(r'[a-z][a-z0-9+.-]+://', re.IGNORECASE)
_FILE = 'file://'


def read_pictures(value: Any, folders: Sequence[pathlib.Path]) -> list[Picture]:
    """Reads the pictures in a field.

    Args:
        value: a picture, a list of pictures, or nothing.
        folders: where a relative path may start; the first with this file counts.

    Raises:
        InputError: it is no picture, or its file is absent.
    """
    items = value if isinstance(value, list | tuple) else [value]
    return [_read(item, folders) for item in items if not _is_nothing(item)]


def picture_digests(problem: Problem) -> list[str]:
    """Computes the SHA-256 of each picture of a problem, in order.

    Raises:
        InputError: a file cannot be read.
    """
    return [hashlib.sha256(_content(picture)).hexdigest() for picture in problem.images]


def _is_nothing(item: Any) -> bool:
    if isinstance(item, Mapping):
        return all(_is_nothing(item.get(key)) for key in _KEYS)
    return item is None or (isinstance(item, str | bytes) and not item)


def _read(item: Any, folders: Sequence[pathlib.Path]) -> Picture:
    if isinstance(item, Mapping):
        for key in _KEYS:
            if not _is_nothing(inner := item.get(key)):
                is_text = key == 'bytes' and isinstance(inner, str)
                return _decoded(inner) if is_text else _read(inner, folders)
    if isinstance(item, bytes | np.ndarray):
        return item
    if not isinstance(item, str):
        raise InputError(f'{item!r:.60} is no path and no bytes of a picture')
    if match := _DATA.match(item):
        return _decoded(item[match.end() :])
    path = item.removeprefix(_FILE)
    if _ADDRESS.match(path):
        raise InputError(
            f'picture {item!r:.60} is an address: download it and name the file'
        )
    return str(_located(path, folders))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as e:
        raise InputError(f'the bytes of a picture, {text!r:.40}, are no base64') from e


def _located(path: str, folders: Sequence[pathlib.Path]) -> pathlib.Path:
    places = [folder / pathlib.Path(path).expanduser() for folder in folders]
    for place in places:
        if place.is_file():
            return place
    raise InputError(
        f'picture {path!r} is absent: {", ".join(sorted({*map(str, places)}))}'
    )


def _content(picture: Picture) -> bytes:
    if isinstance(picture, np.ndarray):
        return f'{picture.dtype}{picture.shape}'.encode() + picture.tobytes()
    if isinstance(picture, bytes):
        return picture
    try:
        return pathlib.Path(picture).read_bytes()
    except OSError as e:
        raise InputError(f'picture {picture!r} cannot be read: {e}') from e
