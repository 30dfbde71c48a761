"""The interface of every puzzle.

The data of a problem is a mapping of small integers, lists of them and short texts, so
that it fits in JSON and in arrays. Its ``answer`` is a solution as text in the
documented format. A generated problem has one that the strict rule accepts; a
benchmark's record has the stored one, ``''`` if there is none.
"""

import abc
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from passk_jax.tasks import records
from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.boards import Board
from passk_jax.tasks.enigmata.drawing import draw_board
from passk_jax.types import Verdict
from passk_jax.verifiers import answers, spellings
from passk_jax.verifiers.answers import Wrong

LEVELS = ('easy', 'medium', 'hard')

# Exceptions that reading a malformed record raises.
MALFORMED = (
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)

Data = Mapping[str, Any]
Grid = list[list[int]]


class AnyPuzzle(abc.ABC):
    """A kind of puzzle, with problems from a generator or from files.

    Attributes:
        name: Enigmata's name of the task.
        category: one of Enigmata's seven.
        rules: the rules and the format of the answer, in English.
        board: whether the answer is between board tags instead of in a fenced block.
        none: the claim that there is no solution; ``''`` if no answer may claim it, or
            if ``check`` handles the claim.
    """

    name: str
    category: ClassVar[str]
    board: ClassVar[bool] = False
    none: ClassVar[str] = ''
    rules: str

    @abc.abstractmethod
    def question(self, data: Data) -> str:
        """Returns the problem as text; equal texts are equal problems."""

    def question_hash(self, data: Data) -> bytes:
        """Hashes the question; splits and levels do not count."""
        question = self.question(data).encode('utf-8', 'surrogatepass')
        return hashlib.sha256(question).digest()

    def content_hash(self, data: Data) -> str:
        """Hashes a problem as in :class:`passk_jax.tasks.task.Task`.

        Problems of different puzzles have different hashes. A puzzle that shares
        problems with another task overrides this.
        """
        return records.content_hash(self.name, self.question_hash(data).hex())

    @abc.abstractmethod
    def check(self, data: Data, answer: str) -> None:
        """Raises ``Wrong`` if the answer breaks a rule; any valid solution is right."""

    def usual(self, data: Data, answer: str) -> str:
        """Converts an answer from a usual spelling to the documented format.

        ``spellings`` has the usual ones. Raises ``Wrong`` for an unknown spelling.
        """
        del data
        return spellings.bare(answer)

    def check_official(self, data: Data, answer: str) -> None:
        """Raises ``Wrong`` if the official verifier rejects the answer.

        By default the official rule is the strict rule.
        """
        self.check(data, answer)

    def picture(self, data: Data, answer: str) -> Board | None:
        """Describes the board with the answer in it; ``None`` without a board.

        The answer ``''`` gives just the problem. Raises ``Wrong`` if the answer cannot
        be drawn.
        """
        del data, answer
        return None

    def draw(self, data: Data, answer: str, *, correct: bool) -> str:
        """Draws the board as SVG; ``''`` for a puzzle without one.

        If the answer cannot be drawn, only the problem is.

        Args:
            data: the problem's data.
            answer: as :meth:`find` returns it; no text makes this raise.
            correct: the recorded verdict, which the drawing shows.
        """
        try:
            if len(answer) > answers.MAX_ANSWER:
                raise Wrong('too long to be drawn')
            board = self.picture(data, answer)
        except Wrong:
            board = self.picture(data, '')
        return '' if board is None else draw_board(board, self.name, correct=correct)

    @abc.abstractmethod
    def read(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Reads the data from Enigmata's record, whose ``meta`` is a mapping.

        Raises ValueError, KeyError or TypeError if the record is malformed.
        """

    def response(self, answer: str) -> str:
        """Returns the shortest response with this answer."""
        return answers.as_board(answer) if self.board else answers.as_block(answer)

    def find(self, response: str) -> str:
        """Returns the answer in a response; ``''`` if there is none."""
        find = answers.last_board if self.board else answers.last_block
        return find(response)

    def find_usual(self, response: str) -> str:
        """Returns the answer by the strict rule; by default the one of :meth:`find`."""
        return self.find(response)

    def read_answer(self, data: Data, response: str) -> str:
        """Returns the answer in a response, if possible in the documented format.

        An answer that is too long, or in no usual spelling, stays as :meth:`find`
        returns it.
        """
        answer = self.find_usual(response)
        if not answer or len(answer) > answers.MAX_ANSWER:
            return answer
        if self.none and spellings.claims(answer, self.none):
            return answer if answers.claims(answer, self.none) else self.none
        try:
            return self.usual(data, answer)
        except Wrong:
            return answer

    def verdict(self, data: Data, response: str, *, official: bool) -> Verdict:
        """Judges a response by the strict or the official rule.

        Neither raises, and both take time linear in the length of the response. Only
        the strict rule reads spellings besides the documented format.
        """
        answer = self.find(response) if official else self.read_answer(data, response)
        try:
            if len(answer) > answers.MAX_ANSWER:
                answer = answer[: answers.MAX_ANSWER]
                raise Wrong(f'an answer of more than {len(answer)} characters')
            if not answer:
                raise Wrong('no answer')
            (self.check_official if official else self.check)(data, answer)
        except Wrong as e:
            return Verdict(correct=False, parsed=answer, error=str(e))
        return Verdict(correct=True, parsed=answer, error=None)


class Puzzle(AnyPuzzle):
    """A kind of puzzle with a generator."""

    @abc.abstractmethod
    def generate(self, draws: Draws, level: int) -> dict[str, Any]:
        """Generates the data of a problem; ``level`` counts ``LEVELS`` from 0."""


class OneAnswer(AnyPuzzle):
    """A puzzle whose problem is a text with one right answer; data: ``question``."""

    def question(self, data):
        return data['question']

    def check(self, data, answer):
        if not answers.claims(answer, data['answer']):
            raise Wrong('another answer')

    def read(self, record):
        question, answer = record['meta']['question'], record['answer']
        return {'question': read_text(question), 'answer': read_text(answer)}


def grid_text(grid: Sequence[Sequence[Any]]) -> str:
    """Formats the rows of a grid as lines, cells separated by spaces."""
    return '\n'.join(' '.join(map(str, row)) for row in grid)


def read_grid(value: Any, *, side: int = 0, empty: Any = 0) -> Grid:
    """Reads a record's square of integers; ``None`` becomes ``empty``.

    Raises ValueError for anything else, or if the side is not ``side`` (0: any).
    """
    side = side or len(value)
    if not isinstance(value, list) or not 0 < side == len(value) <= 64:
        raise ValueError(f'not {side} rows')
    for row in value:
        if not isinstance(row, list) or len(row) != side:
            raise ValueError(f'not a square of side {side}')
    return [
        [empty if cell is None else read_int(cell) for cell in row] for row in value
    ]


def opened(record: Mapping[str, Any]) -> dict[str, Any]:
    """Decodes a record of Enigmata: ``meta`` to a mapping, the answer to its type.

    The published files store ``meta`` as JSON text and the answer as text. Raises
    ValueError, KeyError or TypeError if the record is malformed.
    """
    meta = record['meta']
    meta = json.loads(meta) if isinstance(meta, str) else meta
    if not isinstance(meta, Mapping):
        raise ValueError('meta is not an object')
    return {**record, 'answer': meta.get('answer', record.get('answer')), 'meta': meta}


def read_text(value: Any) -> str:
    """Reads a record's text; raises ValueError for anything else or white space."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'{str(value)[:80]!r} is not text')
    return value


def read_int(value: Any) -> int:
    """Reads a record's integer; raises ValueError for anything else."""
    if type(value) is not int or abs(value) >= 10**9:
        raise ValueError(f'{value!r} is not an integer')
    return value


def read_ints(value: Any) -> list[int]:
    """Reads a record's list of integers; raises ValueError for anything else."""
    if not isinstance(value, list) or len(value) > 4096:
        raise ValueError('not a list')
    return [read_int(item) for item in value]


def cells_of(grid: Iterable[Iterable[Any]]) -> list[Any]:
    """Returns the cells of a grid, row by row."""
    return [cell for row in grid for cell in row]


def columns(grid: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Returns the columns of a grid."""
    return list(zip(*grid, strict=True))
