"""Times of day: ``12:30``, ``10 a.m.``, ``14:00``."""

import re

from passk_jax.verifiers.forms import Clock, Expression, Form
from passk_jax.verifiers.matching import Compare, Judge
from passk_jax.verifiers.scaling import integer, quotient

_CLOCK = re.compile(
    r'([0-9]{1,2})\s*:\s*([0-9]{2})(?:\s*:\s*([0-9]{2}))?\s*(?:\\text\{)?\s*([ap])?'
    r'(?:\.?\s*m\.?)?\s*\}?',
    re.IGNORECASE,
)
# Without dots, \text or capitals, 10am is a product.
_HOUR = re.compile(
    r'(\\text\{)?\s*([0-9]{1,2})\s*(\\text\{)?\s*(?:([ap])\.\s?m\.?|([AP])M|([ap])m)\s*\}?'
)


def read_clock(text: str) -> Clock | None:
    """Reads a time of day in normal form."""
    match = _CLOCK.fullmatch(text)
    if match and int(match[2]) < 60 and int(match[1]) < 25:
        numbers = tuple(int(part) for part in match.groups()[:3] if part)
        return Clock(numbers, (match[4] or '').lower())
    match = _HOUR.fullmatch(text)
    if match and int(match[2]) <= 12 and (match[1] or match[3] or not match[6]):
        half = match[4] or match[5] or match[6]
        return Clock((int(match[2]), 0), half.lower())
    return None


def clock_rule(
    gold: Clock, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a time; a.m. and p.m. count if both tell the half."""
    match answer:
        case Clock(numbers, half):
            if gold.half and half:
                return _count_from_midnight(gold) == _count_from_midnight(answer)
            if gold.half and numbers[0] > 12:
                return _count_from_midnight(gold) == numbers
            if half and gold.numbers[0] > 12:
                return gold.numbers == _count_from_midnight(answer)
            return gold.numbers == numbers
        case Expression() if not gold.half and len(gold.numbers) == 2:
            return compare(quotient(*map(integer, gold.numbers)), answer)
    return False


def _count_from_midnight(clock: Clock) -> tuple[int, ...]:
    hour, *smaller = clock.numbers
    return (hour % 12 + 12 * (clock.half == 'p'), *smaller)
