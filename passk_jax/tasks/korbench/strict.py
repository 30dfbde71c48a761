r"""Strict verdicts on KOR-Bench, by the rules that its questions state.

Only the text in the last double square brackets counts as the answer. By category:

* cipher and counterfactual: the stored answer, ignoring quotes and white space.
* logic: the same, ignoring full stops too; the rows of a circuit's table in any order.
* operation: the values of the stored answer, in any order if there are several; numbers
  exactly, others equal as mathematics
  (:func:`passk_jax.verifiers.mathematics.compare`); sets by their elements, matrices
  row by row with their signs.
* puzzle: any solution if the question allows several: a cryptarithm, an equation of a
  path, an expression for 24, one of the stored words. Otherwise the stored answer,
  grids cell by cell and other answers word by word.

The official verifier accepts some answers that are wrong here: an empty answer to an
anagram, because every word contains it; matrices and grids whose numbers are split
elsewhere or lack their signs; sets with the same characters, such as {12} for {1,2}. It
compares texts and so rejects some answers that are right here: ``\frac{13}{3}`` for
13/3, and the puzzles whose stored answer fails its own rule.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from passk_jax.tasks.korbench.answers import (
    MAX_ANSWER,
    bare,
    last_answer,
    unmarked,
    words,
)
from passk_jax.tasks.korbench.official import INEQUALITIES
from passk_jax.types import Verdict
from passk_jax.verifiers import exact, expressions, spellings
from passk_jax.verifiers import mathematics as mathematics
from passk_jax.verifiers.answers import Wrong
from passk_jax.verifiers.pool import Pool

Data = Mapping[str, Any]

_NOT_STORED = 'not the stored answer'
# No operation has more.
_MAX_VALUES = 8

# Separates the values of an answer; "or" inside a word, as in \operatorname, does not.
_OR = re.compile(r'\\text\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])')
_LATEX_SIGNS = (
    (re.compile(r'\\geq?(?![a-z])|>='), '≥'),
    (re.compile(r'\\leq?(?![a-z])|<='), '≤'),
    (re.compile(r'\\mid(?![a-z])|\|'), '∣'),
    (re.compile(r'\\(?=[{}])'), ''),
)
_INTEGER = re.compile(r'-?[0-9]{1,9}')
_ASSIGNMENT = re.compile(r'([A-Z])=([0-9])')
_SUM = re.compile(r'\s*([A-Z]+(?:\+[A-Z]+)+)=([A-Z]+)')
_PATH = re.compile(r'\s*(\?(?:[-+*/]\?)+)=(-?[0-9]{1,6})')
_FOUR_NUMBERS = re.compile(r':\s*((?:[0-9]{1,2}\s+){3}[0-9]{1,2})(?![0-9])')


@dataclasses.dataclass(frozen=True)
class Values:
    """An answer that is right if its values equal the stored ones.

    Attributes:
        golds: the stored values, LaTeX.
        answers: as many values to judge.
        ordered: whether the values must come in the stored order.
    """

    golds: tuple[str, ...]
    answers: tuple[str, ...]
    ordered: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """Returns the pairs of a stored value and a value that may equal it."""
        if self.ordered:
            return list(zip(self.golds, self.answers, strict=True))
        return list(itertools.product(self.golds, self.answers))

    def error(self, judged: Mapping[tuple[str, str], Verdict]) -> str | None:
        """Says why the answer is wrong by the pairs' verdicts; ``None`` if right."""
        pairs = self.pairs()
        if len(pairs) == 1:
            return judged[pairs[0]].error
        equal = [pair for pair in pairs if judged[pair].correct]
        if self.ordered:
            is_equal = equal == pairs
        else:
            # No two of the stored values are equal.
            matched = {gold for gold, _ in equal}, {answer for _, answer in equal}
            is_equal = matched == ({*self.golds}, {*self.answers})
        if is_equal:
            return None
        errors = {judged[pair].error for pair in pairs}
        failures = [
            failure for failure in mathematics.FAILURES.values() if failure in errors
        ]
        return min(failures, default='not the stored values')


def judge(
    problems: Sequence[Data], responses: Sequence[str], *, pool: Pool | None = None
) -> list[Verdict]:
    """Judges responses, all mathematics in one call.

    Args:
        problems: the data of each response's problem (see problems.py).
        responses: complete texts.
        pool: judges mathematics; ``None``: the pool of the task math.

    Raises:
        ValueError: the pool fails; never because of a response.
    """
    checked = [
        _check(data, text) for data, text in zip(problems, responses, strict=True)
    ]
    values = [
        checked_answer
        for _, checked_answer in checked
        if isinstance(checked_answer, Values)
    ]
    pairs = [pair for checked_answer in values for pair in checked_answer.pairs()]
    judged = dict(zip(pairs, mathematics.compare(pairs, pool=pool), strict=True))
    verdicts = []
    for answer, checked_answer in checked:
        error = (
            checked_answer.error(judged)
            if isinstance(checked_answer, Values)
            else checked_answer
        )
        verdicts.append(Verdict(error is None, answer, error))
    return verdicts


def _check(data: Data, response: str) -> tuple[str, Values | str | None]:
    """Returns the answer, and values to compare, an error, or ``None`` if right."""
    answer = last_answer(response)
    if not answer:
        return '', 'no answer in double square brackets'
    if len(answer) > MAX_ANSWER:
        error = f'an answer of more than {MAX_ANSWER} characters'
        return answer[:MAX_ANSWER], error
    try:
        return answer, _CATEGORIES[data['category']](data, answer)
    except Wrong as e:
        return answer, str(e)


def _text(data: Data, answer: str) -> None:
    _same(bare(answer), bare(data['answer']))


def _logic(data: Data, answer: str) -> None:
    parts = [
        unmarked(text).replace('.', '').split(';') for text in (answer, data['answer'])
    ]
    if data['rule'] == '5':
        # Brackets separate the rows; none surround them all.
        parts = [sorted(part.strip('[]') for part in line) for line in parts]
    _same(*parts)


def _operation(data: Data, answer: str) -> Values | None:
    gold = data['answer']
    if int(data['idx']) in INEQUALITIES or '≥' in gold or '≤' in gold:
        _same(_inequalities(answer), _inequalities(gold))
    elif data['rule'] == '18':
        _same(_elements(answer), _elements(gold))
    elif data['rule'] in ('23', '24', '25'):
        _same(_matrix(answer), _matrix(gold))
    else:
        return _values(gold, answer)
    return None


def _values(gold: str, answer: str) -> Values | None:
    separator = re.compile(',') if ',' in gold else _OR
    golds, answers = (
        [part.strip() for part in separator.split(text.replace('$', '').strip('[]'))]
        for text in (gold, answer)
    )
    if len(answers) != len(golds) or not all(answers):
        raise Wrong(f'{len(answers)} values, not {len(golds)}')
    if len(golds) > _MAX_VALUES:
        raise Wrong(f'more than {_MAX_VALUES} values')
    if '=' in gold:
        names, values = zip(*map(_sort_by_name, (golds, answers)), strict=True)
        _same(names[1], names[0])
        return Values(*values, ordered=True)
    # Names before values, as in "X=3 or X=4" and "f△g=2x".
    answers = [_after_name(part) for part in answers]
    numbers = _rationals(golds)
    if numbers is None:
        return Values(tuple(golds), tuple(answers))
    # Here math-verify would take 256+4 for 260, and 0.333333 for 1/3.
    rationals = _rationals(answers)
    if rationals is None:
        raise Wrong('not a number' if len(golds) == 1 else 'not numbers')
    _same(sorted(rationals), sorted(numbers))
    return None


def _rationals(texts: Sequence[str]) -> list[Fraction] | None:
    """Reads the texts as numbers; ``None`` if one is not a number."""
    numbers = [exact.rational(text) for text in texts]
    rationals = [number for number in numbers if number is not None]
    return rationals if len(rationals) == len(numbers) else None


def _after_name(value: str) -> str:
    name, equals, value_text = value.partition('=')
    return value_text.strip() if equals else name


def _sort_by_name(parts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits ``y=3`` and ``x=2`` into names and values, sorted by name."""
    pairs = sorted(tuple(map(str.strip, part.partition('=')[::2])) for part in parts)
    names, values = zip(*pairs, strict=True)
    return names, values


def _inequalities(text: str) -> list[str]:
    """Returns the alternatives of ``{x∣x≤0 or x≥1}``; the braces may be missing."""
    for sign, plain in _LATEX_SIGNS:
        text = sign.sub(plain, text)
    text = bare(text).replace('$', '').removeprefix('{').removesuffix('}')
    return sorted(text.removeprefix('x∣').split('or'))


def _elements(text: str) -> set[str]:
    """Returns the elements of ``{a,b}``, in LaTeX ``\\{a,b\\}``."""
    text = bare(text).replace('$', '').replace('\\', '')
    if not (text.startswith('{') and text.endswith('}')):
        raise Wrong('no set in braces')
    return set(text[1:-1].split(','))


def _matrix(text: str) -> list[list[int]]:
    """Returns the rows of ``((1,2),(3,4))``, in brackets of any kind."""
    rows = [row.strip(', \n') for row in re.split(r'[()\[\]{};]', text)]
    return [_integers(row) for row in rows if row]


def _integers(row: str) -> list[int]:
    numbers = [number.strip() for number in row.split(',')]
    if not all(map(_INTEGER.fullmatch, numbers)):
        raise Wrong(f'{row[:20]!r} is not a row of integers')
    return list(map(int, numbers))


def _puzzle(data: Data, answer: str) -> None:
    _PUZZLES.get(int(data['rule']), _same_words)(data, answer)


def _same_words(data: Data, answer: str) -> None:
    _same(words(answer), words(data['answer']))


def _same_words_in_any_case(data: Data, answer: str) -> None:
    _same(words(answer.lower()), words(data['answer'].lower()))


def _same_words_in_any_order(data: Data, answer: str) -> None:
    _same(sorted(words(answer.lower())), sorted(words(data['answer'].lower())))


def _some_of_the_words(data: Data, answer: str) -> None:
    answer_words = words(answer.lower())
    if not answer_words or not set(answer_words) <= set(words(data['answer'].lower())):
        raise Wrong('none of the stored words')


def _same_cells(data: Data, answer: str) -> None:
    _same(*(_rows_of_cells(text) for text in (answer, data['answer'])))


def _rows_of_cells(text: str) -> list[str]:
    """Returns rows with one character per cell; separators do not count."""
    rows = (''.join(bare(row).split()) for row in re.split(r'[,;\n]', text))
    return [row for row in rows if row]


def _cryptarithm(data: Data, answer: str) -> None:
    """Checks that the digits for the letters make the question's sum hold."""
    question = _SUM.match(data['question'])
    if not question:
        _same(*(sorted(bare(text).split(',')) for text in (answer, data['answer'])))
        return
    terms, total = question[1].split('+'), question[2]
    texts = bare(answer).split(',')
    items = [item for text in texts if (item := _ASSIGNMENT.fullmatch(text))]
    if len(items) < len(texts):
        raise Wrong('not letter=digit, separated by commas')
    digits = {item[1]: item[2] for item in items}
    if len(digits) != len(items) or digits.keys() != set(total).union(*terms):
        raise Wrong('not every letter of the sum, each once')
    if len(set(digits.values())) != len(digits):
        raise Wrong('two letters with one digit')
    numbers = [''.join(digits[x] for x in word) for word in (*terms, total)]
    if any(number.startswith('0') and number != '0' for number in numbers):
        raise Wrong('a number begins with 0')
    *parts, last_number = map(int, numbers)
    if sum(parts) != last_number:
        raise Wrong('the sum does not hold')


def _path(data: Data, answer: str) -> None:
    """Checks that the digits for each ``?`` make the question's equation hold."""
    question = _PATH.match(data['question'])
    if not question:
        raise Wrong('the question is not an equation of ?')
    left, equals, right = _arithmetic(answer).partition('=')
    form = re.escape(question[1]).replace(r'\?', '[0-9]')
    if not equals or not re.fullmatch(form, left) or right != question[2]:
        raise Wrong('not the equation of the question with digits')
    if expressions.evaluate(left).result != int(question[2]):
        raise Wrong('the equation does not hold')


def _twenty_four(data: Data, answer: str) -> None:
    """Checks an expression for 24 that has each of the four given numbers once.

    :func:`spellings.expression` reads its spellings.
    """
    question = _FOUR_NUMBERS.search(data['question'])
    if not question:
        raise Wrong('the question has no four numbers')
    value = expressions.evaluate(spellings.expression(answer, 24))
    if sorted(value.numbers) != sorted(map(int, question[1].split())):
        raise Wrong('not the given numbers, each exactly once')
    if value.result != 24:
        raise Wrong('not 24')


def _arithmetic(text: str) -> str:
    return ''.join(spellings.operators(spellings.bare(text, label=False)).split())


def _same(answer: object, gold: object) -> None:
    if answer != gold:
        raise Wrong(_NOT_STORED)


_CATEGORIES: dict[str, Callable[[Data, str], Values | None]] = {
    'cipher': _text,
    'counterfactual': _text,
    'logic': _logic,
    'operation': _operation,
    'puzzle': _puzzle,
}

_PUZZLES: dict[int, Callable[[Data, str], None]] = {
    1: _same_words_in_any_case,
    2: _some_of_the_words,
    3: _same_words_in_any_order,
    4: _some_of_the_words,
    5: _cryptarithm,
    9: _path,
    10: _twenty_four,
    **dict.fromkeys((12, 14, 15, 16, 17, 18, 20, 21, 24, 25), _same_cells),
}
