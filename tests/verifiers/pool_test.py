"""A pool survives what it judges: each answer here does something to its worker."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from passk_jax.verifiers import pool as pools
from passk_jax.verifiers.pool import Judgement, Pool

JUDGE = 'tests.verifiers.judged:judge'
RIGHT, WRONG = Judgement(True, None), Judgement(False, None)
TIMEOUT = Judgement(False, 'timeouts')
CRASH = Judgement(False, 'crashes')
UNPARSED = Judgement(False, 'parse_failures')


def make_pool(**changes):
    settings = {'workers': 1, 'deadline_s': 20.0, 'memory_bytes': 2**29}
    return Pool(JUDGE, **settings | changes)


@pytest.fixture
def pool():
    with make_pool() as workers:
        yield workers


def pids(pool):
    return [worker.pid for worker in pool._workers]


def gone(pid, within_s=10.0):
    """Whether a process ends within some time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_judgements_are_in_the_order_of_the_batch(pool):
    answers = ['b', 'a', 'raise:', 'a', '\ud800', 'é\n"', 'print:']
    pairs = [('a', answer) for answer in answers] + [('\ud800', '\ud800')]
    expected = [WRONG, RIGHT, UNPARSED, RIGHT, WRONG, WRONG, WRONG, RIGHT]
    assert pool.judge(pairs) == expected
    assert pool.judge([]) == []


@pytest.mark.parametrize('bad', ['kill:', 'exit:', 'raise:', f'allocate:{2**30}'])
def test_what_ends_a_worker_is_wrong_and_nothing_else_is(pool, bad):
    pairs = [('a', 'a'), ('a', bad), ('b', 'b'), ('a', 'b')]
    expected = [RIGHT, UNPARSED if bad == 'raise:' else CRASH, RIGHT, WRONG]
    assert pool.judge(pairs) == expected
    assert pool.judge([('c', 'c')]) == [RIGHT]
    kinds = {'timeouts': 0, 'crashes': 0, 'parse_failures': 0}
    assert pool.failures == kinds | {expected[1].failure: 1}


@pytest.mark.parametrize('bad', ['sleep:60', 'loop:'])
def test_the_parent_ends_what_is_late(bad):
    with make_pool(deadline_s=0.5) as pool:
        pool.judge([('a', 'a')])
        start = time.monotonic()
        assert pool.judge([('a', bad), ('b', 'b')]) == [TIMEOUT, RIGHT]
        assert time.monotonic() - start < 20
        assert pool.failures['timeouts'] == 1


def test_a_worker_killed_from_outside_costs_the_answer_it_judges_alone(pool):
    pool.judge([('a', 'a')])
    (pid,) = pids(pool)
    threading.Timer(1.0, os.kill, (pid, signal.SIGKILL)).start()
    assert pool.judge([('a', 'b'), ('a', 'sleep:15'), ('b', 'b')]) == [
        WRONG,
        CRASH,
        RIGHT,
    ]


def test_a_worker_that_died_idle_costs_nothing(pool):
    pool.judge([('a', 'a')])
    (pid,) = pids(pool)
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert pool.judge([('b', 'b')]) == [RIGHT]
    assert pool.failures['crashes'] == 0


def test_the_memo_knows_the_pair_and_nothing_less(pool):
    pairs = [('a', 'a'), ('b', 'a'), ('a', 'b'), ('ab', ''), ('', 'ab'), ('a', 'a')]
    expected = [RIGHT, WRONG, WRONG, WRONG, WRONG, RIGHT]
    assert pool.judge(pairs) == expected
    assert pool.calls == 5
    assert pool.judge(pairs[::-1]) == expected[::-1]
    assert pool.calls == 5


def test_the_memo_keeps_failures_but_no_crash(pool):
    pairs = [('a', 'raise:'), ('a', 'kill:')]
    for count in (1, 2):
        assert pool.judge(pairs) == [UNPARSED, CRASH]
        assert pool.failures == {
            'timeouts': 0,
            'crashes': count,
            'parse_failures': count,
        }
    assert pool.calls == 3


def test_the_memo_forgets_the_oldest():
    with make_pool(memo_size=2) as pool:
        pool.judge([('a', x) for x in 'xyz'])
        pool.judge([('a', x) for x in 'zyx'])
        assert pool.calls == 4


def test_verdicts_do_not_depend_on_workers_order_or_memo():
    pairs = [('a', x) for x in ('a', 'b', 'raise:', 'kill:', 'c', 'print:')] * 2
    outcomes = []
    for workers, memo_size, order in ((1, 0, 1), (3, 100, -1), (2, 1, 1)):
        with make_pool(workers=workers, memo_size=memo_size) as pool:
            outcomes.append(pool.judge(pairs[::order])[::order])
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_worker_is_replaced_after_its_tasks(tmp_path):
    with make_pool(tasks_per_worker=2) as pool:
        pool.judge([(str(i), f'pid:{tmp_path / "pids"}') for i in range(5)])
    ids = (tmp_path / 'pids').read_text().split()
    assert ids[0] == ids[1] != ids[2] == ids[3] != ids[4]
    assert all(gone(int(pid)) for pid in ids)


def test_no_more_workers_than_tasks():
    with make_pool(workers=3) as pool:
        pool.judge([('a', 'a')])
        assert len(pids(pool)) == 1


def test_a_worker_imports_only_what_it_judges_with(pool):
    heavy = (
        'jax',
        'numpy',
        'absl',
        'passk_jax.verifiers.pool',
        'tests.verifiers.judged',
    )
    judged = pool.judge([('', f'modules:{name}') for name in heavy])
    assert judged == [WRONG] * 4 + [RIGHT]


def test_workers_agree_whatever_the_hash_seed_of_the_parent(pool, monkeypatch):
    monkeypatch.setenv('PYTHONHASHSEED', '7')
    monkeypatch.setenv('MPMATH_NOGMPY', '')
    expected = {
        'PYTHONHASHSEED': '0',
        'SYMPY_GROUND_TYPES': 'python',
        'MPMATH_NOGMPY': '1',
    }
    pairs = [(value, f'environ:{name}') for name, value in expected.items()]
    assert pool.judge(pairs) == [RIGHT] * 3


def test_threads_take_turns(pool):
    results = {}

    def judge(name):
        results[name] = pool.judge([(name, name), (name, 'x'), ('a', 'kill:')])

    threads = [threading.Thread(target=judge, args=(name,)) for name in 'abcd']
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {name: [RIGHT, WRONG, CRASH] for name in 'abcd'}


def test_too_many_failures_raise_with_their_reason(monkeypatch):
    monkeypatch.setattr(pools, '_RECENT', 4)
    with make_pool(max_failure_share=0.5) as pool:
        assert pool.judge([('a', 'kill:1'), ('a', 'kill:2')]) == [CRASH] * 2
        with pytest.raises(ValueError, match=r'3 of the last 3 .*answers.*crashes.: 3'):
            pool.judge([('a', 'kill:3')])
        # Parse failures are the policy's own.
        unparsed = [('a', f'raise:{i}') for i in range(9)]
        assert pool.judge(unparsed) == [UNPARSED] * 9
        with pytest.raises(ValueError, match=r'5 of the last 9 different answers'):
            pool.judge(
                [('a', f'kill:{i}') for i in range(5)] + [('a', x) for x in 'abcd']
            )


def test_a_policy_that_repeats_one_answer_that_fails_ends_no_run(monkeypatch):
    monkeypatch.setattr(pools, '_RECENT', 4)
    with make_pool(max_failure_share=0.5) as pool:
        for problem in 'abcdefgh':
            assert pool.judge([(problem, 'kill:')] * 9) == [CRASH] * 9
        assert pool.failures['crashes'] == 72


def test_only_the_last_different_answers_count(monkeypatch):
    monkeypatch.setattr(pools, '_RECENT', 4)
    recent = pools.RecentFailures(0.5)
    recent.add(['a', 'b', 'a'], [True, True, False])
    assert (recent.counts, recent.are_too_many) == ((2, 2), False)
    recent.add(['c', 'a'], [False, False])
    assert recent.counts == (1, 3)
    recent.add(['d', 'e', 'f'], [True, True, True])
    assert (recent.counts, recent.are_too_many) == ((3, 4), True)
    recent.add('ghijkl', [True, False] * 3)
    assert (recent.counts, recent.are_too_many) == ((3, 6), False)


@pytest.mark.parametrize(
    ('function', 'memory_bytes', 'message'),
    [
        ('tests.verifiers.judged:absent', 2**29, 'cannot import .*absent'),
        ('no_such_module:judge', 2**29, "cannot import .*'no_such_module'"),
        ('dies_at_import:judge', 2**29, 'ended as it started'),
        # It is imported already, so that the import takes no memory.
        ('json:dumps', 2**20, r'MemoryError: its limit of 1 MiB .* more memory_b'),
    ],
)
def test_a_worker_that_cannot_start_is_an_error(
    function, memory_bytes, message, tmp_path, monkeypatch
):
    (tmp_path / 'dies_at_import.py').write_text('import os\n\nos._exit(3)\n')
    monkeypatch.syspath_prepend(tmp_path)
    pool = Pool(function, workers=1, deadline_s=5, memory_bytes=memory_bytes)
    with pytest.raises(ValueError, match=message):
        pool.judge([('a', 'a')])
    assert not pool._workers


@pytest.mark.parametrize(
    'changes',
    [{'workers': 0}, {'deadline_s': 0}, {'memory_bytes': 0}, {'tasks_per_worker': 0}],
)
def test_impossible_settings_are_refused(changes):
    with pytest.raises(ValueError, match=f'{next(iter(changes))}=0'):
        make_pool(**changes)


def test_closing_leaves_no_process():
    pool = make_pool(workers=2)
    pool.judge([('a', 'a'), ('a', 'b')])
    workers = pids(pool)
    assert workers
    pool.close()
    assert not any(psutil.pid_exists(pid) for pid in workers)


PARENT = f"""
import sys, threading, time
from passk_jax.verifiers.pool import Pool
pool = Pool({JUDGE!r}, workers=2, deadline_s=float(sys.argv[2]), memory_bytes=2**29)
answers = [('1', 'pid:' + sys.argv[1]), *[('a', each) for each in sys.argv[3:]]]
threading.Thread(target=pool.judge, args=(answers,), daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ('answers', 'killed'), [([], False), ([], True), (['sleep:60'], True)]
)
def test_workers_do_not_outlive_their_parent(tmp_path, answers, killed):
    parent = subprocess.Popen(
        [sys.executable, '-c', PARENT, str(tmp_path / 'pids'), '1', *answers],
        cwd=pathlib.Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
    )
    end = time.monotonic() + 60
    while not (tmp_path / 'pids').exists() and time.monotonic() < end:
        time.sleep(0.05)
    children = [child.pid for child in psutil.Process(parent.pid).children()]
    assert children
    if killed:
        parent.kill()
    else:
        parent.stdin.close()
    parent.wait(60)
    parent.stdin.close()
    assert all(gone(pid) for pid in children)


REPLY = '["0","returned",true];[0,"returned",true];["returned",true];true;{};nonsense'


@pytest.mark.parametrize('verb', ['reply', 'later'])
def test_what_an_answer_writes_is_no_verdict_on_it_nor_on_another(pool, verb):
    pairs = [('a', f'{verb}:{REPLY}'), *(('a', f'wrong{i}') for i in range(20))]
    assert pool.judge(pairs) == [WRONG] * 21
    time.sleep(1.0)
    # A late reply fails no later answer.
    assert pool.judge([('a', 'a'), ('b', 'c')]) == [RIGHT, WRONG]
    assert not any(pool.failures.values())


def test_a_reply_without_an_end_is_a_crash_of_bounded_memory(pool):
    flood = 'reply:' + 'x' * 2**18
    before = psutil.Process().memory_info().rss
    assert pool.judge([('a', flood), ('a', 'a')]) == [CRASH, RIGHT]
    assert psutil.Process().memory_info().rss - before < 2**27


@pytest.mark.parametrize('how', ['', ';own', ';crash'])
def test_what_an_answer_starts_ends_with_the_pool(pool, tmp_path, how):
    """In a session of its own too, and if its parent is gone."""
    pids_file = tmp_path / 'pids'
    assert len(pool.judge([('a', f'spawn:{pids_file}{how}'), ('a', 'a')])) == 2
    pid = int(pids_file.read_text())
    pool.close()
    assert gone(pid)


def test_what_an_answer_started_does_not_outlive_a_killed_parent(tmp_path):
    parent = subprocess.Popen(
        [
            sys.executable,
            '-c',
            PARENT,
            str(tmp_path / 'pids'),
            '20',
            f'spawn:{tmp_path}/x',
        ],
        cwd=pathlib.Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
    )
    end = time.monotonic() + 60
    while not (tmp_path / 'x').exists() and time.monotonic() < end:
        time.sleep(0.05)
    parent.kill()
    parent.wait(60)
    parent.stdin.close()
    assert gone(int((tmp_path / 'x').read_text()))
