r"""The task MMMU: questions with pictures from thirty subjects (arXiv:2311.16502).

It reads records and pictures from Parquet files of the hub, or from JSON lines with
paths of pictures (pictured.py). ``<image 2>`` in a question or an option is the place
of the picture in the field ``image_2``. Verdicts are strict; published results use the
official ones (official.py).

The strict rule takes the last box as the answer, or else the text after the last
"answer is", or else the last sentence. With choices, the answer is right if it names
only the right one, by letter or text; a response may also begin with its letter, as the
prompt asks, and then explain. An open answer is right if it is the stored text, or its
number to the decimals of the stored one, perhaps with a unit. It may end a sentence
after "is" or "=".

The official verifier reads any letter in brackets and any choice's text in a response,
and in an open response every number after words such as "is". So it accepts a list of
numbers, 1 for 0.9965, and a word that contains the answer; the strict rule does not.
"""

import ast
import pathlib
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import pictured
from passk_jax.tasks.mmmu import official
from passk_jax.tasks.options import (
    chosen,
    final_answer,
    first_choice,
    letters,
    listed,
    plain,
)
from passk_jax.tasks.picture_fields import read_pictures
from passk_jax.tasks.pictured import MAX_ANSWER, PicturedTask
from passk_jax.tasks.task import About
from passk_jax.types import PICTURE, Picture, Problem, Verdict
from passk_jax.verifiers import exact

_CHOOSE = "Answer with the option's letter from the given choices directly."
_ANSWER = 'Answer the question using a single word or phrase.'
_PLACE = re.compile(r'<image ?([0-9]+)>')
_FIELD = re.compile('image_[0-9]+')
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
        summary='MMMU: questions of many subjects with pictures',
        size='900 for validation; dev-*.parquet have 150',
        licence='Apache-2.0',
        source='hf download MMMU/MMMU --repo-type=dataset --local-dir=mmmu',
        example={
            'file': 'mmmu/*/validation-*.parquet',
            'train_percent': 0,
            'validation_percent': 0,
        },
    )

    instructions = (_CHOOSE, _ANSWER)

    @staticmethod
    def images(
        record: Mapping[str, Any], problem: Problem, folders: Sequence[pathlib.Path]
    ) -> list[Picture]:
        """Reads the picture of each place in the question, then in the options."""
        texts = problem.data['question'], *problem.data['options']
        names = [f'image_{n}' for text in texts for n in _PLACE.findall(text)]
        pictures = {
            name: read_pictures(record[name], folders)
            for name in record
            if _FIELD.fullmatch(name)
        }
        for name, images in pictures.items():
            if images and name not in names:
                raise InputError(f'the text has no place for the picture of {name!r}')
        for name in names:
            if len(pictures.get(name, ())) != 1:
                raise InputError(f'the text has a place for the picture of {name!r}')
        return [picture for name in names for picture in pictures[name]]

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
            write=_prompt,
            category=subject[1] if subject else str(record.get('subject', 'record')),
            answers=answers,
        )

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        answer, data = final_answer(response), problem.data
        if not answer:
            error = 'no answer in a box or at the end'
        elif len(answer) > MAX_ANSWER:
            error = f'an answer of more than {MAX_ANSWER} characters'
        else:
            error = (
                _choice(data, answer, response)
                if data['options']
                else _open(data, answer)
            )
        return Verdict(error is None, answer[:MAX_ANSWER], error)

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response by the official rule; a wrong one gets a reason."""
        return official.verdict(problem.data, response)


def _prompt(question: str, options: list[str]) -> str:
    if options:
        text = f'{question}\n\n{listed(options)}\n\n{_CHOOSE}'
    else:
        text = f'{question}\n\n{_ANSWER}'
    return _PLACE.sub(PICTURE, text)


def _options(record: Mapping[str, Any]) -> Any:
    if record.get('question_type') not in (None, 'multiple-choice'):
        return []
    if isinstance(index := record.get('index2ans'), Mapping):
        values = [index[letter] for letter in sorted(index)]
        if sorted(index) != letters(values):
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


def _choice(data: Mapping[str, Any], answer: str, response: str) -> str | None:
    options_named = chosen(answer, data['options'])
    options_named = options_named or first_choice(response, data['options'])
    if data['answer'] in options_named:
        return None
    return (
        f'chose {min(options_named)}, not {data["answer"]}'
        if options_named
        else 'no choice'
    )


def _open(data: Mapping[str, Any], answer: str) -> str | None:
    # 59, or it is 60.
    hedges = re.search(r'\bor\b', answer)
    tail = answer if hedges else _VALUE.split(answer)[-1].strip(' $')
    right = any(
        plain(gold) == plain(text) or _same_number(gold, text)
        for gold in data['answers']
        for text in (answer, tail)
    )
    return None if right else 'not the stored answer'


def _same_number(gold: str, answer: str) -> bool:
    """Tells whether a number, perhaps with a unit, equals the stored one as rounded."""
    match, gold_number = _NUMBER.fullmatch(answer), exact.rational(gold)
    number = exact.rational(match[1].replace(',', '')) if match else None
    if gold_number is None or number is None:
        return False
    _, _, decimals = gold.partition('.')
    # A stored integer or fraction is exact.
    most = Fraction(1, 2 * 10 ** len(decimals)) if decimals else 0
    return abs(number - gold_number) <= most
