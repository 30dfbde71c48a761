"""Arithmetic of forms: a value times a factor, in radians, over another."""

from fractions import Fraction

from passk_jax.verifiers.forms import Expression, Form, Unread
from passk_jax.verifiers.trees import Apply, Constant, Node, Number, nodes


def times(form: Form, factor: Fraction) -> Form:
    """A value times a factor."""
    return combined('*', form, number(factor))


def convert_to_radians(form: Form) -> Form:
    """A value of degrees in radians."""
    return combined('*', times(form, Fraction(1, 180)), Expression('', Constant('pi')))


def quotient(above: Form, below: Form) -> Form:
    """A value over another."""
    return combined('/', above, below)


def combined(operation: str, first: Form, second: Form) -> Form:
    """An operation on two values; unread unless both have trees."""
    if not isinstance(first, Expression) or not isinstance(second, Expression):
        return Unread('')
    if first.tree is None or second.tree is None:
        return Unread('')
    tree = Apply(operation, (first.tree, second.tree))
    return Expression(f'{operation}{first.source} {second.source}', tree)


def number(value: Fraction) -> Expression:
    """A fraction as a form."""
    return Expression(str(value), Number(value))


def integer(value: int) -> Expression:
    """A whole number as a form."""
    return number(Fraction(value))


def has_pi(tree: Node) -> bool:
    """Whether the constant is in a tree."""
    return Constant('pi') in nodes(tree)
