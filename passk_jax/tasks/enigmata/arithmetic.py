"""The 24 game and countdown: combine all given numbers to reach a target."""

import contextlib
from typing import Any

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import Puzzle, read_int, read_ints
from passk_jax.verifiers import expressions, spellings
from passk_jax.verifiers.answers import Wrong, claims

_TARGET = 24
_GAME24_NUMBERS = (4, 5, 6)
_COUNTDOWN_NUMBERS = (5, 6, 7)
_COUNTDOWN_TARGETS = (20, 200)
_MAX_STEP = 1000


class _Arithmetic(Puzzle):
    """Base of both puzzles; data: ``numbers`` and ``target``.

    Any valid expression is right. The strict rule also reads the spellings of
    ``spellings.expression``: ``= 24``, the signs × ÷ − · x, LaTeX, square brackets.
    """

    category = 'Arithmetic'

    def usual(self, data, answer):
        claim = _claim(data['target'])
        if spellings.claims(answer, claim):
            return claim
        with contextlib.suppress(Wrong):
            expressions.evaluate(answer)
            return answer
        return spellings.expression(answer, data['target'])

    def check(self, data, answer):
        claim = _claim(data['target'])
        if claims(answer, claim):
            if not claims(data['answer'], claim):
                raise Wrong('there is a solution')
            return
        value = expressions.evaluate(answer)
        if sorted(value.numbers) != sorted(data['numbers']):
            raise Wrong('not the given numbers, each exactly once')
        if value.result != data['target']:
            raise Wrong(f'not {data["target"]}')

    def _read(self, record, target: int) -> dict[str, Any]:
        numbers = read_ints(record['meta']['question'])
        if not 0 < len(numbers) <= 8 or min(numbers) < 0:
            raise ValueError('not up to eight numbers that are at least 0')
        # It is stored as "The answer is: <expression> = <target>".
        answer = str(record['answer']).removeprefix('The answer is:')
        answer = answer.rpartition('=')[0].strip() or answer.strip()
        return {'numbers': numbers, 'target': target, 'answer': answer}


class Game24(_Arithmetic):
    """The 24 game; intermediate results may be fractions and negative."""

    name = 'game24'
    rules = (
        f'Write an arithmetic expression with the value {_TARGET}. Use each given '
        'number exactly once, the operators +, -, * and / and parentheses. '
        'Intermediate results may be fractions or negative; the expression itself has '
        'no signs before numbers.\n'
        'Answer: the expression, for example (8 / 2) * (8 - 2). If there is none: '
        f'cannot form {_TARGET}'
    )

    def generate(self, draws, level):
        """Draws random numbers; a quarter of the problems of four have no solution."""
        if level == 0:
            numbers = sorted(draws.between(1, 13) for _ in range(_GAME24_NUMBERS[0]))
            solution = expressions.find(tuple(numbers), _TARGET)
            text = expressions.without_outer(solution) if solution else _claim(_TARGET)
        else:
            while (text := _split(_TARGET, _GAME24_NUMBERS[level], draws)) is None:
                pass
            text = expressions.without_outer(text)
            numbers = sorted(expressions.evaluate(text).numbers)
        return {'numbers': numbers, 'target': _TARGET, 'answer': text}

    def question(self, data):
        return ','.join(map(str, data['numbers']))

    def read(self, record):
        data = self._read(record, _TARGET)
        if len(data['numbers']) <= _GAME24_NUMBERS[0]:
            solution = expressions.find(tuple(data['numbers']), _TARGET)
            data['answer'] = solution or _claim(_TARGET)
        return data


class Countdown(_Arithmetic):
    """Countdown; every intermediate result must be a positive integer.

    Every generated problem has a solution. For a record, the claim that none exists is
    right if the stored answer claims so.
    """

    name = 'countdown'
    rules = (
        'Write an arithmetic expression whose value is the target. Use each given '
        'number exactly once, the operators +, -, * and / and parentheses. All '
        'intermediate results must be positive integers.\n'
        'Answer: the expression, for example (8 / 2) * (8 - 2). If there is none: '
        'cannot form T, where T is the target'
    )

    def generate(self, draws, level):
        while (joined := _join(_COUNTDOWN_NUMBERS[level], draws)) is None:
            pass
        target, text = joined
        text = expressions.without_outer(text)
        numbers = sorted(expressions.evaluate(text).numbers)
        return {'numbers': numbers, 'target': target, 'answer': text}

    def question(self, data):
        numbers = ', '.join(map(str, data['numbers']))
        return f'Numbers: {numbers}\nTarget: {data["target"]}'

    def check_official(self, data, answer):
        """Checks like ``check``, but allows any intermediate results."""
        super().check(data, answer)

    def check(self, data, answer):
        super().check(data, answer)
        if claims(answer, _claim(data['target'])):
            return
        for step in expressions.evaluate(answer).steps:
            if step <= 0 or step.denominator != 1:
                raise Wrong(f'{step} is not a positive integer')

    def read(self, record):
        return self._read(record, read_int(record['meta']['target']))


def _claim(target: int) -> str:
    return f'cannot form {target}'


def _split(value: int, count: int, draws: Draws) -> str | None:
    """Draws an expression of ``count`` numbers from 1 to 13 with this value.

    It repeatedly splits the value into a number and a remaining value; ``None`` if the
    last value is outside 1 to 13.
    """
    if count == 1:
        return str(value) if 1 <= value <= 13 else None
    number = draws.between(1, 13)
    kind = draws.below(5)
    if kind == 0:
        remainder, form = value - number, '({rest}+{number})'
    elif kind == 1:
        remainder, form = value + number, '({rest}-{number})'
    elif kind == 2:
        remainder, form = number - value, '({number}-{rest})'
    elif kind == 3 and value % number == 0:
        remainder, form = value // number, '({rest}*{number})'
    else:
        remainder, form = value * number, '({rest}/{number})'
    if not 0 < remainder <= _MAX_STEP:
        return None
    text = _split(remainder, count - 1, draws)
    return None if text is None else form.format(rest=text, number=number)


def _join(count: int, draws: Draws) -> tuple[int, str] | None:
    """Draws a target and its expression, or ``None``."""
    numbers = [draws.between(1, 20) for _ in range(count)]
    terms = [(number, str(number)) for number in numbers]
    while len(terms) > 1:
        (a, x), (b, y), *unused_terms = draws.shuffled(terms)
        if a < b:
            (a, x), (b, y) = (b, y), (a, x)
        results = [(a + b, f'({x}+{y})'), (a * b, f'({x}*{y})')]
        if a > b:
            results.append((a - b, f'({x}-{y})'))
        if a % b == 0 and b > 1:
            results.append((a // b, f'({x}/{y})'))
        result = draws.choice(results)
        if result[0] > _MAX_STEP:
            return None
        terms = [*unused_terms, result]
    low, high = _COUNTDOWN_TARGETS
    return terms[0] if low <= terms[0][0] <= high else None


GAME24 = Game24()
COUNTDOWN = Countdown()
