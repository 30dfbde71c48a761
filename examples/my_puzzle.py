"""A task of one's own: sums. ``--config=custom:task=my_puzzle.py:Sums``"""

from passk_jax.tasks import Problem, Task, Verdict


class Sums(Task):
    splits = ('train', 'test')
    alphabet = '0123456789+='

    def source(self, split, *, data_dir):
        numbers = range(40) if split == 'train' else range(40, 50)
        pairs = [(a, b) for a in numbers for b in numbers]
        return [
            Problem(id, f'{a}+{b}=', {'answer': str(a + b)}, 'sums')
            for id, (a, b) in enumerate(pairs)
        ]

    @staticmethod
    def verdict(problem, response):
        return Verdict(response == problem.data['answer'], response, None)
