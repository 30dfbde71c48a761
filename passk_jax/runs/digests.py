"""Computes the SHA-256 digest of a file."""

import hashlib
import pathlib


def digest(file: pathlib.Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    with file.open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()
