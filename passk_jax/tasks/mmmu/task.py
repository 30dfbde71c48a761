r"""The task MMMU: questions with pictures from thirty subjects (arXiv:2311.16502).

It reads records from JSON lines; pictures are not read yet (see pictured.py). Verdicts
are strict; published numbers count official ones (official.py).

The strict rule takes the last box as the answer, or else the text after the last
"answer is", or else the last sentence. With choices, the answer is right if it names
only the right one, by letter or text. An open answer is right if it is the stored text,
or its number to the decimals of the stored one, perhaps with a unit. It may end a
sentence after "is" or "=".

The official verifier reads any letter in brackets and any choice's text in a response,
and in an open response every number after words such as "is". So it accepts a list of
numbers, 1 for 0.9965, and a word that contains the answer; the strict rule does not.
"""

import ast
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import pictured
from passk_jax.tasks.mmmu import official
from passk_jax.tasks.pictured import MAX_ANSWER, PicturedTask
from passk_jax.tasks.task import About
from passk_jax.types import Problem, Verdict
from passk_jax.verifiers import exact

_SUBJECT = re.compile(r'[a-z]+_(.+)_[0-9]+')
_VALUE = re.compile(r'\b(?:is|are)\b|[=≈]')
_NUMBER = re.compile(
    r'(?:\$|€|£)? ?([+-]?(?:[0-9][0-9,]*)?\.?[0-9]+(?:/[0-9]+)?) ?([^\W\d_]|[%°$Ω /^])*'
)


class MmmuTask(PicturedTask):
    """MMMU as a :class:`passk_jax.tasks.task.Task`; categories are subjects.

    ``Problem.data`` also has ``answers``, texts that are all right.
    """

    name = 'mmmu'
    about = About(
        summary='MMMU: questions of many subjects with pictures, not read yet',
        size='900 for validation, all with pictures',
        licence='Apache-2.0',
        source=(
            'JSON lines of your own, made of the dataset MMMU/MMMU of the Hugging Face '
            'hub (900 records of its split validation)'
        ),
        example={
            'file': 'mmmu/validation.jsonl',
            'train_percent': 0,
            'validation_percent': 0,
        },
    )

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a record of the dataset or of the benchmark's outputs.

        The former has ``options``, a list or its text; the latter has ``index2ans`` and
        no question. Raises ValueError for text or a malformed record.
        """
        if not isinstance(record, Mapping):
            raise InputError("give MMMU's record as an object, not as text")
        answer = record.get('answer')
        answers = answer if isinstance(answer, list) else [answer]
        if not answers or not all(isinstance(a, str) and a.strip() for a in answers):
            raise InputError(f'field answer={answer!r} must be text or a list of texts')
        identity = str(record.get('id', ''))
        subject = _SUBJECT.fullmatch(identity)
        return pictured.make_problem(
            record.get('question', identity or 'a question'),
            _options(record),
            answers[0],
            category=subject[1] if subject else str(record.get('subject', 'record')),
            answers=answers,
        )

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        answer, data = pictured.final_answer(response), problem.data
        if not answer:
            error = 'no answer in a box or at the end'
        elif len(answer) > MAX_ANSWER:
            error = f'an answer of more than {MAX_ANSWER} characters'
        else:
            error = _choice(data, answer) if data['options'] else _open(data, answer)
        return Verdict(error is None, answer[:MAX_ANSWER], error)

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response by the official rule; a wrong one gets a reason."""
        return official.verdict(problem.data, response)


def _options(record: Mapping[str, Any]) -> Any:
    if record.get('question_type') not in (None, 'multiple-choice'):
        return []
    if isinstance(index := record.get('index2ans'), Mapping):
        values = [index[letter] for letter in sorted(index)]
        if sorted(index) != pictured.letters(values):
            raise InputError(f'field index2ans has other letters: {sorted(index)}')
        return values
    options = record.get('options')
    if not isinstance(options, str):
        return options
    try:
        # The published files have a list of Python here.
        return ast.literal_eval(options)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as e:
        raise InputError(f'field options={options[:40]!r} is not a list: {e}') from e


def _choice(data: Mapping[str, Any], answer: str) -> str | None:
    options_named = pictured.chosen(answer, data['options'])
    if data['answer'] in options_named:
        return None
    return (
        f'chose {min(options_named)}, not {data["answer"]}'
        if options_named
        else 'no choice'
    )


def _open(data: Mapping[str, Any], answer: str) -> str | None:
    tail = _VALUE.split(answer)[-1].strip(' $')
    right = any(
        pictured.plain(gold) == pictured.plain(text) or _same_number(gold, text)
        for gold in data['answers']
        for text in (answer, tail)
    )
    return None if right else 'not the stored answer'


def _same_number(gold: str, answer: str) -> bool:
    """Tells whether a number, perhaps with a unit, equals the stored one as rounded."""
    match, wanted = _NUMBER.fullmatch(answer), exact.rational(gold)
    number = exact.rational(match[1].replace(',', '')) if match else None
    if wanted is None or number is None:
        return False
    _, _, decimals = gold.partition('.')
    # A stored integer or fraction is exact.
    most = Fraction(1, 2 * 10 ** len(decimals)) if decimals else 0
    return abs(number - wanted) <= most
