"""A stand-in for the package: sums of a seeded pair, with its API and no dependency."""

import pathlib
import random
import sys
import types
from importlib import metadata

from passk_jax.tasks.reasoning_gym import task
from passk_jax.tasks.reasoning_gym.table import VERSION

PARAMS = {
    'sets': {'gcd': {}},
    'train_count': 8,
    'validation_count': 4,
    'test_count': 4,
    'seed': 0,
}


class Sums:
    """Item i of seed s is made from the number s + i, as in the package."""

    def __init__(self, name, seed, size, most=6):
        if most < 1:
            raise AssertionError('most must be positive')
        self.name, self.seed, self.size, self.most = name, seed, size, most

    def __getitem__(self, index):
        rng = random.Random(self.seed + index)
        a, b = (rng.randint(1, self.most) for _ in range(2))
        return {
            'question': f'{self.name}: {a} + {b} = ?',
            'answer': str(a + b),
            'metadata': {},
        }


def install(monkeypatch):
    """Puts it where the package would be."""
    module = types.ModuleType('reasoning_gym')
    module.create_dataset = lambda name, **config: Sums(name, **config)
    monkeypatch.setitem(sys.modules, 'reasoning_gym', module)
    monkeypatch.setattr(metadata, 'version', lambda name: VERSION)
    monkeypatch.setattr(task, '_problems', task._problems.__wrapped__)


# A package that a worker can import. The score of an answer is the number it is.
_SCORERS = """
def get_score_answer_fn(name):
    return lambda answer, item: score(name, answer, item)


def score(name, answer, item):
    assert item['set'] == name
    while answer == 'hang':
        pass
    return float(answer) + item['metadata'].get('more', 0)
"""


def write(directory: pathlib.Path, *, version: str = VERSION) -> None:
    """Writes it to a directory for ``sys.path``."""
    package = directory / 'reasoning_gym'
    package.mkdir()
    (package / '__init__.py').write_text(_SCORERS)
    about = directory / f'reasoning_gym-{version}.dist-info'
    about.mkdir()
    (about / 'METADATA').write_text(f'Name: reasoning-gym\nVersion: {version}\n')
