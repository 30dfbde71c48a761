r"""Matrices: rows of entries, perhaps with a factor before them, or transposed."""

import re
from collections.abc import Callable

from passk_jax.verifiers.forms import Bracketed, Form, Matrix
from passk_jax.verifiers.scaling import combined

_MATRIX = re.compile(
    r'(?:([^&=<>]{1,60}?)(?:\s|\\cdot|\\times|\*)*)?'
    r'\\begin\{([pbB]?|small)(?:matrix|array)\*?\}(?:\{[lcr|]*\}|\[[lcr]\])?(.*)'
    r'\\end\{\2(?:matrix|array)\*?\}',
    re.DOTALL,
)
_TRANSPOSE = re.compile(
    r'([(\[].*[)\]]|\\begin.*\\end\{[a-z]*\})'
    r'\^[\s{]*(?:T|\\(?:top|intercal|text\{T\}))[\s}]*',
    re.DOTALL,
)


def read_matrix(text: str, read: Callable[[str], Form]) -> Matrix | None:
    """Reads a matrix, or a transposed matrix or tuple.

    Args:
        text: in normal form.
        read: reads a part.
    """
    if match := _TRANSPOSE.fullmatch(text):
        form = read(match[1])
        if isinstance(form, Bracketed):
            return Matrix(tuple((item,) for item in form.items))
        if isinstance(form, Matrix) and len({len(row) for row in form.items}) == 1:
            return Matrix(tuple(zip(*form.items, strict=True)))
        return None
    match = _MATRIX.fullmatch(text)
    if not match or r'\begin' in match[3]:
        return None
    rows = [row for row in match[3].split('\\\\') if row.strip()]
    entries = [[read(entry) for entry in row.split('&')] for row in rows]
    if match[1]:
        ones = {'-': '-1', '+': '1'}
        factor = read(ones.get(match[1], match[1]))
        entries = [[combined('*', factor, entry) for entry in row] for row in entries]
    return Matrix(tuple(map(tuple, entries)))
