"""1,000 problems of every puzzle and level: 13 minutes of CPU, so run by hand."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from passk_jax.tasks.enigmata import splits
from passk_jax.tasks.enigmata.puzzle import LEVELS
from passk_jax.tasks.enigmata.table import PUZZLES

_COUNT = 1000
# Levels that have fewer problems at all: draws find no more than 450, 562, 314 and 964.
_FEWER = {
    ('skyscraper', 'easy'): 400,
    ('sum_skyscraper', 'easy'): 500,
    ('twiddle', 'easy'): 300,
    ('twiddle', 'medium'): 900,
}
_DIGEST = """
import sys
from tests.tasks.enigmata import table_thousand_test as test
print(test.digest(test.generate(sys.argv[1], sys.argv[2])))
"""


def generate(name, level):
    counts = {'test': _FEWER.get((name, level), _COUNT)}
    by_split = splits.generate_splits(
        PUZZLES[name], levels=(level,), counts=counts, seed=0, upto='test'
    )
    return by_split['test']


def digest(problems):
    return hashlib.sha256(json.dumps(problems).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize('level', LEVELS)
@pytest.mark.parametrize('name', PUZZLES)
def test_a_thousand_problems_are_the_same_elsewhere_all_different_and_solved(
    name, level
):
    puzzle, problems = PUZZLES[name], generate(name, level)
    elsewhere = subprocess.run(
        [sys.executable, '-c', _DIGEST, name, level],
        env=os.environ | {'PYTHONHASHSEED': '1'},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == digest(problems)
    assert len({puzzle.question(data) for data in problems}) == len(problems)
    for data in problems:
        verdict = puzzle.verdict(data, puzzle.response(data['answer']), official=False)
        assert verdict.correct, (data, verdict)
