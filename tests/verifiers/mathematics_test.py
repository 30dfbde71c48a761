"""Verdicts: right answers, what tries to hang or to run, and the caller's thread."""

import importlib.util
import json
import threading
import time

import pytest

from passk_jax.verifiers import mathematics
from passk_jax.verifiers.pool import Pool
from tests.tasks.payloads import PAYLOADS

ADVERSARIAL = {
    'a tower': '9^9^9',
    'a tower in braces': '9^{9^9}',
    'a power': '2^{1000000000}',
    'a small number': '1e-999999999',
    'a factorial': '100000000!',
    'a factorial in braces': '(10^9)!',
    'factorials of factorials': '((((9!)!)!)!)',
    'a binomial': r'\binom{10^9}{5\cdot 10^8}',
    '5000 braces': '{' * 5000 + '1' + '}' * 5000,
    '150 braces': '{' * 150 + '1' + '}' * 150,
    '2000 parentheses': '(' * 2000 + '1' + ')' * 2000,
    '200 parentheses': '(' * 200 + '1' + ')' * 200,
    'a set of 5000': r'\{' + ','.join(map(str, range(5000))) + r'\}',
    'a tuple of 3000': '(' + ','.join(map(str, range(3000))) + ')',
    'a sum of 3000': '+'.join(['1'] * 3000),
    'a sum of 250': '+'.join(['x'] * 250),
    '100k decimals': '0.' + '3' * 100_000,
    'a matrix of 40 by 40': r'\begin{pmatrix}'
    + r'\\'.join(['&'.join(['1'] * 40)] * 40)
    + r'\end{pmatrix}',
    'a power of a sum': '(a+b+c+d+e+f)^{200}',
    'a long series': r'\sum_{k=1}^{1000000000} k^k',
    'a long product': r'\prod_{k=1}^{1000000000} k',
    'an integral': r'\int_0^1 x^{x^{x}} dx',
    '50 roots': r'\sqrt{' * 50 + '2' + '}' * 50,
}


def boxed(answer):
    return rf'so it is $\boxed{{{answer}}}$.'


@pytest.fixture(scope='module')
def pool():
    settings = {'deadline_s': 1.0, 'memory_bytes': 2**30}
    with Pool(mathematics.EQUALITY, workers=2, **settings) as workers:
        # The first answer takes longest; it must not be one that a test is about.
        workers.judge([(r'\sqrt{8}', r'2\sqrt{2}')] * 2)
        yield workers


@pytest.fixture(scope='module')
def slow_pool():
    """With the deadline of a run, for answers that are to be right.

    Its workers take seconds to import sympy.
    """
    with Pool(
        mathematics.EQUALITY, workers=2, deadline_s=30.0, memory_bytes=2**31
    ) as workers:
        yield workers


def test_the_last_box_decides(slow_pool):
    responses = [
        (r'\boxed{1} then \boxed{204}', True, '204'),
        (r'\boxed{204} then \boxed{1}', False, '1'),
        ('The answer is 204.', False, ''),
        (r'\boxed{204', False, ''),
        (r'\boxed{204} \boxed{20', False, ''),
        (r'\boxed{ }', False, ''),
        ('<answer>204</answer>', False, ''),
        (boxed('204.0'), True, '204.0'),
        (boxed(' 204 '), True, '204'),
        (boxed('$204$'), True, '$204$'),
        (boxed('200+4'), True, '200+4'),
        (boxed(r'204\%'), True, r'204\%'),
        (boxed(r'\frac{'), False, ''),
        (boxed(r'\int'), False, r'\int'),
        ('', False, ''),
    ]
    before = slow_pool.failures['parse_failures']
    verdicts = mathematics.judge(
        ['204'] * len(responses), [text for text, _, _ in responses], pool=slow_pool
    )
    assert [(v.correct, v.parsed) for v in verdicts] == [r[1:] for r in responses]
    assert all((v.error is None) == v.correct for v in verdicts)
    assert slow_pool.failures['parse_failures'] == before + 1


def test_a_wrong_answer_says_why(pool):
    reasons = {
        'no box': 'no \\boxed',
        boxed(''): 'an empty box',
        boxed('205'): 'not equal',
        boxed('x'): 'not equal',
        boxed('9^9^9'): 'too large',
        boxed('9' * 600): 'longer than 512',
        boxed('9' * 5000): 'longer than 512',
        boxed('1$ $204'): 'a dollar inside',
        boxed('{' * 80 + '1' + '}' * 80): 'more than 40 deep',
        boxed('9!!!!!'): 'inside one another',
        boxed('|' * 400): 'inside one another',
        boxed('x' + '^x' * 99): 'inside one another',
        boxed(r'\{' * 20 + '204' + r'\}' * 20): 'inside one another',
        boxed(r'\int'): 'cannot be parsed',
        boxed(r'\sum_{k=1}^{1000000000} k^k'): 'took too long',
    }
    verdicts = mathematics.judge(['204'] * len(reasons), list(reasons), pool=pool)
    for verdict, reason in zip(verdicts, reasons.values(), strict=True):
        assert reason in verdict.error


@pytest.mark.parametrize(
    'names',
    [
        ('aime/aime_2024', 'aime/aime_2025'),
        ('olymmath/OlymMATH-EN-EASY', 'olymmath/OlymMATH-EN-HARD'),
    ],
)
def test_every_right_answer_of_the_benchmarks_is_accepted(shared_dir, slow_pool, names):
    files = [shared_dir / 'data' / f'{name}.jsonl' for name in names]
    records = [json.loads(line) for f in files for line in f.read_text().splitlines()]
    golds = [record['answer'] for record in records]
    assert mathematics.unparsed(golds, pool=slow_pool) == []
    # In another spelling nothing is decided by the text.
    for form in ('{}', '0+{}' if 'aime' in names[0] else r'\displaystyle {}.'):
        responses = [boxed(form.format(gold)) for gold in golds]
        verdicts = mathematics.judge(golds, responses, pool=slow_pool)
        wrong = [gold for gold, v in zip(golds, verdicts, strict=True) if not v.correct]
        assert (len(golds), wrong) == (60 if 'aime' in names[0] else 200, [])
    shifted = golds[1:] + golds[:1]
    verdicts = mathematics.judge(
        golds, [boxed(gold) for gold in shifted], pool=slow_pool
    )
    repeats = sum(a == b for a, b in zip(golds, shifted, strict=True))
    assert sum(v.correct for v in verdicts) <= repeats + 1


def test_adversarial_answers_are_wrong_in_time(pool):
    start = time.monotonic()
    responses = [boxed(answer) for answer in ADVERSARIAL.values()]
    verdicts = mathematics.judge(['204'] * len(responses), responses, pool=pool)
    assert [v.correct for v in verdicts] == [False] * len(responses)
    # Without a deadline the limit of memory would end them all the same.
    late = [v for v in verdicts if v.error == mathematics.FAILURES[mathematics.TIMEOUT]]
    assert late
    # A dozen reach a worker; each may cost its deadline and a new worker.
    assert time.monotonic() - start < 120
    assert mathematics.judge(['2'], [boxed('1+1')], pool=pool)[0].correct


@pytest.mark.slow
@pytest.mark.parametrize('name', ADVERSARIAL)
def test_the_pool_alone_holds_what_would_be_refused(pool, name, monkeypatch):
    """A minute together."""
    monkeypatch.setattr(mathematics, 'refusal', lambda answer: None)
    monkeypatch.setattr(mathematics, '_too_large', lambda form: False)
    start = time.monotonic()
    (verdict,) = mathematics.judge(['204'], [boxed(ADVERSARIAL[name])], pool=pool)
    assert not verdict.correct
    assert time.monotonic() - start < 30
    right = boxed(f'1+1+{len(name)}-{len(name)}')
    assert mathematics.judge(['2'], [right], pool=pool)[0].correct


def test_adversarial_answers_are_wrong_from_a_thread(pool):
    names = ('a tower', 'a binomial', '150 braces', 'a matrix of 40 by 40')
    responses = [boxed(ADVERSARIAL[name]) for name in names] + [boxed('203+1')]
    verdicts = []
    thread = threading.Thread(
        target=lambda: verdicts.extend(
            mathematics.judge(['204'] * 5, responses, pool=pool)
        )
    )
    thread.start()
    thread.join(60)
    assert [v.correct for v in verdicts] == [False] * 4 + [True]


def test_no_answer_runs_code(pool, tmp_path):
    path = tmp_path / 'written'
    responses = [boxed(payload.format(path=path)) for payload in PAYLOADS]
    for gold in ('204', '0'):
        verdicts = mathematics.judge([gold] * len(responses), responses, pool=pool)
        assert not any(v.correct for v in verdicts)
    assert not path.exists()


def test_the_parent_decides_or_refuses_in_time():
    """Whatever the answer, before a worker has to be killed for it."""
    pieces = (
        '{', '(', '[', '1,', '1 ', r'\text{', '`', '&', 'x cm ', '1:', '1=', '!', '^2',
        r'\pm1', r'\frac', r'\sqrt{', '1e9999*', r'\cup(1,2)', 'or ', 'a.', '**',
    )  # fmt: skip
    for piece in (*pieces, *ADVERSARIAL.values()):
        for size in (500, 4096):
            answer = piece * max(1, size // len(piece))
            start = time.process_time()
            for gold in ('204', 'x=5', r'\{1,2\}', '5 cm'):
                verdict = mathematics._verdict(gold, answer)
                assert verdict is None or not verdict.correct
            assert time.process_time() - start < 1, piece


def test_golds_that_cannot_be_parsed_are_named(slow_pool):
    golds = [
        '5', r'\frac{', r'\mathbb{Z}', 'x^', r'\text{Monday}', '1,500',
        'Add them. <<30+42=72>> 30 plus 42 is 72.', 'so it is\n#### 72', '', '{',
        'First we compute the sum of all numbers and then we halve it.', '5 cm',
    ]  # fmt: skip
    unparsed = mathematics.unparsed(golds, pool=slow_pool)
    assert [golds[place] for place in unparsed] == [
        r'\frac{', 'x^', golds[6], '', '{', golds[10]
    ]  # fmt: skip
    # Each different one is parsed once, and all places are named.
    assert mathematics.unparsed(['x^', '1', 'x^'], pool=slow_pool) == [0, 2]


@pytest.mark.parametrize(
    'gold',
    [r'\frac{', 'x^', '{', 'First we compute all sums, add them up and halve it.'],
)
def test_one_verdict_names_the_gold_where_it_is_at_fault(slow_pool, gold):
    for answer in ('5', r'\frac12', 'x^2', r'\int'):
        verdict = mathematics.judge_one(gold, boxed(answer), pool=slow_pool)
        assert verdict.error == f'the gold {gold!r} cannot be parsed'
    verdict = mathematics.judge_one('5', boxed(r'\int'), pool=slow_pool)
    assert verdict.error == 'the answer cannot be parsed'
    verdict = mathematics.judge_one('5', boxed('6'), pool=slow_pool)
    assert verdict.error == 'not equal to the right answer'
    assert mathematics.judge_one('5', boxed('5'), pool=slow_pool).error is None


def test_a_missing_package_is_named(monkeypatch):
    mathematics.check_packages()
    find = importlib.util.find_spec
    absent = 'latex2sympy2_extended'
    monkeypatch.setattr(
        importlib.util, 'find_spec', lambda name: None if name == absent else find(name)
    )
    with pytest.raises(ValueError, match=f'{absent}.*pip install'):
        mathematics.check_packages()


def test_the_pool_is_made_once():
    assert mathematics.shared_pool() is mathematics.shared_pool()


@pytest.mark.parametrize(
    'answer',
    [
        r'|x-10^{5000}|<1, 2',
        r'|x-7^{6000}|>2, x\ne 1',
        r'|10^{4000}(10^{4000}(10^{4000}x))|<1',
        '|x-2000!|<1',
        # Each sign stands for two digits.
        '㊿' * 2200 + '(five)',
        'minus ' + r'\#' * 2000 + '!',
        'one hundred ' * 340,
    ],
)
def test_numbers_of_many_digits_and_long_words_are_wrong_and_quick(answer):
    golds = ['5', '[1,2]', '1, 2', 'x<1']
    start = time.process_time()
    verdicts = mathematics.judge(golds, [rf'\boxed{{{answer}}}'] * len(golds))
    assert not any(verdict.correct for verdict in verdicts)
    assert time.process_time() - start < 2
