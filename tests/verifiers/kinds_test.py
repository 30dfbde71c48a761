"""Spellings that are right and look-alikes that are wrong, kind by kind."""

import pytest

from passk_jax.verifiers import mathematics
from passk_jax.verifiers.pool import Pool
from tests.verifiers.kinds import KINDS, SENTINELS
from tests.verifiers.more_kinds import MORE_KINDS

ALL = KINDS | MORE_KINDS


def boxed(answer):
    return rf'so it is $\boxed{{{answer}}}$.'


@pytest.fixture(scope='module')
def pool():
    settings = {'deadline_s': 30.0, 'memory_bytes': 2**31}
    with Pool(mathematics.EQUALITY, workers=2, **settings) as workers:
        yield workers


@pytest.mark.parametrize('kind', ALL)
def test_right_spellings_are_right_and_look_alikes_wrong(kind, pool):
    cases = [
        (gold, answer, right)
        for gold, *answers in ALL[kind]
        for right, group in zip((True, False), answers, strict=True)
        for answer in group
    ]
    verdicts = mathematics.judge(
        [gold for gold, _, _ in cases],
        [boxed(answer) for _, answer, _ in cases],
        pool=pool,
    )
    assert [
        case for case, v in zip(cases, verdicts, strict=True) if v.correct != case[2]
    ] == []


@pytest.mark.parametrize('kind', ALL)
def test_every_gold_is_right_as_it_stands_and_can_be_parsed(kind, pool):
    golds = [gold for gold, _, _ in ALL[kind]]
    verdicts = mathematics.compare([(gold, gold) for gold in golds], pool=pool)
    assert all(verdict.correct for verdict in verdicts)
    assert mathematics.unparsed(golds, pool=pool) == []


def test_no_answer_equals_a_gold_that_stands_for_none():
    verdicts = mathematics.judge(SENTINELS, [boxed(gold) for gold in SENTINELS])
    assert not any(verdict.correct for verdict in verdicts)
    assert all('the gold' in v.error for v in verdicts)
