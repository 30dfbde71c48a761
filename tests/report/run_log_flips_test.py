"""Problems that flip between two evaluations of a run, as metrics."""

import itertools
from unittest import mock

import pytest

from passk_jax.diagnostics.flips import flips
from passk_jax.report import run_log
from passk_jax.train import make_log
from tests import tiny

EVALUATIONS = {
    (0, 'validation'): {3: 0, 1: 4, 5: 0, 9: 1},
    (0, 'test'): {3: 1, 1: 1, 5: 1, 9: 1},
    # 3 and 5 are new, 9 is lost.
    (2, 'validation'): {3: 2, 1: 1, 5: 1, 9: 0},
    (4, 'validation'): {3: 0, 1: 1, 5: 3, 9: 0},
    # Of this split four are lost since step 0.
    (4, 'test'): {3: 0, 1: 0, 5: 0, 9: 0},
}


def make_row(problem_id, c):
    correct = [i < c for i in range(4)]
    parsed = ['a'] * 4
    return {
        'problem_id': problem_id,
        'n': 4,
        'c': c,
        'correct': correct,
        'parsed': parsed,
    }


@pytest.fixture
def evaluate(monkeypatch, tmp_path):
    """Writes the evaluations from one step on, as a run that begins there."""
    monkeypatch.setattr(run_log, 'Reporter', mock.Mock())

    def write(start, *, last=4):
        with make_log(tiny.make_config(), tmp_path, start) as log:
            for (step, split), counts in EVALUATIONS.items():
                if start <= step <= last:
                    rows = [make_row(i, c) for i, c in counts.items()]
                    log.evaluation(step, split, {'pass_at_1': 0.5}, rows)
        return (tmp_path / 'metrics.jsonl').read_text()

    return write


def flips_of(workdir, split):
    rows = tiny.metrics(workdir, split)
    return [(row.get('flips_solved'), row.get('flips_unsolved')) for row in rows]


def test_they_are_counted_since_the_evaluation_before_of_the_split(evaluate, tmp_path):
    evaluate(0)
    assert flips_of(tmp_path, 'validation') == [(None, None), (2, 1), (0, 1)]
    assert flips_of(tmp_path, 'test') == [(None, None), (0, 4)]


def test_a_run_that_goes_on_counts_the_same(evaluate):
    uninterrupted = evaluate(0)
    for start, last in ((0, 2), (2, 2), (2, 4), (4, 4)):
        evaluate(start, last=last)
    assert evaluate(4) == uninterrupted


def test_a_file_that_lost_its_end_counts_for_the_problems_that_it_has(
    evaluate, tmp_path
):
    evaluate(0, last=0)
    path = tmp_path / 'evaluation' / 'validation_step_00000000.jsonl'
    # Of problems 1 and 9 nothing is known.
    path.write_text(''.join(path.read_text().splitlines(True)[::2]))
    evaluate(2)
    assert flips_of(tmp_path, 'validation')[1] == (2, 0)


def test_a_whole_run_has_them(finished_run):
    for split in ('validation', 'test'):
        rows = tiny.metrics(finished_run, split)
        counts = [
            {
                record['problem_id']: record['c']
                for record in tiny.read_lines(
                    finished_run
                    / 'evaluation'
                    / f'{split}_step_{row["step"]:08d}.jsonl'
                )
            }
            for row in rows
        ]
        changes = [flips(*pair) for pair in itertools.pairwise(counts)]
        assert flips_of(finished_run, split) == [
            (None, None),
            *((len(change.solved), len(change.unsolved)) for change in changes),
        ]
