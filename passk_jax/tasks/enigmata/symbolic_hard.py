"""Grids to transform (``symbolic_hard``), which are the tasks of ARC-AGI-1."""

import re

from passk_jax.tasks import arc_items, drawings
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import OneAnswer, read_text
from passk_jax.verifiers import answers
from passk_jax.verifiers.answers import Wrong
from passk_jax.verifiers.grids import (
    check_grid,
    grid_text,
    may_be_grid,
    read_grid,
    usual_grid,
)

# Zeros before another digit.
_ZEROS = re.compile(r'\b0+(?=[0-9])')


class SymbolicHard(OneAnswer, FilePuzzle):
    """ARC; its training tasks are easy, its evaluation tasks hard and only for tests.

    A task with several tests makes as many problems, in one split.

    The strict rule also reads the spellings of ``grids.usual_grid``: tables, a list per
    line, numpy's print, digits without separators. It skips blocks that cannot be a
    grid.
    """

    name = 'symbolic_hard'
    category = 'Grid'
    rules = (
        'One transformation turned the input of each example into its output. Find it '
        'and apply it to the last input. A grid is given as its rows; numbers from 0 '
        'to 9 stand for colors.\n'
        'Answer: the output grid, one row a line, numbers separated by spaces.'
    )
    files = ('arc_agi_1/training',)
    test_files = ('arc_agi_1/evaluation',)
    origin = (
        'take the folders data/training and data/evaluation of https://github.com/'
        'fchollet/ARC-AGI (Apache-2.0)'
    )

    def find(self, response):
        """Returns the last block with fences on separate lines: the official rule."""
        return answers.last_block(response, inline=False)

    def find_usual(self, response):
        """Finds like :meth:`find`, but skips blocks that cannot be a grid."""
        return answers.last_block(response, inline=False, like=may_be_grid)

    def usual(self, data, answer):
        return usual_grid(answer)

    def content_hash(self, data):
        """Hashes as the task ``arc``, which has the same problems.

        A record has only the text; without examples, the text itself is hashed.
        """
        examples = data.get('examples') or arc_items.hash_of_text(data['question'])
        return examples or super().content_hash(data)

    def check(self, data, answer):
        if read_grid(answer) != read_grid(data['answer']):
            raise Wrong('another grid')

    def check_official(self, data, answer):
        """Checks like ``check``, but cells need commas or spaces, and 07 is 7.

        Unlike the official verifier, this rejects ``7.0`` in a list, a comma at the end
        of a list, and non-ASCII digits.
        """
        if answer.startswith('['):
            self.check(data, answer)
            return
        if ',' in answer:
            lines = [line for line in answer.split('\n') if line.strip()]
            cells = [cell.split() for line in lines for cell in line.split(',')]
            if any(len(cell) != 1 for cell in cells):
                raise Wrong('not one comma between two cells')
        self.check(data, _ZEROS.sub('', answer))

    def draw(self, data, answer, *, correct):
        """Draws the answer's grid as the task ``arc`` does; ``''`` without a grid."""
        output = read_grid(data['answer'])
        return drawings.draw_grid({'output': output}, answer, correct=correct)

    def read(self, record):
        answer = record['answer']
        try:
            grid = read_grid(answer) if isinstance(answer, str) else check_grid(answer)
        except Wrong as e:
            raise ValueError(f'the answer is not a grid: {e}') from None
        question = read_text(record['meta']['question'])
        return {'question': question, 'answer': grid_text(grid)}

    def problems(self, file):
        level = 'hard' if file.name == 'evaluation' else 'easy'
        for task in arc_items.read_tasks(file):
            for test in task.test:
                question = (
                    f'{task.examples}\n\nInput:\n{grid_text(test.input)}\nOutput:'
                )
                data = {
                    'question': question,
                    'examples': task.content_hash,
                    'answer': grid_text(test.output),
                }
                yield FileProblem(task.content_hash, level, data)


SYMBOLIC_HARD = SymbolicHard()
