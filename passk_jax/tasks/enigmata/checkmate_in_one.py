"""Chess: the move that gives mate, after the moves of a game (``checkmate_in_one``)."""

import json
import re

from passk_jax.tasks import records
from passk_jax.tasks.enigmata.files import FilePuzzle, Found
from passk_jax.tasks.enigmata.puzzle import OneAnswer, read_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong


class CheckmateInOne(OneAnswer, FilePuzzle):
    """One move gives mate in each position, says BIG-bench; all levels are medium.

    The file asks not to be trained on: it has the canary of BIG-bench.

    The strict rule also reads the move after its number, without ``#`` or ``x``, with
    other marks of mate, and castling in zeros.
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
        """The stored move, whatever marks stand around it."""
        if _squeezed(spellings.bare(answer)) != _squeezed(data['answer']):
            raise Wrong('another move')
        return data['answer']

    def check(self, data, answer):
        """Equality with the stored move, capitals included; also the official rule."""
        if answer != data['answer']:
            raise Wrong('another move')

    def problems(self, file):
        for example in json.loads(records.read_text(file))['examples']:
            moves, mate = read_text(example['input']), read_text(example['target'])
            data = {'question': moves.strip(), 'answer': mate.strip()}
            yield Found(data['question'], 'medium', data)


# The number of a move, a capture, check and mate, promotion, praise.
_MARKS = re.compile(
    r"""^\s*[0-9]{1,3}\s*\.+|[\s"'x×:=+#†‡!?.-]|e\.p\.|\(?\b(?:check)?mate\b\)?"""
)


def _squeezed(move: str) -> str:
    """What tells a move from others; castling may be written in zeros."""
    return _MARKS.sub('', re.sub(r'0-0', 'O-O', move.replace('0-0-0', 'O-O-O')))


CHECKMATE_IN_ONE = CheckmateInOne()
