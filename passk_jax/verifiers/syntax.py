r"""Parses an expression into a tree: LaTeX as people write it, and code style.

The text is in normal form (normal_form.py). Ambiguous spellings are read as follows:

* ``2^10`` and ``\sqrt12`` take the number that follows, ``\frac12`` single digits;
* ``1/2x`` from left to right, ``3\frac12`` and ``3 1/2`` as mixed numbers;
* ``\log 3/\log 2`` as a quotient of logarithms, ``\sin 2x`` as the sine of ``2x``,
  ``\sin(x)y`` as a product, ``\sin^{-1}`` as the inverse;
* ``2ab`` and ``2^3 5`` as products; four letters in a row, a name such as ``pi`` or
  ``sin`` inside other letters, and ``2 3`` are refused;
* ``e`` and ``i`` as constants, ``1e6``, ``1.5e-7`` and ``1e-7`` as numbers, but
  ``2e-2`` as a difference;
* ``0.\overline{36}``, ``0.\dot{3}6\dot{4}``, ``0.(36)`` and ``0.3636...`` as
  repeating decimals.

Parsing takes time that is linear in the text; its depth is bounded.
"""

import re
from fractions import Fraction
from typing import NoReturn

from passk_jax.verifiers.tokens import (
    CONSTANTS,
    FUNCTIONS,
    Token,
    TooDeepError,
    UnreadableError,
    literal,
    repeating,
    tokens_of,
)
from passk_jax.verifiers.trees import Apply, Constant, Name, Node, Number, negative
from passk_jax.verifiers.vocabulary import GREEK

_MOST_DEPTH = 40
# Consecutive ! and %.
_MOST_POSTFIXES = 3
_PRODUCTS = ('*', r'\cdot', r'\times')
_QUOTIENTS = ('/', r'\div')
_GROUPS = {'(': ')', '[': ']', '{': '}', r'\lfloor': r'\rfloor', r'\lceil': r'\rceil'}
_SPECIAL = ('frac', 'sqrt', 'binom', 'lfloor', 'lceil')


def parse(text: str) -> Node:
    """Parses an expression in normal form.

    Raises:
        UnreadableError: the text is no expression.
        TooDeepError: its operations are nested too deeply.
    """
    parser = _Parser(tokens_of(text))
    node = parser.sum()
    parser.check_end()
    return node


class _Parser:
    """A recursive-descent parser; each method reads what its name says."""

    def __init__(self, tokens: list[Token]):
        self._tokens, self._position = tokens, 0
        self._depth, self._bars = 0, 0

    @property
    def _kind(self) -> str:
        return self._tokens[self._position][0]

    @property
    def _token(self) -> str:
        return self._tokens[self._position][1]

    def _fail(self) -> NoReturn:
        raise UnreadableError(self._token or 'the end')

    def _take(self, *tokens: str) -> bool:
        if self._kind in ('command', 'sign') and self._token in tokens:
            self._position += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._fail()

    def check_end(self) -> None:
        if self._kind != 'end':
            self._fail()

    def sum(self) -> Node:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise TooDeepError('too deep')
        terms: list[Node] = [self._product()]
        while True:
            if self._take('+'):
                terms.append(self._product())
            elif self._take('-'):
                terms.append(negative(self._product()))
            else:
                break
        self._depth -= 1
        return _joined('+', terms)

    def _product(self) -> Node:
        minus = False
        while self._token in ('+', '-') and self._kind == 'sign':
            minus ^= self._take('-') or not self._take('+')
        factors: list[Node] = [self._power()]
        quotients = 0
        while True:
            if self._take(*_PRODUCTS):
                factors.append(self._signed_power())
            elif self._take(*_QUOTIENTS):
                above = _joined('*', factors)
                factors[:] = [Apply('/', (above, self._signed_power()))]
                quotients += 1
            elif self._begins_factor() and self._may_follow(factors[-1]):
                factors.append(self._power())
            else:
                break
        if quotients > _MOST_DEPTH:
            raise TooDeepError('too deep')
        node = _joined('*', factors)
        return negative(node) if minus else node

    def _signed_power(self) -> Node:
        if self._take('-'):
            return negative(self._power())
        self._take('+')
        return self._power()

    def _begins_factor(self) -> bool:
        kind, token = self._kind, self._token
        if kind == 'command':
            name = token[1:]
            return (
                name in GREEK
                or name in FUNCTIONS
                or name in CONSTANTS
                or name in _SPECIAL
            )
        if kind == 'sign':
            return token in '([{' or (token == '|' and not self._bars)
        return kind in ('number', 'repeating', 'letters', 'text')

    def _may_follow(self, factor: Node) -> bool:
        """Returns whether the next factor needs no sign; a number, after a power."""
        if self._kind not in ('number', 'repeating'):
            return True
        return isinstance(factor, Apply) and factor.operation == '^'

    def _power(self) -> Node:
        self._depth += 1
        if self._depth > 2 * _MOST_DEPTH:
            raise TooDeepError('too deep')
        node = self._postfixed(self._atom())
        if self._take('^'):
            if self._degrees():
                half_turn = Apply('/', (Constant('pi'), Number(Fraction(180))))
                node = Apply('*', (node, half_turn))
            else:
                node = Apply('^', (node, self._exponent()))
            node = self._postfixed(node)
        self._depth -= 1
        return node

    def _degrees(self) -> bool:
        if self._take(r'\circ'):
            return True
        following = [token for _, token in self._tokens[self._position :][:3]]
        if following == ['{', r'\circ', '}']:
            self._position += 3
            return True
        return False

    def _exponent(self) -> Node:
        minus = self._take('-') or (self._take('+') and False)
        node = self._power()
        return negative(node) if minus else node

    def _postfixed(self, node: Node) -> Node:
        for _ in range(_MOST_POSTFIXES):
            if self._take('!'):
                node = Apply('!', (node,))
            elif self._take(r'\%'):
                node = Apply('/', (node, Number(Fraction(100))))
            else:
                return node
        raise TooDeepError('too many signs after a number')

    def _atom(self) -> Node:
        kind, token = self._kind, self._token
        if kind == 'number':
            self._position += 1
            return self._mixed(literal(token))
        if kind == 'repeating':
            self._position += 1
            return repeating(token)
        if kind == 'letters':
            return self._letters(token)
        if kind == 'text':
            if not re.fullmatch(r'\s*[A-Za-z]\s*', token):
                self._fail()
            self._position += 1
            return self._subscripted(token.strip())
        if kind == 'command' and token[1:] not in ('lfloor', 'lceil'):
            return self._command(token[1:])
        return self._group()

    def _group(self) -> Node:
        token = self._token
        if self._take('|'):
            self._bars += 1
            node = self.sum()
            self._expect('|')
            self._bars -= 1
            return Apply('abs', (node,))
        if token not in _GROUPS or not self._take(token):
            self._fail()
        bars, self._bars = self._bars, 0
        node = self.sum()
        self._expect(_GROUPS[token])
        self._bars = bars
        rounded = {r'\lfloor': 'floor', r'\lceil': 'ceil'}.get(token)
        return Apply(rounded, (node,)) if rounded else node

    def _mixed(self, number: Number) -> Node:
        """Reads a number, or the mixed number that it begins."""
        start = self._position
        if number.places is not None or not self._take(r'\frac'):
            return number
        above, below = self._argument(), self._argument()
        if (
            isinstance(above, Number)
            and isinstance(below, Number)
            and 0 < above.value < below.value
        ):
            return Apply('+', (number, Apply('/', (above, below))))
        self._position = start
        return number

    def _letters(self, name: str) -> Node:
        self._position += 1
        if name in FUNCTIONS:
            return self._function(name)
        return self._constant(name) if len(name) > 1 else self._subscripted(name)

    def _constant(self, name: str) -> Node:
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        return self._subscripted(name)

    def _subscripted(self, name: str) -> Node:
        primes = ''
        while self._take("'"):
            primes += "'"
        if not self._take('_'):
            return Name(name + primes) if primes else _letter(name)
        return Name(f'{name}{primes}_{self._subscript()}')

    def _subscript(self) -> str:
        if not self._take('{'):
            kind, token = self._kind, self._token
            if kind not in ('number', 'letters', 'command', 'text'):
                self._fail()
            self._position += 1
            return token.strip()
        parts = []
        while not self._take('}'):
            if self._kind == 'end' or self._token == '{':
                self._fail()
            parts.append(self._token.strip())
            self._position += 1
        return ''.join(parts)

    def _command(self, name: str) -> Node:
        if name in FUNCTIONS and name != 'sqrt':
            self._position += 1
            return self._function(name)
        if name in CONSTANTS or name in GREEK:
            self._position += 1
            return self._constant(name)
        if name not in ('frac', 'sqrt', 'binom'):
            self._fail()
        self._position += 1
        if name == 'sqrt':
            return self._root()
        return Apply('/' if name == 'frac' else name, self._two_arguments())

    def _two_arguments(self) -> tuple[Node, Node]:
        return self._argument(), self._argument()

    def _root(self) -> Node:
        if not self._take('['):
            return Apply('sqrt', (self._number_or_argument(),))
        degree = self.sum()
        self._expect(']')
        return Apply('root', (self._number_or_argument(), degree))

    def _number_or_argument(self) -> Node:
        if self._kind == 'number':
            self._position += 1
            return literal(self._tokens[self._position - 1][1])
        return self._argument()

    def _argument(self) -> Node:
        """Reads a command's argument: a group in brackets, a letter, digit or command.

        Digits after the first are left for the product.
        """
        kind, token = self._kind, self._token
        if kind == 'number' and len(token) > 1:
            if not token[0].isdigit():
                self._fail()
            # Behind the digit, e-9 and ,000 belong to no number.
            tokens = [(kind, token[0]), *tokens_of(token[1:])[:-1]]
            self._tokens[self._position : self._position + 1] = tokens
        elif kind == 'sign' and token in '([{':
            return self._group()
        elif kind not in ('number', 'letters'):
            return self._atom()
        token = self._token
        self._position += 1
        return literal(token) if kind == 'number' else _letter(token)

    def _function(self, name: str) -> Node:
        name = FUNCTIONS[name] or name
        base, power = None, None
        while self._kind == 'sign' and self._token in '_^':
            if self._take('_'):
                base = self._subscript_node()
            elif self._take('^'):
                power = self._exponent()
        if name == 'sqrt' and base is None and self._kind == 'number':
            arguments: tuple[Node, ...] = (self._number_or_argument(),)
        else:
            arguments = (self._function_argument(),)
        if base is not None:
            if name != 'log':
                self._fail()
            arguments += (base,)
        if power == negative(Number(Fraction(1))):
            inverse = f'arc{name}'
            if inverse not in FUNCTIONS:
                self._fail()
            return Apply(inverse, arguments)
        node = Apply(name, arguments)
        return node if power is None else Apply('^', (node, power))

    def _subscript_node(self) -> Node:
        return self._argument() if self._token == '{' else self._number_or_argument()

    def _function_argument(self) -> Node:
        if self._kind == 'sign' and self._token in '([{|':
            return self._group()
        minus = self._take('-')
        factors: list[Node] = [self._power()]
        while self._begins_factor() and not self._begins_function():
            if self._kind in ('number', 'repeating'):
                self._fail()
            factors.append(self._power())
        node = _joined('*', factors)
        return negative(node) if minus else node

    def _begins_function(self) -> bool:
        name = self._token.removeprefix('\\')
        return self._kind in ('command', 'letters') and name in FUNCTIONS


def _joined(operation: str, nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Apply(operation, tuple(nodes))


def _letter(name: str) -> Node:
    return Constant(name) if name in ('e', 'i') else Name(name)
