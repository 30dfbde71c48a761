"""The three oracles of benchmarks/oracles.py, on a few golds and on real ones."""

import pytest

from benchmarks import oracles
from benchmarks.perturbations import PERTURBATIONS
from benchmarks.spellings import REWRITINGS
from passk_jax.verifiers import mathematics
from passk_jax.verifiers.pool import Pool
from tests.verifiers.kinds import KINDS

# One of so many golds of the shared data in a quick test.
_EVERY = 60


@pytest.fixture(scope='module')
def pool():
    settings = {'deadline_s': 30.0, 'memory_bytes': 2**31, 'max_failure_share': 1.0}
    with Pool(mathematics.EQUALITY, workers=2, **settings) as workers:
        yield workers


def failures(golds, changes, *, right, pool):
    rows = list(oracles.changed(golds, changes))
    pairs = [(gold, answer) for _, gold, answer in rows]
    verdicts = mathematics.compare(pairs, pool=pool)
    wrong = [row for row, v in zip(rows, verdicts, strict=True) if v.correct != right]
    return len(rows), wrong


def test_there_are_thirty_rewritings_and_forty_changes():
    assert len(REWRITINGS) >= 30
    assert len(PERTURBATIONS) >= 40


def test_every_rewriting_and_change_applies_to_some_gold():
    golds = [gold for lines in KINDS.values() for gold, _, _ in lines]
    golds += [r'\frac{1}{2}', r'\{1,2\}', '1234', r'\cos x', '3,4', r'\text{(B)}']
    golds += [r'\text{ 5 }', '3:4', '9', r'\text{Evelyn}', '5', r'\frac{2}{7}', '31']
    for changes in (REWRITINGS, PERTURBATIONS):
        names = {name for name, _, _ in oracles.changed(golds, changes)}
        assert set(changes) - names <= {'sine for cosine', 'another unit'}


def test_right_stays_right_and_wrong_stays_wrong(shared_dir, pool):
    golds = oracles.read_golds(shared_dir / 'data', every=_EVERY)
    count, wrong = failures(golds, REWRITINGS, right=True, pool=pool)
    assert count > 500
    assert len(wrong) <= 0.01 * count, wrong
    count, wrong = failures(golds, PERTURBATIONS, right=False, pool=pool)
    assert count > 500
    assert len(wrong) <= 0.001 * count, wrong


@pytest.mark.slow
def test_all_golds_pass_both_oracles(shared_dir, pool):
    """Takes minutes."""
    golds = oracles.read_golds(shared_dir / 'data')
    count, wrong = failures(golds, REWRITINGS, right=True, pool=pool)
    assert len(wrong) <= 0.01 * count, wrong
    count, wrong = failures(golds, PERTURBATIONS, right=False, pool=pool)
    assert len(wrong) <= 0.001 * count, wrong


def test_the_report_counts_by_change(pool):
    report = oracles.report(['12', '7'], REWRITINGS, right=True, pools=[pool])
    assert '| a full stop | 2 | 2 | 2 |' in report
    assert '100.000 %' in report


def test_math_verify_alone_is_compared():
    assert oracles.math_verify_alone('12', '12.0')
    assert not oracles.math_verify_alone('12', '13')
