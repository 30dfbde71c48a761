r"""Shared by MathVision and MMMU: records with pictures, and letters of choices."""

import abc
import dataclasses
import glob
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from passk_jax.config.ranges import not_empty, percent
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks import records, sources
from passk_jax.tasks.picture_fields import picture_digests
from passk_jax.tasks.task import EmptySplitError, Task, check_choice
from passk_jax.types import Picture, Problem
from passk_jax.verifiers.extract import last_box

# Longer answers are wrong; the longest choice of MMMU has 700 characters.
MAX_ANSWER = 4096

_MARKER = re.compile(r'\banswer(?:\s+is\b|:):?', re.IGNORECASE)
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+|\n+')
# (B), B., B: and the like, perhaps followed by the text of the choice.
_LETTER = re.compile(
    r'(?:\\(?:text|math)(?:bf|rm)?\{)?\(?([A-Z])(?:[).:]|\s|\}|$)[).:}]*(.*)', re.DOTALL
)
_BRACKETED = re.compile(r'\(([A-Z])\)')
_MENTION = re.compile(r'^([A-Z])[).:]|\(([A-Z])\)|\b[Oo]ption ([A-Z])\b')
_STANDING = re.compile(r'(?<![\w\\])[A-Z](?!\w)')
_NEGATION = re.compile(r"\bnot\b|n't\b", re.IGNORECASE)
# Shorter texts of options, such as No and 12, occur as words in other sentences.
_LEAST_TEXT = 4


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
        if name.startswith('hf://'):
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
        sentence = _SENTENCE_END.split(response.strip())[-1]
    return sentence.strip(' *').removesuffix('.').strip()


def chosen(answer: str, options: Sequence[str]) -> set[str]:
    """Returns the letters of the options that an answer names.

    A short answer names an option by its letter, alone or before its text, or by its
    text, which several options may share. A longer answer names the letter that it
    begins with, such as (A); else a letter written as (A), option A or a last word A,
    or the option whose text it contains. An answer names nothing if it names several
    options, such as (A) before the text of B, or if it has "not" and does not begin
    with a letter such as (A).
    """
    answer = answer.strip('$* ')
    # A letter alone may be lower-case.
    match = _LETTER.fullmatch(answer if len(answer) > 3 else answer.upper())
    texts = dict(zip(letters(options), map(plain, options), strict=True))
    if match and match[1] in texts and plain(match[2]) in ('', texts[match[1]]):
        return {match[1]}
    same = {letter for letter, text in texts.items() if text and text == plain(answer)}
    if not same and match and plain(match[2]) in texts.values():
        return set()
    bracketed = _BRACKETED.findall(answer)
    if not same and answer.startswith('(') and len({*bracketed}) == 1:
        same = {*bracketed} & texts.keys()
    if same or _NEGATION.search(answer):
        return same
    marked = {letter for groups in _MENTION.findall(answer) for letter in groups}
    if _STANDING.fullmatch(answer[-1:]) and _STANDING.search(answer[-2:]):
        marked.update(_STANDING.findall(answer))
    words = _words(answer)
    options_named = {
        letter
        for letter, option in zip(texts, options, strict=True)
        if letter in marked
        or (len(option) >= _LEAST_TEXT and f' {_words(option)} ' in f' {words} ')
    }
    return options_named if len(options_named) == 1 else set()


def _words(text: str) -> str:
    return ' '.join(re.findall(r'\w+', text.casefold()))


def plain(text: str) -> str:
    r"""Normalizes a text: no white space, dollars, capitals or final full stop.

    >>> plain(' $2 \\pi$.') == plain('2\\pi')
    True
    """
    return ''.join(text.replace('$', '').split()).removesuffix('.').casefold()
