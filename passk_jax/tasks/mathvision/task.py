r"""The task MathVision: mathematics with pictures (arXiv:2402.14804).

It reads records from a local copy of the benchmark; pictures are not read yet (see
pictured.py). Verdicts are strict; published numbers count official ones (official.py).

The strict rule takes the last box as the answer, or else the text after the last
"answer is", or else the last sentence. With options, the answer is right if it names
only the right one, by letter, text or value. An open answer is right if it equals the
stored one as mathematics (:mod:`passk_jax.verifiers.mathematics`). The official
verifier also accepts answers that differ in the third decimal.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.tasks import pictured
from passk_jax.tasks.mathvision import official
from passk_jax.tasks.pictured import MAX_ANSWER, PicturedParams, PicturedTask
from passk_jax.tasks.task import About, judge_together
from passk_jax.types import Problem, Verdict, Verdicts
from passk_jax.verifiers import mathematics as mathematics
from passk_jax.verifiers.extract import last_box


class MathVisionTask(PicturedTask):
    """MathVision as a :class:`passk_jax.tasks.task.Task`; categories are subjects.

    Raises ValueError if a package that verdicts need is missing.
    """

    name = 'mathvision'
    about = About(
        summary='MathVision: mathematics with pictures, which are not read yet',
        size='3,040, all with pictures',
        licence='MIT',
        source='git clone https://github.com/mathllm/MATH-V, with data/test.jsonl',
        example={
            'file': 'MATH-V/data/test.jsonl',
            'train_percent': 0,
            'validation_percent': 0,
        },
    )

    def __init__(self, params: PicturedParams):
        super().__init__(params)
        mathematics.check_packages()

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


def judge(problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
    """Judges responses strictly; ValueError if the verifier fails."""
    answers = [pictured.final_answer(text) for text in responses]
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
    options_named = pictured.chosen(answer, options)
    if options_named:
        return (
            None if gold in options_named else f'chose {min(options_named)}, not {gold}'
        )
    return options[pictured.letters(options).index(gold)], answer
