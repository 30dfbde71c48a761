"""Options of a question: their letters, and which of them a response names."""

import re
from collections.abc import Sequence

from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.normal_form import normal_form

_MARKER = re.compile(r'\banswer(?:\s+is\b|:):?', re.IGNORECASE)
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+|\n+')
# In B. five, no sentence ends behind the B.
_PART_END = re.compile(r'(?<=[.!?])(?<!^[A-Z]\.)(?<!^\*\*[A-Z]\.)\s+|\n+', re.MULTILINE)
# (B), B., B: and the like, perhaps followed by the text of the choice.
_LETTER = re.compile(
    r'(?:\\(?:text|math)(?:bf|rm)?\{)?\(?([A-Z])'
    r'(?:[).:]|\s|\}|~|\\[ ,;:]|\\text\{ *\}|$)[).:}]*(.*)',
    re.DOTALL,
)
# Between a letter and its text, as in A - five and \text{(A) }\ five.
_GAP = re.compile(r'(?:\s|[~}]|\\[ ,;:]|\\text\{ *\})*(?:[-–—=:](?=\s))?\s*')
_LED = re.compile(
    r'(?:\\(?:text|math)(?:bf|rm)?\{)?\s*(?:\(([A-Z])\)|([A-Z])[).:](?=\W))\s*\}?(.*)',
    re.DOTALL,
)
_TEXT = re.compile(r'^\\text(?:bf|rm)?\{([^{}]*)\}$')
_BRACKETED = re.compile(r'\(([A-Z])\)')
_MENTION = re.compile(
    r'^([A-Z])[).:]|\(([A-Z])\)|\b(?:[Oo]ption|[Cc]hoice|[Aa]nswer) ([A-Z])\b'
    r'|\b([A-Z])\W* is (?:the )?(?:correct|right|best)\b'
)
_STANDING = re.compile(r'(?<![\w\\])[A-Z](?!\w)')
_NEGATION = re.compile(r"\b(?:not|nor)\b|n't\b", re.IGNORECASE)
_DENIED = re.compile(
    r'\([A-Z]\) (?:cannot|(?:is|are|was|can|could|does|would be)'
    r"(?:n't| (?:\w+ )?(?:not|wrong|incorrect|false)))\b"
)
# Part of a formula is another formula: a^2 is in a^2 + b^2.
_FORMULA = re.compile(r'[$\\^=<>+]')
# Shorter texts of options, such as No and 12, occur as words in other sentences.
_LEAST_TEXT = 4


def listed(options: Sequence[str]) -> str:
    r"""Lists options by their letters, as the official prompts do.

    >>> listed(['two', 'three'])
    '(A) two\n(B) three\n'
    """
    pairs = zip(letters(options), options, strict=True)
    return ''.join(f'({letter}) {option}\n' for letter, option in pairs)


def letters(options: Sequence[str]) -> list[str]:
    """Returns the letters of options: A, B and so on."""
    return [chr(ord('A') + i) for i in range(len(options))]


def final_answer(response: str) -> str:
    r"""Returns the answer at the end of a response; ``''`` if there is none.

    It is the last box. Without a box it is the sentence after the last "answer is", or
    else the last sentence.

    >>> final_answer(r'A or \boxed{\text{B}}'), final_answer('The answer is (C). Ok?')
    ('\\text{B}', '(C)')
    """
    box = last_box(response)
    if box is not None:
        return box.strip()
    if r'\boxed' in response:
        return ''
    marks = list(_MARKER.finditer(response))
    if marks:
        sentence = _SENTENCE_END.split(response[marks[-1].end() :].strip(), 1)[0]
    else:
        sentence = _PART_END.split(response.strip())[-1]
    return sentence.strip(' *').removesuffix('.').strip()


def chosen(answer: str, options: Sequence[str]) -> set[str]:
    """Returns the letters of the options that an answer names.

    A short answer names an option by its letter, alone or before its text, or by its
    text, which several options may share. A longer answer names the letter that it
    begins with, such as (A); else a letter written as (A), option A, "A is right" or a
    last word A, or the option whose text it contains. An answer names nothing if it
    names several options, such as (A) before the text of B, if it denies one, as in
    "(A) is wrong", or if it has "not" or "nor" and does not begin with a letter such
    as (A).
    """
    answer = _inside(answer)
    # A letter alone may be lower-case.
    match = _LETTER.fullmatch(answer if len(answer) > 3 else answer.upper())
    texts = dict(zip(letters(options), map(_bare, options), strict=True))
    behind, content = _behind(match[2]) if match else set(), _bare(answer)
    if match and match[1] in texts and behind & {'', texts[match[1]]}:
        return {match[1]}
    same = {letter for letter, text in texts.items() if text and text == content}
    if not same and behind & {*texts.values()}:
        return set()
    bracketed = _BRACKETED.findall(answer)
    if not same and answer.startswith('(') and len({*bracketed}) == 1:
        same = {*bracketed} & texts.keys()
        if _DENIED.match(answer):
            return set()
    if same or _NEGATION.search(answer):
        return same
    mentions = list(_MENTION.finditer(answer))
    marked = {letter for mention in mentions for letter in mention.groups()}
    if mentions and _behind(answer[mentions[-1].end() :].lstrip(').: ')) & {
        text for letter, text in texts.items() if text and letter not in marked
    }:
        return set()
    if _STANDING.fullmatch(answer[-1:]) and _STANDING.search(answer[-2:]):
        marked.update(_STANDING.findall(answer))
    options_named = {
        letter
        for letter, option in zip(texts, options, strict=True)
        if letter in marked or _contains(answer, option)
    }
    return options_named if len(options_named) == 1 else set()


def split_letter(answer: str, options: Sequence[str]) -> tuple[str, str] | None:
    r"""Splits an answer such as ``(A) 5`` or ``A: 5`` into letter and text.

    >>> split_letter(r'\text{(B)}\ 1, 2', ['1', '2']), split_letter('A cat', ['dog'])
    (('B', '1, 2'), None)
    """
    match = _LED.fullmatch(answer.strip('$* '))
    letter = (match[1] or match[2]) if match else ''
    if not match or letter not in letters(options):
        return None
    return letter, normal_form(match[3])


def first_choice(response: str, options: Sequence[str]) -> set[str]:
    r"""Returns the letter that a response begins with, alone or before its text.

    An explanation may follow. If another option's letter stands in it, or if there is
    a box, the response has no such letter.

    >>> first_choice('B. Two.\n\nIt has two sides.', ['one', 'two'])
    {'B'}
    """
    response = response.strip()
    texts = dict(zip(letters(options), map(plain, options), strict=True))
    # The text of an option may have several sentences.
    for begin in (_PART_END.split(response, maxsplit=1)[0], response):
        match = _LETTER.fullmatch(begin.strip('$* '))
        if not match or plain(match[2]) not in ('', texts.get(match[1])):
            continue
        later = texts.keys() & {*_STANDING.findall(response[len(begin) :])}
        if match[1] in texts and later <= {match[1]} and r'\boxed' not in response:
            return {match[1]}
    return set()


def _contains(answer: str, option: str) -> bool:
    """Returns whether an answer has the words of an option; formulas have none.

    If an option has a number, nothing may touch it: 5 m/s is not in -5 m/s.
    """
    if len(option) < _LEAST_TEXT or _FORMULA.search(option):
        return False
    has_number = re.search('[0-9]', option)
    words, parts = (
        _parts(text) if has_number else re.findall(r'\w+', text.casefold())
        for text in (option, answer)
    )
    return f' {" ".join(words)} ' in f' {" ".join(parts)} '


def _parts(text: str) -> list[str]:
    """Splits a text at blanks, and takes the punctuation from the ends of its parts."""
    return [part.strip('.,;:!?"*') for part in text.casefold().split()]


def _inside(text: str) -> str:
    return _TEXT.sub(r'\1', text.strip('$* '))


def _behind(text: str) -> set[str]:
    """Normalizes what follows a letter, with and without brackets around it."""
    tail = _GAP.sub('', text, count=1).rstrip()
    if tail.count('}') > tail.count('{'):
        tail = tail.removesuffix('}')
    inside = tail[1:-1] if tail.startswith('(') and tail.endswith(')') else tail
    return {*map(_bare, (text, tail, inside))}


def _bare(text: str) -> str:
    return plain(normal_form(_inside(text)))


def plain(text: str) -> str:
    r"""Normalizes a text: no white space, dollars, capitals or final full stop.

    >>> plain(' $2 \\pi$.') == plain('2\\pi')
    True
    """
    return ''.join(text.replace('$', '').split()).removesuffix('.').casefold()
