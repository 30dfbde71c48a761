"""Chess (``checkmate_in_one``): after the moves of a game, the move that gives mate."""

import json
import re

from passk_jax.tasks import records
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import OneAnswer, read_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong


class CheckmateInOne(OneAnswer, FilePuzzle):
    """Checkmate in one; all problems have the level medium.

    According to BIG-bench, one move gives mate in each position. The file has
    BIG-bench's canary, which asks not to train on it.

    The strict rule also reads the move after its number, without ``#`` or ``x``, with
    other marks of mate, and castling with zeros.
    """

    name = 'checkmate_in_one'
    category = 'Search'
    rules = (
        'The moves of a game of chess are given in standard algebraic notation. Find '
        'the next move, which gives checkmate.\n'
        'Answer: the move in the same notation, for example Rg5#'
    )
    files = ('checkmate_in_one/task.json',)
    origin = (
        'take it from bigbench/benchmark_tasks/checkmate_in_one of https://github.com/'
        'google/BIG-bench (Apache-2.0)'
    )

    def usual(self, data, answer):
        """Returns the stored move if the answer differs only in marks around it."""
        if _squeezed(spellings.bare(answer)) != _squeezed(data['answer']):
            raise Wrong('another move')
        return data['answer']

    def check(self, data, answer):
        """Compares with the stored move, including case; also the official rule."""
        if answer != data['answer']:
            raise Wrong('another move')

    def problems(self, file):
        for example in json.loads(records.read_text(file))['examples']:
            moves, mate = read_text(example['input']), read_text(example['target'])
            data = {'question': moves.strip(), 'answer': mate.strip()}
            yield FileProblem(data['question'], 'medium', data)


# A move's number, and marks of capture, check, mate, promotion and praise.
_MARKS = re.compile(
    r"""^\s*[0-9]{1,3}\s*\.+|[\s"'x×:=+#†‡!?.-]|e\.p\.|\(?\b(?:check)?mate\b\)?"""
)


def _squeezed(move: str) -> str:
    """Reduces a move to what distinguishes it; castling may be written with zeros."""
    return _MARKS.sub('', re.sub(r'0-0', 'O-O', move.replace('0-0-0', 'O-O-O')))


CHECKMATE_IN_ONE = CheckmateInOne()
