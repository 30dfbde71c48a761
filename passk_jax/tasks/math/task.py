r"""The mathematics task: problems from files or the hub, an answer in ``\boxed{}``.

The defaults of ``configs/math.py`` fit MathArena's AIME, OlymMATH, and DeepScaleR's
MATH and AIME 1983 to 2023. The prompt is that of OlymMATH's own evaluation.
:mod:`passk_jax.verifiers.mathematics` says how a response is judged.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.config.ranges import not_empty
from passk_jax.errors import InputError
from passk_jax.tasks import sources
from passk_jax.tasks.judging import judge_together
from passk_jax.tasks.math import problems
from passk_jax.tasks.task import (
    About,
    EmptySplitError,
    Task,
    check_choice,
    check_disjoint,
)
from passk_jax.types import Problem, Verdict, Verdicts
from passk_jax.verifiers import mathematics
from passk_jax.verifiers.golds import gold_of, is_sentinel


@dataclasses.dataclass(frozen=True)
class MathParams:
    """Files of problems, and the fields of their records.

    Attributes:
        train_files, validation_files, test_files: names of files, of files on the
            hub and of TFDS data sets (sources.py); a relative path starts at
            ``data.dir``, or without that at the working directory.
        problem_field: a record's field with the problem, a text or a chat;
            ``prompt.0.content`` is a field of an item of a list.
        answer_field: the field with the answer, LaTeX without dollars.
        id_fields: the first of these fields that a record has is its id.
    """

    train_files: tuple[str, ...]
    validation_files: tuple[str, ...]
    test_files: tuple[str, ...]
    id_fields: tuple[str, ...]
    problem_field: str = not_empty()
    answer_field: str = not_empty()

    def __post_init__(self):
        sources.check_files(self, MathTask.splits)


class MathTask(Task):
    """Mathematics as a :class:`passk_jax.tasks.task.Task`.

    Raises ValueError if a package that verdicts need is missing.
    """

    name = 'math'
    splits = ('train', 'validation', 'test')
    Params = MathParams
    instructions = (problems.INSTRUCTIONS,)
    about = About(
        summary='mathematics: AIME, OlymMATH, MATH, or other problems with answers',
        size='30 of each AIME, 100 of each OlymMATH, 7,471 of MATH',
        licence='of OlymMATH and MATH: MIT; the text of AIME is of the MAA',
        source=sources.HOW_TO_GET,
        example={
            'train_files': ('math_train/math_train.jsonl',),
            'validation_files': (),
            'test_files': ('aime/aime_2024.jsonl', 'aime/aime_2025.jsonl'),
            'problem_field': 'problem',
            'answer_field': 'answer',
            'id_fields': ('id', 'unique_id'),
        },
        # The benchmarks that the paper reports.
        benchmark={
            'train_files': (),
            'test_files': (
                'aime/aime_2024.jsonl',
                'aime/aime_2025.jsonl',
                'olymmath/OlymMATH-EN-EASY.jsonl',
                'olymmath/OlymMATH-EN-HARD.jsonl',
            ),
        },
    )

    def __init__(self, params: MathParams):
        super().__init__(params)
        mathematics.check_packages()

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split.

        It reads the files of all splits to check that no two share a problem. Raises
        ValueError if they do, if a file cannot be read, or if the split is unknown or
        empty.
        """
        check_choice('split', split, self.splits)
        problems = self._read(data_dir)[split]
        if not problems:
            files = f'{split}_files={getattr(self.params, f"{split}_files")}'
            raise EmptySplitError(f'split {split!r} of the math task is empty: {files}')
        return problems

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems in one call.

        Raises ValueError if the problems have different numbers of responses, or if
        the verifier fails.
        """

        def verdicts(problems: list[Problem], texts: list[str]) -> list[Verdict]:
            return mathematics.judge([p.data['answer'] for p in problems], texts)

        return judge_together(
            problems, responses, judge=verdicts, failures=mathematics.FAILURES
        )

    def unparsed_golds(self, problems: Sequence[Problem]) -> dict[int, str]:
        """Returns the golds that the verifier cannot parse, by problem index."""
        golds = [problem.data['answer'] for problem in problems]
        return {place: golds[place] for place in mathematics.unparsed(golds)}

    def right_response(self, problem: Problem) -> str:
        """Returns the gold in a box."""
        return rf'\boxed{{{gold_of(problem.data["answer"])}}}'

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes a problem, ignoring white space and case."""
        return problems.content_hash(problem)

    def _read(self, data_dir: str) -> dict[str, list[Problem]]:
        """Reads the problems of every split."""
        params = self.params
        splits = {
            split: problems.read_split(
                files,
                data_dir=data_dir,
                problem=params.problem_field,
                answer=params.answer_field,
                ids=params.id_fields,
            )
            for split in self.splits
            for files in [getattr(params, f'{split}_files')]
        }
        check_disjoint(splits, digest=self.content_hash)
        return splits

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads a record with the fields ``problem`` and ``answer``.

        Raises ValueError for text, a missing field, or a gold that means that there is
        none, such as ``proof``.
        """
        problem = problems.parse(record)
        if is_sentinel(gold := problem.data['answer']):
            raise InputError(f'the gold {gold!r} is no answer')
        return problem

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        return mathematics.judge_one(problem.data['answer'], response)
