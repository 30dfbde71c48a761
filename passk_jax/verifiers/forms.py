r"""What an answer is by its form: a number with a unit, a pair, a set, a word.

reading.py turns an answer in any spelling into one of these; comparison.py compares
them, the gold's form deciding what counts.

============================  ==================  ===================================
spelling                      form                what counts
============================  ==================  ===================================
``\frac12``, ``2x+1``         Expression          the value, everywhere
``50\%``, ``90^\circ``,       Quantity            the value; a unit if both have one
``5\text{ cm}``, ``\$5``
``66_8``                      Based               digits and base
``(1,2)``, ``[1,2)``          Bracketed           items in order, and the brackets
``1,2``, ``1\text{ or }2``    Several             items and repeats, in any order; in
                                                  order beside a tuple
``\{1,2\}``                   Collection          items, in any order, repeats as one
``(0,1)\cup(2,3)``            Union               parts in any order
``1:2``                       Ratio               quotients of the parts, in order
``4:30``, ``4:30 p.m.``       Clock               hours, minutes and half of the day
``x=5``, ``a+b=5``            Equation            up to a factor; ``x=5`` is 5 too
``x>3``, ``1\le x<2``         Inequality          the interval of a variable
``\begin{pmatrix}...``        Matrix              entries in their places
``A``, ``\text{(C)}``,        Option              the letter, in any case
``C) 5``, ``E: a text``
``\text{even}``, ``LQSX``     Words               letters in order, in any case
============================  ==================  ===================================

Letters are a product (``gh``, ``xyz``) if they are two small ones or neighbours in the
alphabet, and else a word. ``1,500`` is a number alone and a pair in brackets;
``\$1,500, 2,000`` separates where a blank follows the comma.
"""

import dataclasses

from passk_jax.verifiers.trees import Node
from passk_jax.verifiers.units import Unit


@dataclasses.dataclass(frozen=True)
class Expression:
    """A number or a formula; ``tree`` is ``None`` if only math-verify may read it."""

    source: str
    tree: Node | None


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A value and what it is counted in."""

    value: 'Form'
    unit: Unit


@dataclasses.dataclass(frozen=True)
class Based:
    """Digits in a base that is not ten."""

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
    """A list without brackets."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Collection:
    """A set in braces; empty for the empty set."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Union:
    """Intervals and sets together."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Parts with colons between."""

    items: tuple['Form', ...]


@dataclasses.dataclass(frozen=True)
class Clock:
    """A time of day, which may be a ratio: hours, minutes, perhaps seconds."""

    numbers: tuple[int, ...]
    half: str


@dataclasses.dataclass(frozen=True)
class Equation:
    """Sides with ``=`` or ``\\approx`` between them."""

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
    """Rows of entries; a determinant is none."""

    items: tuple[tuple['Form', ...], ...]


@dataclasses.dataclass(frozen=True)
class Option:
    """The letter of a choice, and its text if that stands behind."""

    letter: str
    text: str


@dataclasses.dataclass(frozen=True)
class Words:
    """A text in small letters, with single blanks."""

    text: str


@dataclasses.dataclass(frozen=True)
class Unread:
    """A text that is none of these; math-verify may know more."""

    source: str


Form = (
    Expression | Quantity | Based | Bracketed | Several | Collection | Union | Ratio
    | Clock | Equation | Inequality | Matrix | Option | Words | Unread
)  # fmt: skip


def is_read(form: Form) -> bool:
    """Whether all parts of a form are read, so that math-verify is not needed."""
    match form:
        case Unread() | Expression(_, None):
            return False
        case Quantity(value, _):
            return is_read(value)
        case Matrix(rows):
            return all(is_read(item) for row in rows for item in row)
        case Based() | Clock() | Option() | Words() | Expression():
            return True
    return all(map(is_read, form.items))
