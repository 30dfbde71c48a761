"""The official verdicts of KOR-Bench, without evaluating code.

This restates the rules of ``eval/eval_utils.py`` of KOR-Bench at commit bb8194d. Most
compare texts without punctuation marks and white space. For two puzzles KOR-Bench calls
``eval``; here a parser of arithmetic evaluates instead, so an expression with signs,
decimals or powers counts as wrong.

KOR-Bench compares fifteen ranges of operations as LaTeX if sympy finds a working
parser, else as texts. The published verdicts compare texts, and so do these.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from passk_jax.tasks.korbench.answers import (
    MAX_ANSWER,
    bare,
    first_answer,
    first_in_double_brackets,
    unmarked,
)
from passk_jax.types import Verdict
from passk_jax.verifiers import expressions
from passk_jax.verifiers.answers import Wrong

# Numbers of the operations whose answers are compared as LaTeX.
LATEX = frozenset(
    [
        *(18, 73, 74, 77, 94, 115, 116, 117, 121, 122, 123, 125),
        *(131, 132, 134, 135, 136, 141, 143, 145, 146, 147, 149),
        *(151, 152, 153, 154, 155, 156, 160, 161, 162, 164, 165, 166),
        *(170, 206, 209, 211, 212, 213, 214, 215, 217, 218),
    ]
)
# Those whose answers are sets given by inequalities.
INEQUALITIES = frozenset((178, 179))

# The official verifier's text for a missing answer, compared like any other text.
_NOTHING = 'NULL'
_INEQUALITY = re.compile(r'([≥≤])\s*(-?\d+\.?\d*)')
_LATEX_MARKS = re.compile(r'\\[()\[\]]')
_LATEX_TEXT = re.compile(r'\\text\{.*?\}')
_LATEX_SIZES = re.compile(r'\\(?:left|right|displaystyle)')


def verdict(data: Mapping[str, Any], response: str) -> Verdict:
    """Judges one response officially, given a problem's data (see problems.py)."""
    kind = data['category']
    read = first_in_double_brackets if kind == 'puzzle' else first_answer
    answer = read(response)
    parsed = (answer or '').strip()[:MAX_ANSWER]
    if answer is not None and len(answer) > MAX_ANSWER:
        error = f'an answer of more than {MAX_ANSWER} characters'
        return Verdict(False, parsed, error)
    correct = _accepts(data, answer)
    error = 'not the stored answer' if parsed else 'no answer'
    return Verdict(correct, parsed, None if correct else error)


def _accepts(data: Mapping[str, Any], answer: str | None) -> bool:
    kind, rule, gold = data['category'], int(data['rule']), data['answer']
    if kind == 'puzzle':
        compare = _PUZZLES.get(rule, _same_words)
        return compare(_NOTHING if answer is None else answer, gold)
    if answer is None:
        return False
    if kind == 'operation':
        return _operation(rule, int(data['idx']), answer, gold)
    if kind != 'logic':
        return bare(answer) == gold
    answer = _logic(answer)
    if rule == 5:
        return _parts_there(answer) == _parts_there(gold)
    return answer == _logic(gold)


def _operation(rule: int, idx: int, answer: str, gold: str) -> bool:
    if idx in INEQUALITIES:
        return _inequalities(bare(answer)) == _inequalities(gold)
    if rule == 18:
        return sorted(_word_characters(bare(answer))) == sorted(_word_characters(gold))
    if rule in (23, 24, 25):
        return _numbers(bare(answer)) == _numbers(gold)
    if idx in LATEX:
        return _latex(answer) == _latex(gold)
    if 'or' in gold:
        answer = bare(answer).replace(r'\text{or}', 'or')
        return _choices(answer) == _choices(bare(gold))
    return bare(answer) == gold


def _logic(text: str) -> str:
    return unmarked(text).replace('.', '')


def _parts_there(text: str) -> list[str]:
    # The verifier keeps the outer brackets, so the outer parts do not change places.
    return sorted(f'[[{text}]]'.split(';'))


def _inequalities(text: str) -> list[str]:
    return sorted(''.join(match) for match in _INEQUALITY.findall(text))


def _numbers(text: str) -> list[int]:
    # An answer has fewer digits than int() refuses.
    return [int(number) for number in re.findall(r'\d+', text)]


def _latex(text: str) -> str:
    text = re.sub(r'["\n\[\]$]', '', text).rpartition('=')[2]
    text = _LATEX_TEXT.sub('', _LATEX_MARKS.sub('', text))
    return _LATEX_SIZES.sub('', text).replace('\\\\', '\\')


def _choices(text: str) -> list[str]:
    return sorted(choice.strip() for choice in text.split('or'))


def _word_characters(text: str) -> str:
    return re.sub(r'\W+', '', text)


def _same_words(answer: str, gold: str) -> bool:
    return _word_characters(answer) == _word_characters(gold)


def _letters(text: str) -> str:
    return re.sub(r'[^A-Za-z]', '', text)


def _same_letters(answer: str, gold: str) -> bool:
    return _letters(answer).lower() == _letters(gold).lower()


def _one_affix(answer: str, gold: str) -> bool:
    return _letters(answer).lower() in gold.split(',')


def _same_list_of_words(answer: str, gold: str) -> bool:
    answer_words = [word for word in re.split(r'\W+', answer.lower()) if word]
    return sorted(answer_words) == sorted(gold.split(' '))


def _part_of_the_gold(answer: str, gold: str) -> bool:
    return _letters(answer).lower() in gold


def _same_items(answer: str, gold: str) -> bool:
    return sorted(re.sub(r'\s+', '', answer).split(',')) == sorted(gold.split(','))


def _equation(answer: str, gold: str) -> bool:
    sides = [_arithmetic(text).partition('=') for text in (answer, gold)]
    signs = [re.findall(r'[+\-*/]', side) for side, _, _ in sides]
    target = re.match(r'\s*(-?\d+)', sides[1][2])
    return (
        signs[0] == signs[1]
        and target is not None
        and _value(sides[0][0]) == int(target[1])
    )


def _twenty_four(answer: str, gold: str) -> bool:
    equation_side, gold = (
        _arithmetic(text).partition('=')[0]
        for text in (answer, gold.partition('\n')[0])
    )
    same = sorted(_word_characters(equation_side)) == sorted(_word_characters(gold))
    return same and _value(equation_side) == 24


def _arithmetic(text: str) -> str:
    return text.replace('×', '*').replace('−', '-')


def _value(text: str) -> Fraction | float | None:
    """Evaluates in Python's integers and floats; ``None`` for other expressions."""
    try:
        return expressions.evaluate(text, number=int).result
    except (Wrong, OverflowError):
        return None


def _same_arrows(answer: str, gold: str) -> bool:
    return re.sub(r'[,\s\[\]]+', '', answer) == re.sub(r'[,\s\[\]]+', '', gold)


_PUZZLES = {
    1: _same_letters,
    2: _one_affix,
    3: _same_list_of_words,
    4: _part_of_the_gold,
    5: _same_items,
    9: _equation,
    10: _twenty_four,
    18: _same_arrows,
}
