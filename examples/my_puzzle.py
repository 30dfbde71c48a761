"""A task of one's own: digits. ``--config=custom:task=my_puzzle.py:Largest``"""

from passk_jax.tasks import Problem, Task, Verdict


class Largest(Task):
    splits = ('train', 'test')
    alphabet = '0123456789:'

    def source(self, split, *, data_dir):
        numbers = [n for n in range(1000) if (n % 8 == 0) == (split == 'test')]
        return [
            Problem(n, f'{n:03}:', {'answer': max(f'{n:03}')}, 'digits')
            for n in numbers
        ]

    @staticmethod
    def verdict(problem, response):
        return Verdict(response == problem.data['answer'], response, None)
