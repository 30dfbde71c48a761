"""Tells words from products of letters."""

import re

from passk_jax.verifiers.vocabulary import FORMULAS, SHORT_WORDS


def is_word(text: str) -> bool:
    r"""Returns whether letters without ``\text`` are a word, not a product."""
    if not text.isascii():
        return True
    if ' ' in text or '-' in text or "'" in text:
        parts = re.split(r"[ '-]", text)
        return all(len(part) > 1 or part in 'aI' for part in parts) and '' not in parts
    if text.casefold() in SHORT_WORDS:
        return True
    if len(text) < 2 or not text.isalpha() or text in FORMULAS:
        return False
    if text.islower() and (len(text) == 2 or _neighbours(text)):
        return False
    # Two letters such as Bh are a product.
    return len(text) > 2 or text.isupper()


def _neighbours(text: str) -> bool:
    """Returns whether letters are neighbours in the alphabet, in order once sorted."""
    return len(text) < 5 and ''.join(sorted(text)) in 'abcdefghijklmnopqrstuvwxyz'
