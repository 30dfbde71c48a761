r"""The task MathVision: mathematics with pictures (arXiv:2402.14804).

It reads records and pictures from a local copy of the benchmark (pictured.py). A record
has one picture, which stands before the text, as in the official prompt: a question may
name its parts, ``<image1>`` and so on. Verdicts are strict; published results use the
official ones (official.py).

The strict rule takes the last box as the answer, or else the text after the last
"answer is", or else the last sentence. With options, the answer is right if it names
only the right one, by letter, text or value. An open answer is right if it equals the
stored one as mathematics (:mod:`passk_jax.verifiers.mathematics`). The official
verifier also accepts answers that differ in the third decimal.
"""

import functools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import pictured
from passk_jax.tasks.judging import judge_together
from passk_jax.tasks.mathvision import official
from passk_jax.tasks.options import chosen, final_answer, letters, listed, split_letter
from passk_jax.tasks.picture_fields import read_pictures
from passk_jax.tasks.pictured import MAX_ANSWER, PicturedParams, PicturedTask
from passk_jax.tasks.task import About
from passk_jax.types import PICTURE, Picture, Problem, Verdict, Verdicts
from passk_jax.verifiers import mathematics as mathematics
from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.forms import Option
from passk_jax.verifiers.reading import read

_INSTRUCTION = r'Please solve the problem step by step and put your answer in one "\boxed{}". If it is a multiple choice question, only one letter is allowed in the "\boxed{}".'  # noqa: E501
_PART = re.compile(r'<image ?[0-9]+>')


class MathVisionTask(PicturedTask):
    """MathVision as a :class:`passk_jax.tasks.task.Task`; categories are subjects.

    Raises ValueError if a package that verdicts need is missing.
    """

    name = 'mathvision'
    about = About(
        summary='MathVision: mathematics with pictures',
        size='3,040, of which testmini.jsonl has 304',
        licence='MIT',
        source='git clone https://github.com/mathllm/MATH-V mathvision',
        example={
            # In the clone that is data/test.jsonl.
            'file': 'mathvision/**/test.jsonl',
            'train_percent': 0,
            'validation_percent': 0,
        },
    )

    instructions = (_INSTRUCTION,)

    def __init__(self, params: PicturedParams):
        super().__init__(params)
        mathematics.check_packages()

    @staticmethod
    def images(
        record: Mapping[str, Any], problem: Problem, folders: Sequence[pathlib.Path]
    ) -> list[Picture]:
        """Reads a record's picture: a path or, in files of the hub, a file's bytes."""
        images = read_pictures(_image(record), folders)
        if not images and (part := _PART.search(str(problem.data))):
            raise InputError(f'the text has {part[0]}, and no field has a picture')
        return images

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems in one call.

        Raises ValueError if the problems have different numbers of responses, or if
        the verifier fails.
        """
        return judge_together(
            problems, responses, judge=judge, failures=mathematics.FAILURES
        )

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a record of ``test.jsonl``; ValueError if it is text or malformed."""
        if not isinstance(record, Mapping):
            raise InputError("give MathVision's record as an object, not as text")
        return pictured.make_problem(
            *(record.get(name) for name in ('question', 'options', 'answer')),
            write=functools.partial(_prompt, pictured=bool(_image(record))),
            category=record.get('subject', 'record'),
        )

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        return judge([problem], [response])[0]

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response by the official rule; a wrong one gets a reason."""
        return official.verdict(problem.data, response)


def _image(record: Mapping[str, Any]) -> Any:
    # The files of the hub have the bytes in a field of their own.
    return record.get('decoded_image') or record.get('image')


def _prompt(question: str, options: list[str], *, pictured: bool) -> str:
    # The choices may be in the picture.
    choices = '' if ''.join(options) == 'ABCDE' else listed(options)
    place = f'{PICTURE}\n' if pictured else ''
    return f'{place}{_INSTRUCTION}\n{question}\n{choices}'


def judge(problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
    """Judges responses strictly; ValueError if the verifier fails."""
    answers = [final_answer(text) for text in responses]
    checked = [
        _check(problem.data, answer)
        for problem, answer in zip(problems, answers, strict=True)
    ]
    pairs = [
        checked_answer
        for checked_answer in checked
        if isinstance(checked_answer, tuple)
    ]
    compared = iter(mathematics.compare(pairs))
    verdicts = []
    for answer, checked_answer in zip(answers, checked, strict=True):
        error = (
            next(compared).error
            if isinstance(checked_answer, tuple)
            else checked_answer
        )
        verdicts.append(Verdict(error is None, answer[:MAX_ANSWER], error))
    return verdicts


def _check(data: Mapping[str, Any], answer: str) -> tuple[str, str] | str | None:
    """Returns stored value and answer to compare, an error, or ``None`` if right."""
    if not answer:
        return 'no answer in a box or at the end'
    if len(answer) > MAX_ANSWER:
        return f'an answer of more than {MAX_ANSWER} characters'
    options, gold = data['options'], data['answer']
    if not options:
        # A few stored answers are in a box.
        return last_box(gold) or gold, answer
    options_named = chosen(answer, options)
    if options_named:
        return (
            None if gold in options_named else f'chose {min(options_named)}, not {gold}'
        )
    text = options[letters(options).index(gold)]
    if led := split_letter(answer, options):
        # (A) 5 is right for A only if 5 is its text.
        wrong = ({led[0]} | chosen(led[1], options)) - {gold}
        return f'chose {min(wrong)}, not {gold}' if wrong else (text, led[1])
    form = read(answer)
    if isinstance(form, Option) and form.letter != gold:
        return f'chose {form.letter}, not {gold}'
    return text, answer
