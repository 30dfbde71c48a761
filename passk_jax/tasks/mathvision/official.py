r"""The official verdicts of MathVision, without evaluating code.

This restates the rules of ``evaluation/`` of MATH-V at commit a1f5cc3. The answer is
found and cleaned step by step. It is right if it is the stored text or, rounded to two
decimals, the stored value. MATH-V computes values by ``eval``; here a LaTeX parser
computes them in worker processes, which are killed after a deadline (values.py).
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from passk_jax.tasks.options import letters
from passk_jax.tasks.pictured import MAX_ANSWER
from passk_jax.types import Verdict
from passk_jax.verifiers.mathematics import FAILURES, MEMORY_BYTES
from passk_jax.verifiers.pool import TIMEOUT, Pool

_VALUES = 'passk_jax.tasks.mathvision.values:equal'
_DEADLINE_S = 5.0

_PHRASES = (
    'the final answer is',
    'the answer is',
    'the correct answer is',
    'the answer should be',
)
# Replacements in the answer, in this order.
_FIRST = (
    (' ', ''), ('\\,', ''), ('∞', '\\infty'), ('+\\infty', '\\infty'),
    ('\\\\', '\\'), ('\n', ''), ('\\text', ''), ('\\mbox', ''),
    ('bmatrix', 'pmatrix'), ('\\left', ''), ('\\right', ''), ('^{\\circ}', ''),
    ('^\\circ', ''), ('{m}^3', ''), ('m^3', ''), ('{units}', ''), ('units', ''),
    ('{km}', ''), ('km', ''), ('\n', ''), ('\\!', ''), ('\\\\', '\\'),
    ('tfrac', 'frac'), ('dfrac', 'frac'), ('\\left', ''), ('\\right', ''),
    ('^{\\circ}', ''), ('^\\circ', ''), ('\\$', ''), ('$', ''),
)  # fmt: skip
_SECOND = (('\\%', ''), (' .', ' 0.'), ('{.', '{0.'))
_RATIO = re.compile(r'(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)')


@functools.cache
def shared_pool() -> Pool:
    """Returns the pool that compares values; makes it on first use."""
    return Pool(_VALUES, workers=1, deadline_s=_DEADLINE_S, memory_bytes=MEMORY_BYTES)


def verdict(data: Mapping[str, Any], response: str) -> Verdict:
    """Judges one response officially, given a problem's data (see pictured.py)."""
    answer = found_answer(response)
    parsed = answer[:MAX_ANSWER]
    if len(answer) > MAX_ANSWER:
        error = f'an answer of more than {MAX_ANSWER} characters'
        return Verdict(False, parsed, error)
    if not answer.strip():
        return Verdict(False, '', 'no answer')
    options, stored = data['options'], [data['answer']]
    if options:
        stored.append(options[letters(options).index(data['answer'])])
    stored = [text.lower() for text in stored if text.strip()]
    if answer.strip() in (text.strip() for text in stored):
        return Verdict(True, parsed, None)
    judged = shared_pool().judge([(text, answer) for text in stored])
    if any(judgement.correct for judgement in judged):
        return Verdict(True, parsed, None)
    late = any(judgement.failure == TIMEOUT for judgement in judged)
    return Verdict(False, parsed, FAILURES[TIMEOUT] if late else 'not the answer')


def found_answer(response: str) -> str:
    r"""Returns the answer as the official verifier cleans it, in lower case.

    >>> found_answer('So it must be (B).'), found_answer(r'x is \boxed{x = \frac12}.')
    ('b', '\\frac12')
    """
    text = response.strip()
    for letter in 'ABCDE':
        ends = f' {letter}.', f' ({letter}).'
        starts = f'{letter}\n', f'({letter})\n', f'({letter}) {letter}\n'
        if text.endswith(ends) or text.startswith(starts):
            text = letter
    number = text.rpartition('is ')[2].rstrip('.')
    if _is_number(number):
        text = number
    if 'oxed{' not in text:
        text = _after_phrases(text)
    elif text.count('oxed{') > 1:
        text = 'oxed{' + text.rpartition('oxed{')[2]
    text = _cleaned(_content(text.lower().replace('{}', '')))
    for brackets in ('()', '{}'):
        for letter in 'abcde':
            text = text.replace(letter.join(brackets), letter)
    return text.rstrip('.').lstrip(':').strip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _after_phrases(text: str) -> str:
    for phrase in _PHRASES:
        for spelling in (phrase, phrase.replace('the', 'The')):
            _, separator, text_after = text.rpartition(spelling)
            text = text_after.strip()
            if separator:
                text = text.partition('\n')[0].partition('. ')[0]
    return text


def _content(text: str) -> str:
    """Returns the content of the box or the text, up to an unmatched closing brace."""
    _, box, text_after = text.partition('oxed{')
    inside, closed, _ = text_after.rpartition('}')
    text = inside if box and closed else text
    close, begin = text.find('}'), text.find('{')
    if close >= 0 and (begin < 0 or close < begin):
        text = text[:close]
    return text.rpartition('=')[2].rpartition('\\approx')[2]


def _cleaned(text: str) -> str:
    text = _replaced(text, _FIRST).partition('\\text{ ')[0]
    text = _replaced(text, _SECOND)
    if text.startswith('.'):
        text = f'0{text}'
    for sign in ('=', '\\approx'):
        if text.count(sign) == 1:
            text = text.partition(sign)[2]
    if 'sqrt' in text:
        text = _braced_fractions(_braced_roots(text).replace(' ', ''))
    text = text.replace(' ', '')
    if text == '0.5':
        return '\\frac{1}{2}'
    ratio = _RATIO.fullmatch(text)
    return f'\\frac{{{ratio[1]}}}{{{ratio[2]}}}' if ratio else text


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _braced_roots(text: str) -> str:
    return re.sub(r'\\sqrt([^{\\]|\\(?!sqrt))', r'\\sqrt{\1}', text, flags=re.DOTALL)


def _braced_fractions(text: str) -> str:
    first, *fractions = text.split('\\frac')
    parts = [first]
    for part in fractions:
        if not part.startswith('{'):
            if len(part) < 2:
                return text
            above, below = part[0], part[1]
            below = below if below == '{' else f'{{{below}}}'
            part = f'{{{above}}}{below}{part[2:]}'
        parts.append(part)
    return '\\frac'.join(parts)
