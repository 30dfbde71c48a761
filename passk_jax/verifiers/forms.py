r"""Forms of answers: a number with a unit, a pair, a set, a word, and so on.

reading.py turns an answer in any spelling into a form; comparison.py compares forms.

============================  ==================  ===================================
spelling                      form                what counts
============================  ==================  ===================================
``\frac12``, ``2x+1``         Expression          the value, everywhere
``50\%``, ``90^\circ``,       Quantity            the value; a unit if both have one
``5\text{ cm}``, ``\$5``,
``1\text{ h }20\text{ min}``
``66_8``                      Based               digits and base
``(1,2)``, ``[1,2)``          Bracketed           items in order, and the brackets
``1,2``, ``1\text{ or }2``    Several             items and repeats, in any order; in
                                                  order beside a tuple
``\{1,2\}``                   Collection          items, in any order, repeats as one
``(0,1)\cup(2,3)``            Union               parts in any order
``1:2``                       Ratio               quotients of the parts, in order
``4:30``, ``4:30 p.m.``       Clock               hours, minutes and half of the day
``3 \pmod 7``                 Congruence          residues, and the modulus
``x=5``, ``a+b=5``            Equation            up to a factor; ``x=5`` is 5 too
``x>3``, ``1\le x<2``,        Inequality          the interval of a variable
``x>1\text{ and }x<2``
``\begin{pmatrix}...``        Matrix              entries in their places; rows may be
                                                  lists: ``[[1],[2]]``; a factor
                                                  and ``^T`` are worked out
``A``, ``\text{(C)}``,        Option              the letter, in any case
``C) 5``, ``E: a text``
``\text{even}``, ``LQSX``     Words               letters in order, in any case
``2k+1, k\in\mathbb{Z}``      Restricted          the answer; values of ``k`` if both
                                                  say them
============================  ==================  ===================================

Two small letters (``gh``) and neighbours in the alphabet (``xyz``) are a product; other
letters are a word. ``1,500`` is one number, or a pair if in brackets. In ``\$1,500,
2,000`` only the comma before a blank separates.
"""

import dataclasses
from collections.abc import Iterator

from passk_jax.verifiers.trees import Node
from passk_jax.verifiers.units import Unit


@dataclasses.dataclass(frozen=True)
class Expression:
    """A number or a formula; without a ``tree`` only math-verify may read it."""

    source: str
    tree: Node | None


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A value and its unit."""

    value: 'Form'
    unit: Unit


@dataclasses.dataclass(frozen=True)
class Based:
    """Digits in a base other than ten."""

    digits: str
    base: int


@dataclasses.dataclass(frozen=True)
class Bracketed:
    """A tuple or an interval."""

    opening: str
    items: tuple['Form', ...]
    closing: str


@dataclasses.dataclass(frozen=True)
class Several:
    """A list without brackets; ``joint``: ``'and'`` or ``'or'``, if words join it."""

    items: tuple['Form', ...]
    joint: str = ''


@dataclasses.dataclass(frozen=True)
class Collection:
    """A set in braces; empty for the empty set."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Union:
    """A union of intervals and sets."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Parts separated by colons."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Clock:
    """A time of day: hours, minutes, perhaps seconds; it may also be a ratio."""

    numbers: tuple[int, ...]
    half: str


@dataclasses.dataclass(frozen=True)
class Congruence:
    r"""A residue, or several: ``x \equiv 1, 6 \pmod 7``."""

    residue: 'Form'
    modulus: 'Form'


@dataclasses.dataclass(frozen=True)
class Equation:
    """Sides with ``=``, ``\\equiv`` or ``\\approx`` between them."""

    source: str
    items: tuple['Form', ...]
    signs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Inequality:
    """Sides with ``<``, ``\\le``, ``>``, ``\\ge`` or ``\\ne`` between them."""

    source: str
    items: tuple['Form', ...]
    signs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Rows of entries; a determinant is no matrix."""

    items: tuple[tuple['Form', ...], ...]


@dataclasses.dataclass(frozen=True)
class Option:
    """The letter of a choice, and its text if that follows."""

    letter: str
    text: str


@dataclasses.dataclass(frozen=True)
class Words:
    """A text in lower case, with single blanks."""

    text: str


@dataclasses.dataclass(frozen=True)
class Unread:
    """A text of no known form; math-verify may read it, unless it is too deep."""

    source: str
    deep: bool = False


@dataclasses.dataclass(frozen=True)
class Restricted:
    """An answer and a remark on the values of a letter in it; see domains.py."""

    form: 'Form'
    name: str
    values: str


Form = (
    Expression | Quantity | Based | Bracketed | Several | Collection | Union | Ratio
    | Clock | Congruence | Equation | Inequality | Matrix | Option | Words | Unread
    | Restricted
)  # fmt: skip


def is_read(form: Form) -> bool:
    """Returns whether all parts of a form are read, without math-verify."""
    return not any(
        isinstance(part, Unread) or (isinstance(part, Expression) and part.tree is None)
        for part in parts(form)
    )


def is_deep(form: Form) -> bool:
    """Returns whether a part is too deep for the readers."""
    return any(isinstance(part, Unread) and part.deep for part in parts(form))


def parts(form: Form) -> Iterator[Form]:
    """Yields a form and all forms in it."""
    yield form
    inner: tuple[Form, ...] = ()
    match form:
        case Quantity(inside, _) | Restricted(inside, _, _):
            inner = (inside,)
        case Congruence(residue, modulus):
            inner = residue, modulus
        case Matrix(rows):
            inner = sum(rows, ())
        case (
            Bracketed() | Several() | Collection() | Union() | Ratio()
            | Equation() | Inequality()
        ):  # fmt: skip
            inner = form.items
    for part in inner:
        yield from parts(part)
