"""The task KOR-Bench: reasoning by a rule that the prompt states (arXiv:2410.06526).

It reads problems and prompts from a local copy of the benchmark. The paper tests on all
of them and trains on none; the parameters can set other shares. Verdicts are strict
(strict.py); published results use the official ones (official.py).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.config.ranges import not_empty, one_of, percent, section
from passk_jax.errors import InputError
from passk_jax.tasks.judging import judge_together
from passk_jax.tasks.korbench import official, problems, strict
from passk_jax.tasks.records import check_shares, located, split_of
from passk_jax.tasks.task import (
    About,
    EmptySplitError,
    Task,
    check_choice,
    check_several,
)
from passk_jax.types import Problem, Verdict, Verdicts
from passk_jax.verifiers.mathematics import FAILURES, check_packages


@section
class KorbenchParams:
    """Files of problems, and the shares of the splits.

    The hash of a problem's content decides its split, so equal problems share one.

    Attributes:
        directory: has a folder for each category; a relative path starts at
            ``data.dir``, or without that at the working directory.
        prompt_file: the benchmark's ``zero-shot.yaml``; relative as above.
        categories: some of ``problems.CATEGORIES``.
        train_percent, validation_percent: shares of the problems; the rest is test.
        report_by: ``'category'``, or ``'rule'`` for results by category and rule.
    """

    directory: str = not_empty()
    prompt_file: str = not_empty()
    categories: tuple[str, ...]
    train_percent: int = percent()
    validation_percent: int = percent()
    report_by: str = one_of('category', 'rule')

    def __post_init__(self):
        check_several('categories', self.categories, problems.CATEGORIES)
        check_shares(
            train_percent=self.train_percent, validation_percent=self.validation_percent
        )


class KorbenchTask(Task):
    """KOR-Bench as a :class:`passk_jax.tasks.task.Task`.

    Raises ValueError if a package that verdicts need is missing.
    """

    name = 'korbench'
    splits = ('train', 'validation', 'test')
    Params = KorbenchParams
    about = About(
        summary='KOR-Bench: reasoning by a rule that the prompt states',
        size='1,250: 25 rules in each of 5 categories',
        licence='Apache-2.0',
        source=problems.HOW_TO_GET,
        example={
            'directory': 'KOR-Bench/data',
            'prompt_file': 'KOR-Bench/config/prompt/zero-shot.yaml',
            'categories': problems.CATEGORIES,
            'train_percent': 0,
            'validation_percent': 0,
            'report_by': 'category',
        },
    )

    def __init__(self, params: KorbenchParams):
        super().__init__(params)
        check_packages()

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split, category after category.

        Raises ValueError if a file is missing or malformed, or if the split is unknown
        or empty.
        """
        check_choice('split', split, self.splits)
        params = self.params
        directory, prompt_file = (
            located(path, data_dir) for path in (params.directory, params.prompt_file)
        )
        problems_read = [
            problem
            for category in params.categories
            for problem in problems.read_category(
                category, directory=directory, prompt_file=prompt_file
            )
            if _split_of(problem, params) == split
        ]
        if not problems_read:
            raise EmptySplitError(
                f'split {split!r} of the korbench task is empty: '
                f'train_percent={params.train_percent}, '
                f'validation_percent={params.validation_percent}'
            )
        return [
            dataclasses.replace(problem, id=i, category=_label(problem, params))
            for i, problem in enumerate(problems_read)
        ]

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems in one call.

        Raises ValueError if the problems have different numbers of responses, or if
        the verifier fails.
        """

        def verdicts(problems: list[Problem], texts: list[str]) -> list[Verdict]:
            return strict.judge([problem.data for problem in problems], texts)

        return judge_together(problems, responses, judge=verdicts, failures=FAILURES)

    def right_response(self, problem: Problem) -> str:
        """Returns the stored answer in its brackets."""
        return f'[[{problem.data["answer"]}]]'

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes a problem and its rule, ignoring white space and case."""
        return problems.content_hash(problem)

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a record of ``sample.jsonl`` with an added field ``question_type``.

        That field is the category, which the benchmark's records do not have. Raises
        ValueError for text, or if a field is missing or malformed.
        """
        kind = record.get('question_type') if isinstance(record, Mapping) else ''
        if isinstance(record, Mapping) and kind not in problems.CATEGORIES:
            raise InputError(
                f"field 'question_type'={kind!r} is none of {list(problems.CATEGORIES)}"
            )
        return problems.parse(record, category=kind or '')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        return strict.judge([problem.data], [response])[0]

    @staticmethod
    def official_verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response by the official rule; a wrong one gets a reason."""
        return official.verdict(problem.data, response)


def _split_of(problem: Problem, params: KorbenchParams) -> str:
    return split_of(
        problems.content_hash(problem),
        train_percent=params.train_percent,
        validation_percent=params.validation_percent,
    )


def _label(problem: Problem, params: KorbenchParams) -> str:
    if params.report_by == 'category':
        return problem.category
    # Two digits, so that sorted names are in the order of the rules.
    return f'{problem.category}_{int(problem.data["rule"]):02}'
