"""Arithmetic on forms: products, quotients, degrees in radians and other units."""

from fractions import Fraction

from passk_jax.verifiers.forms import Expression, Form, Quantity, Unread
from passk_jax.verifiers.trees import Apply, Constant, Node, Number, nodes
from passk_jax.verifiers.units import DEGREE, PERCENT


def times(form: Form, factor: Fraction) -> Form:
    """Multiplies a value by a factor."""
    return combined('*', form, number(factor))


def convert_to_radians(form: Form) -> Form:
    """Converts a value in degrees to radians."""
    return combined('*', times(form, Fraction(1, 180)), Expression('', Constant('pi')))


def convert_beside(other: Form, form: Form) -> list[Form]:
    """Converts a side's unit for a comparison with another; lists possible values."""
    if not isinstance(form, Quantity):
        return [form]
    value, unit = form.value, form.unit
    alike = isinstance(other, Quantity) and other.unit.dimension == unit.dimension
    if unit.dimension == PERCENT and not alike:
        return [times(value, Fraction(1, 100))]
    if unit.dimension == DEGREE and not alike:
        radians = convert_to_radians(value)
        return [radians] if isinstance(other, Quantity) else [value, radians]
    scaled = alike or not unit.dimension
    return [times(value, unit.factor) if scaled and unit.factor != 1 else value]


def quotient(above: Form, below: Form) -> Form:
    """Divides a value by another."""
    return combined('/', above, below)


def combined(operation: str, first: Form, second: Form) -> Form:
    """Applies an operation to two values; ``Unread`` unless both have trees."""
    match first, second:
        case Expression(source, tree), Expression(other_source, other_tree):
            if tree is not None and other_tree is not None:
                both = Apply(operation, (tree, other_tree))
                return Expression(f'{operation}{source} {other_source}', both)
    return Unread(f'{operation} {first!r} {second!r}')


def number(value: Fraction) -> Expression:
    """Returns a fraction as a form."""
    return Expression(str(value), Number(value))


def integer(value: int) -> Expression:
    """Returns a whole number as a form."""
    return number(Fraction(value))


def has_pi(tree: Node) -> bool:
    """Returns whether a tree contains pi."""
    return Constant('pi') in nodes(tree)
