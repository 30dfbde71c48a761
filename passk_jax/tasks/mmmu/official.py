"""The official verdicts of MMMU, without its random choices.

This restates the rules of ``mmmu/utils/eval_utils.py`` of MMMU at commit bb0b95a. If a
question has choices, the last one that a response names is its answer. If the response
names none, the official verifier draws one at random; here the response is wrong. An
open answer is right if the text after words such as "is" in a line contains the stored
text or, to two decimals, the stored number.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passk_jax.tasks.options import letters
from passk_jax.tasks.pictured import MAX_ANSWER
from passk_jax.types import Verdict

NO_CHOICE = 'names no choice, where the official verifier draws one'

# Each is stripped from both ends, in this order.
_MARKS = (',', '.', '!', '?', ';', ':', "'")
_WORDS = (
    'could be ', 'so ', 'is ', 'thus ', 'therefore ', 'final ', 'answer ', 'result ',
)  # fmt: skip
_NUMBERS = (
    re.compile(r'-?\b\d{1,3}(?:,\d{3})+\b'),
    re.compile(r'-?(?<!\d)\d+(?:\.\d+)?[eE][+-]?\d+'),
    re.compile(r'-?(?:(?<!\d)\d+\.\d+|\.\d+|(?<!\d)\d+\b)(?![eE][+-]?\d)(?![,\d])'),
)


def verdict(data: Mapping[str, Any], response: str) -> Verdict:
    """Judges one response officially, given a problem's data (see task.py)."""
    if data['options']:
        choice = last_choice(response, data['options'])
        error = None if choice == data['answer'] else f'chose {choice}'
        return Verdict(error is None, choice or '', error if choice else NO_CHOICE)
    correct = _accepts(data['answers'], response)
    error = None if correct else 'no value is the stored one'
    return Verdict(correct, response[:MAX_ANSWER], error)


def last_choice(response: str, options: Sequence[str]) -> str | None:
    """Returns the choice named last: a letter in brackets, else a letter, else a text.

    >>> last_choice('(A), B? (C), no, (A).', ['x', 'y', 'z']), last_choice('D', ['x'])
    ('A', None)
    """
    for mark in _MARKS:
        response = response.strip(mark)
    response, option_letters = f' {response} ', letters(options)
    for form in '({})', ' {} ':
        places = {
            letter: response.rfind(form.format(letter)) for letter in option_letters
        }
        if max(places.values()) >= 0:
            return max(places, key=places.__getitem__)
    if len(response.split()) <= 5:
        return None
    response = response.lower()
    places = {
        letter: response.rfind(option.lower())
        for letter, option in zip(option_letters, options, strict=True)
    }
    return max(places, key=places.__getitem__) if max(places.values()) >= 0 else None


def _accepts(golds: Sequence[str], response: str) -> bool:
    values = [value for gold in golds for value in _values(gold)]
    texts = [value for value in values if isinstance(value, str)]
    for part in _parts(response):
        for text in (part, *_numbers(part)):
            for value in _values(text):
                if not isinstance(value, str):
                    if value in values:
                        return True
                elif any(gold in value for gold in texts):
                    return True
    return False


def _parts(response: str) -> list[str]:
    """Returns the text after the last of ``_WORDS`` in each line, or the response."""
    response = response.strip().strip('.').lower()
    lines = response.split('\n')
    parts = []
    for number, line in enumerate(lines, start=1):
        words = _WORDS if number < len(lines) else (*_WORDS, '=')
        tails = [line.rpartition(word)[2].strip() for word in words if word in line]
        # Any tail replaces an empty one before it.
        shortest = ''
        for tail in tails:
            if not shortest or len(tail) < len(shortest):
                shortest = tail
        if shortest and shortest not in _MARKS:
            parts.append(shortest)
    return parts or [response]


def _numbers(text: str) -> Iterator[str]:
    for pattern in _NUMBERS:
        yield from pattern.findall(text)


def _values(text: str) -> list[str | float]:
    """Returns a number to two decimals, or a text in lower case."""
    text = text.strip()
    try:
        return [round(float(text.replace(',', '')), 2)]
    except ValueError:
        text = text.lower()
    return [f' {text}', f'{text} '] if len(text) == 1 else [text]
