"""List functions (``big_bench_symbolic``): apply a function known by its examples."""

import json
import re

from passk_jax.tasks import records
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import OneAnswer, read_ints, read_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_list

_OFFICIAL_LIST = re.compile(r'\[([\d\s,]+)\]')


class ListFunctions(OneAnswer, FilePuzzle):
    """List functions; eight examples are easy, four are hard.

    Enigmata states no levels. The four examples of a problem are among the eight of
    another one, so such problems form a group.

    The strict rule also reads the spellings of ``spellings.integers``: without
    brackets, without commas.
    """

    name = 'big_bench_symbolic'
    category = 'Sequential'
    rules = (
        'One function turned the list on the left of each line into that on its right. '
        'Find the function and apply it to the list of the last line.\n'
        'Answer: the list that it gives, for example [0, 2, 3]'
    )
    files = ('list_functions/task_4ex.jsonl', 'list_functions/task_8ex.jsonl')
    origin = (
        'take both files from data/Big-bench/Functions/symbolic of https://github.com/'
        'Strong-AI-Lab/Logical-and-abstract-reasoning (MIT)'
    )

    def usual(self, data, answer):
        return spellings.integers(answer)

    def check(self, data, answer):
        if integer_list(answer) != integer_list(data['answer']):
            raise Wrong('another list')

    def check_official(self, data, answer):
        """Compares the first list of numbers; ``[]`` is not a list.

        Unlike the official verifier, this rejects non-ASCII digits and numbers of more
        than nine digits.
        """
        match = _OFFICIAL_LIST.search(answer)
        if not match:
            raise Wrong('no list of numbers')
        numbers = [number for number in match[1].split(',') if number.strip()]
        if integer_list(f'[{",".join(numbers)}]') != integer_list(data['answer']):
            raise Wrong('another list')

    def read(self, record):
        answer = record['answer']
        numbers = read_ints(json.loads(answer) if isinstance(answer, str) else answer)
        return {
            'question': read_text(record['meta']['question']),
            'answer': str(numbers),
        }

    def problems(self, file):
        for _, record in records.read_lines(file):
            _, first, *turns = [turn['content'] for turn in record['input']]
            question = '\n'.join([first, *turns]).strip()
            answer = str(read_ints(json.loads(record['ideal'])))
            level = 'easy' if len(turns) > 4 else 'hard'
            yield FileProblem(first, level, {'question': question, 'answer': answer})


LIST_FUNCTIONS = ListFunctions()
