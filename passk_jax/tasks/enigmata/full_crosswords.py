"""Crosswords in small fixed grids (``full_crosswords``)."""

import json
import re

from passk_jax.tasks import records
from passk_jax.tasks.enigmata.boards import Board, Cell, Place, cells_by_place, lines_of
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import (
    LEVELS,
    Data,
    OneAnswer,
    opened,
    read_text,
)
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, symbol_rows

_DIRECTIONS = ('across', 'down')
_NONE = 'No valid solution'
_LETTER, _WALL = '_*'


# A direction and its colon, as a heading or a key of JSON.
_DIRECTION = re.compile(r'\b(across|down)\b["\'*]{0,3} ?:', re.IGNORECASE)
_HEADING = re.compile(r'^[A-Za-z ]*:|[{"\'*#-]')
_NUMBER = re.compile(r'^\s*[-*]?\s*(?:[0-9]{1,2}[.):]?\s*)?')


class FullCrosswords(OneAnswer, FilePuzzle):
    """Crosswords; only the stored words are right, in any case, even if others fit.

    The answer to a problem without a solution is a sentence in double quotes.

    The strict rule also reads words in lists, JSON, one per line or numbered, and
    directions as headings.
    """

    name = 'full_crosswords'
    category = 'Grid'
    rules = (
        'Complete the crossword. A cell _ takes a letter, a cell * takes none. A row '
        'without * is an across word, from top to bottom in the order of the across '
        'clues; a column without * is a down word, from left to right in the order of '
        'the down clues.\n'
        'Answer: two lines with the words, for example\n'
        'across: CAT, TEN\n'
        'down: CUT, TIN\n'
        f'If there is no solution: "{_NONE}"'
    )
    files = ('full_crosswords/full_crosswords.jsonl',)
    origin = (
        "take Enigmata's records of this puzzle, one a line, from https://"
        'huggingface.co/datasets/BytedTsinghua-SIA/Enigmata-Data; its words and clues '
        'are those of jeggers/full_crossword_puzzles, whose licence applies'
    )

    def usual(self, data, answer):
        answer = spellings.bare(answer, stop=False, label=False)
        if _denies(answer):
            return answer
        before, *parts = _DIRECTION.split(answer)
        words = {
            direction.lower(): [
                _NUMBER.sub('', word).strip(' \t"\'*`[]{}.')
                for word in re.split('[,;\n]', text)
            ]
            for direction, text in zip(parts[::2], parts[1::2], strict=True)
        }
        if (
            len(parts) != 4
            or set(words) != set(_DIRECTIONS)
            or _HEADING.sub('', before).strip()
        ):
            raise Wrong('not the words of both directions')
        return '\n'.join(
            f'{direction}: {", ".join(word for word in words[direction] if word)}'
            for direction in _DIRECTIONS
        )

    def check(self, data, answer):
        if _denies(answer) != _denies(data['answer']):
            raise Wrong('there is a solution' if _denies(answer) else 'no solution')
        if _denies(answer):
            return
        if len(symbol_rows(answer)) != len(_DIRECTIONS):
            raise Wrong('not two lines')
        _check_words(data, answer)

    def check_official(self, data, answer):
        """Reads the last line of each kind; a sentence in quotes denies a solution."""
        denies = answer.startswith('"') and answer.endswith('"')
        if denies != _denies(data['answer']):
            raise Wrong('there is a solution' if denies else 'no solution')
        if not denies:
            _check_words(data, answer)

    def picture(self, data, answer):
        """Marks letters that differ from the stored words or from each other."""
        grid = _grid(data['question'])
        if not grid:
            return None
        letters, stored = (_letters(grid, text) for text in (answer, data['answer']))
        cells = {}
        for place, symbol in cells_by_place(grid).items():
            candidates = letters.get(place, set())
            wrong = len(candidates | stored.get(place, set())) > 1 and bool(candidates)
            kind = 'wall' if symbol == _WALL else 'free'
            cells[place] = Cell(
                '/'.join(sorted(candidates)), kind, new=True, wrong=wrong
            )
        return Board(cells)

    def read(self, record):
        question, answer = read_text(record['meta']['question']), record['answer']
        if isinstance(answer, str) and answer.lstrip().startswith('{'):
            answer = json.loads(answer)
        if not isinstance(answer, str):
            answer = '\n'.join(
                f'{direction}: {", ".join(map(read_text, answer[direction]))}'
                for direction in _DIRECTIONS
            )
        elif not _denies(answer):
            raise ValueError(f'the answer has no words and is not {_NONE!r}')
        return {'question': question, 'answer': answer}

    def problems(self, file):
        for _, record in records.read_lines(file):
            record = opened(record)
            data = self.read(record)
            level = record['meta']['difficulty_level']
            if level not in LEVELS:
                raise ValueError(f'level {level!r} is none of {list(LEVELS)}')
            yield FileProblem(data['question'], level, data)


def _denies(answer: str) -> bool:
    return _NONE.lower() in answer.lower()


def _check_words(data: Data, answer: str) -> None:
    words, stored = _words(answer), _words(data['answer'])
    for direction in _DIRECTIONS:
        if words[direction] != stored[direction]:
            raise Wrong(f'other words {direction}')


def _words(text: str) -> dict[str, list[str]]:
    """Returns the words of each direction; none if there is no such line."""
    words: dict[str, list[str]] = {direction: [] for direction in _DIRECTIONS}
    for line in text.split('\n'):
        direction, colon, words_text = line.strip().partition(':')
        if colon and direction.lower() in words:
            spaceless = words_text.replace(' ', '').upper().split(',')
            words[direction.lower()] = [word.strip() for word in spaceless]
    return words


def _grid(question: str) -> list[list[str]]:
    """Returns the rows of a question's grid, or none if they form no rectangle."""
    rows = [row for row in symbol_rows(question) if set(row) <= {_LETTER, _WALL}]
    return rows if len({len(row) for row in rows}) == 1 else []


def _letters(grid: list[list[str]], text: str) -> dict[Place, set[str]]:
    """Returns the letters that the words of both directions put into each cell."""
    lines = [
        line for line in lines_of(grid) if all(grid[r][c] != _WALL for r, c in line)
    ]
    across = [line for line in lines if line[0][0] == line[-1][0]]
    places = {'across': across, 'down': lines[len(across) :]}
    words = _words(text)
    letters: dict[Place, set[str]] = {}
    for direction in _DIRECTIONS:
        # Numbers of words and letters may differ from the grid's.
        for line, word in zip(places[direction], words[direction], strict=False):
            for place, letter in zip(line, word, strict=False):
                letters.setdefault(place, set()).add(letter)
    return letters


FULL_CROSSWORDS = FullCrosswords()
