"""A whole task in 20 lines of code: what a new one must define, and no more."""

import dataclasses

from passk_jax.tasks.task import Task
from passk_jax.types import Problem, Verdict


class LastDigit(Task):
    """The response must contain the last octal digit of the prompt."""

    name = 'last_digit'
    splits = ('train', 'test')

    def source(self, split, *, data_dir):
        numbers = {'train': range(8), 'test': range(8, 16)}[split]
        problems = [self.parse_problem(f'{number:09o}') for number in numbers]
        return [dataclasses.replace(p, id=i) for i, p in enumerate(problems)]

    @staticmethod
    def parse_problem(record):
        digit = str(int(str(record)[-1:], base=8))
        category = 'odd' if digit in '1357' else 'even'
        return Problem(0, f'{record}\n', {'digit': digit}, category)

    @staticmethod
    def verdict(problem, response):
        correct = problem.data['digit'] in response
        return Verdict(correct, response.strip(), None if correct else 'another digit')


class LastDigitInCharacters(LastDigit):
    """The same, with the one ability that a policy made from scratch needs."""

    name = 'last_digit_in_characters'
    # As many as the characters of mazes: the tests then share compiled programs.
    alphabet = '01234567\n'
