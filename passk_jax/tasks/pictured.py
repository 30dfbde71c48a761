"""Shared by MathVision and MMMU: records with pictures."""

import abc
import dataclasses
import glob
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from passk_jax.config.ranges import not_empty, percent
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks import records, sources
from passk_jax.tasks.options import letters
from passk_jax.tasks.picture_fields import picture_digests
from passk_jax.tasks.task import EmptySplitError, Task, check_choice
from passk_jax.types import Picture, Problem

# Longer answers are wrong; the longest choice of MMMU has 700 characters.
MAX_ANSWER = 4096


@dataclasses.dataclass(frozen=True)
class PicturedParams:
    """Files of problems, and the shares of the splits.

    The hash of a problem's content decides its split, so equal problems share one.

    Attributes:
        file: JSON lines, Parquet or another form of sources.py; a relative path starts
            at ``data.dir``, or without that at the working directory. ``*`` stands for
            any name, and ``**`` for any directories: all such files are read.
        train_percent, validation_percent: shares of the problems; the rest is test.
    """

    file: str = not_empty()
    train_percent: int = percent()
    validation_percent: int = percent()

    def __post_init__(self):
        records.check_shares(
            train_percent=self.train_percent, validation_percent=self.validation_percent
        )


class PicturedTask(Task):
    """A benchmark whose records may have pictures.

    ``Problem.data`` has ``question``, ``options`` (a list of texts) and ``answer``.
    """

    splits: ClassVar = ('train', 'validation', 'test')
    Params = PicturedParams

    @staticmethod
    @abc.abstractmethod
    def images(
        record: Mapping[str, Any], problem: Problem, folders: Sequence[pathlib.Path]
    ) -> list[Picture]:
        """Reads the pictures of a record in the order of their places in the prompt.

        Args:
            record: a record of the file.
            problem: the problem made from it.
            folders: where paths may start.

        Raises:
            InputError: a picture is absent, or has no place in the prompt.
        """

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Reads the problems of a split.

        Raises ValueError if a file or a picture is absent, cannot be read or is
        malformed, or if the split is unknown or empty.
        """
        check_choice('split', split, self.splits)
        problems = []
        for name in self._files(data_dir):
            source = sources.read(name, data_dir=data_dir)
            # A clone of MATH-V has its pictures beside the directory of the records.
            folders = source.folder, source.folder.parent
            for number, record in source.records:
                with prefixed(f'{source.name}: {source.unit} {number}'):
                    problem = self.parse_problem(record)
                    images = tuple(self.images(record, problem, folders))
                    problem = dataclasses.replace(problem, images=images)
                    if self._split_of(problem) == split:
                        problem = dataclasses.replace(problem, id=len(problems))
                        problems.append(problem)
        if not problems:
            file = records.located(self.params.file, data_dir)
            raise EmptySplitError(f'split {split!r} of {file} is empty: {self.params}')
        return problems

    def _files(self, data_dir: str) -> list[str]:
        name = self.params.file
        # A path may have brackets, which glob takes for a choice.
        if sources.is_remote(name) or records.located(name, data_dir).exists():
            return [name]
        root = pathlib.Path(data_dir).expanduser()
        pattern = str(pathlib.Path(name).expanduser())
        files = glob.glob(pattern, root_dir=root, recursive=True)
        if not files:
            place = str(records.located(name, data_dir))
            raise InputError(f'{place!r} is absent: {self.about.source}')
        return sorted(files)

    def right_response(self, problem: Problem) -> str:
        """Returns the stored answer in a box."""
        return rf'\boxed{{{problem.data["answer"]}}}'

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes a problem and its pictures, ignoring white space and case."""
        texts = problem.data['question'], *problem.data['options']
        return records.content_hash(*texts, *picture_digests(problem))

    def _split_of(self, problem: Problem) -> str:
        return records.split_of(
            self.content_hash(problem),
            train_percent=self.params.train_percent,
            validation_percent=self.params.validation_percent,
        )


def make_problem(
    question: Any,
    options: Any,
    answer: Any,
    *,
    write: Callable[[str, list[str]], str],
    category: Any,
    **data: Any,
) -> Problem:
    """Makes a problem with its prompt; ValueError if an argument is malformed.

    Args:
        question, answer: non-empty texts; the answer to a question with options is the
            letter of one.
        options: texts, none for an open question.
        write: makes the prompt of the question and the options.
        category: the problem's category.
        data: further entries of ``Problem.data``.
    """
    for name, text in {'question': question, 'answer': answer}.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f'field {name!r} must be text that is not empty')
    if not isinstance(options, list) or not all(isinstance(o, str) for o in options):
        raise InputError("field 'options' must be a list of texts")
    if len(options) > 26:
        raise InputError(f'{len(options)} options are more than the 26 letters')
    if options and answer not in letters(options):
        raise InputError(f'the answer {answer[:20]!r} is not the letter of an option')
    if not isinstance(category, str):
        raise InputError(f'category {category!r} is not text')
    fields = {'question': question, 'options': options, 'answer': answer}
    return Problem(0, write(question, options), fields | data, category)
