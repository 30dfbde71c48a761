import pathlib
import subprocess
import sys

import pytest

from passk_jax.errors import InputError
from passk_jax.verifiers import reward_worker
from passk_jax.verifiers.rewards import RewardParams, Rewards

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = {'answer': 'a', 'n': 2}


def make(folder: pathlib.Path, body: str, **limits) -> Rewards:
    """The rewards of ``my_reward.py``, whose function has this body, from line 3 on."""
    text = f'\ndef reward(response, record):\n    {body}\n'
    (folder / 'my_reward.py').write_text(text)
    limits = {'threshold': 1.0, 'deadline_s': 2.0, 'memory_mib': 1024} | limits
    return Rewards(RewardParams('my_reward.py:reward', **limits))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ('returned', 'threshold', 'value', 'correct'),
    [
        ('response == record["answer"]', 1.0, 1.0, True),
        ('response != record["answer"]', 1.0, 0.0, False),
        # A bool is the verdict, whatever the threshold.
        ('True', 2.0, 1.0, True),
        ('1', 1.0, 1.0, True),
        ('0.5', 1.0, 0.5, False),
        ('0.5', 0.5, 0.5, True),
        ('record["n"]', 1.0, 2.0, True),
        ('-1', 0.0, -1.0, False),
        ('__import__("numpy").float32(0.25)', 0.25, 0.25, True),
        ('__import__("numpy").array([True])', 1.0, 1.0, True),
        ('__import__("fractions").Fraction(1, 2) == 0.5', 1.0, 1.0, True),
    ],
)
def test_a_bool_is_the_verdict_and_a_number_has_a_threshold(
    returned, threshold, value, correct, elsewhere
):
    rewards = make(elsewhere, f'return {returned}', threshold=threshold)
    rewards.check(RECORD)
    (reward,) = rewards([RECORD], ['a'])
    assert (reward.value, reward.correct, reward.failure) == (value, correct, None)
    assert (reward.error is None) == correct


@pytest.mark.parametrize(
    ('returned', 'value', 'answer'),
    [
        ('True, response', 1.0, 'a'),
        ('[0.5, "x" * 1000]', 0.5, 'x' * 1000),
        ('__import__("numpy").float32(0.25), None', 0.25, ''),
        ('False, ""', 0.0, ''),
    ],
)
def test_a_reward_may_come_with_the_answer_that_was_read(
    returned, value, answer, elsewhere
):
    (reward,) = make(elsewhere, f'return {returned}')([RECORD], ['a'])
    assert (reward.value, reward.answer, reward.failure) == (value, answer, None)


# Body of the function -> what the message says.
BROKEN = {
    'return 1, 2': 'line 2 (reward) returned (1, 2)',
    'return "1", "a"': "line 2 (reward) returned ('1', 'a')",
    'return 1, "a", "b"': "line 2 (reward) returned (1, 'a', 'b')",
    'return float("nan"), "a"': 'line 2 (reward): returned nan, which is not finite in',
    'return 1, "a" * 1001': 'line 2 (reward): returned an answer of 1001 characters',
    'return None': "line 2 (reward) returned None on ''; it must return a bool",
    'pass': "line 2 (reward) returned None on ''",
    'return "1"': "line 2 (reward) returned '1' on ''",
    'return float("nan")': 'line 2 (reward): returned nan, which is not finite in',
    'return float("inf")': 'line 2 (reward): returned inf, which is not finite',
    'return 1e39': 'line 2 (reward): returned 1e+39, which is not finite in float32',
    'return 10 ** 5000': 'line 2 (reward): returned an integer, which is not finite',
    'return [1.0]': 'line 2 (reward) returned [1.0]',
    'return 1j': 'line 2 (reward) returned 1j',
    'return lambda: 1': 'line 2 (reward) returned <function',
    'x = 1\n    return x / 0': 'line 4: ZeroDivisionError: division by zero on',
    'return record["absent"]': "line 3: KeyError: 'absent' on '', an empty response",
    'return int(response)': 'line 3: ValueError: invalid literal for int()',
    'raise ValueError("x" * 10 ** 6)': 'line 3: ValueError: xxxxx',
    'raise SystemExit(3)': 'line 3: SystemExit: 3 on',
    'return reward(response, record)': 'line 3: RecursionError: maximum recursion',
    '__import__("time").sleep(60)': 'line 2 (reward) took longer than 2 s on',
    'while True: pass': 'line 2 (reward) took longer than 2 s on',
    '__import__("os")._exit(0)': 'line 2 (reward) ended its process or took more than',
    '__import__("os").kill(__import__("os").getpid(), 9)': 'line 2 (reward) ended ',
    'return len(bytearray(2 ** 31))': 'line 2 (reward) ended its process or took more',
}


@pytest.mark.parametrize('body', BROKEN)
def test_a_broken_reward_is_one_line_with_its_place_before_a_run(body, elsewhere):
    with pytest.raises(InputError) as error:
        make(elsewhere, body).check(RECORD)
    message = str(error.value)
    assert message.startswith(f'my_reward.py, {BROKEN[body]}')
    assert '\n' not in message


# The whole file -> what the message says; the first ones before anything runs.
FAULTY = {
    None: 'my_reward.py: no such file',
    '': 'my_reward.py defines no reward; it has []',
    'def other(): pass': "my_reward.py defines no reward; it has ['other']",
    'x = 1\ndef reward(': 'my_reward.py, line 2: SyntaxError: ',
    'return 1\ndef reward(a, b): pass': 'my_reward.py, line 1: SyntaxError: ',
    '# reward': 'a verifier process cannot import its function: InputError: /',
    'reward = 3': 'cannot import its function: InputError: /',
    'import absent_one\nreward = 1': 'line 1: ModuleNotFoundError: No',
    'import os\nos._exit(0)\nreward = 1': 'a verifier process ended as it started',
    'import sys\nsys.exit(0)\nreward = 1': 'line 2: SystemExit: 0',
    'def reward(response): return 1': 'TypeError: reward() takes 1 positional argument',
}


@pytest.mark.parametrize('content', FAULTY)
def test_a_faulty_file_is_one_line_with_its_place_before_a_run(content, elsewhere):
    if content is not None:
        (elsewhere / 'my_reward.py').write_text(content)
    with pytest.raises(InputError) as error:
        Rewards(RewardParams('my_reward.py:reward', 1.0, 2.0, 1024)).check(RECORD)
    message = str(error.value)
    assert message.startswith('my_reward.py')
    assert FAULTY[content] in message
    assert '\n' not in message


def test_a_failure_on_some_responses_is_wrong_logged_once_and_harms_no_other(
    elsewhere, caplog
):
    rewards = make(
        elsewhere,
        'if response == "kill": __import__("os")._exit(1)\n'
        '    if response == "hang": __import__("time").sleep(60)\n'
        '    return 1 / (len(response) - 3)',
        deadline_s=1.0,
    )
    judged = rewards([RECORD] * 5, ['abcd', 'kill', 'hang', 'abc', 'abcde'])
    kinds = [reward.failure for reward in judged]
    assert kinds == [None, 'crashes', 'timeouts', 'parse_failures', None]
    assert [reward.value for reward in judged] == [1.0, 0.0, 0.0, 0.0, 0.5]
    assert [reward.correct for reward in judged] == [True, *[False] * 4]
    assert 'my_reward.py, line 2 (reward) took longer than 1 s' in caplog.text
    assert "my_reward.py, line 5: ZeroDivisionError: division by zero on 'abc'" in (
        caplog.text
    )
    before = len(caplog.records)
    rewards([RECORD], ['kill'])
    assert len(caplog.records) == before


def test_a_reward_that_fails_on_most_responses_ends_the_run(elsewhere, monkeypatch):
    rewards = make(elsewhere, 'return int(response or "0")')
    rewards.check(RECORD)
    # A policy that repeats one response is no broken function.
    for _ in range(3):
        assert rewards([RECORD] * 100, ['x'] * 100)[0].failure == 'parse_failures'
    with pytest.raises(InputError) as error:
        rewards([RECORD] * 200, ['x', *(f'y{i}' for i in range(198)), 'y'])
    assert 'my_reward.py, line 2 (reward) failed on 200 of the last 200' in str(
        error.value
    )
    assert "line 3: ValueError: invalid literal for int() with base 10: 'y'" in str(
        error.value
    )


def test_another_type_ends_the_run_wherever_it_comes(elsewhere):
    rewards = make(elsewhere, 'if not response: return 0')
    rewards.check(RECORD)
    with pytest.raises(InputError, match=r"line 2 \(reward\) returned None on 'a'; it"):
        rewards([RECORD], ['a'])


@pytest.mark.parametrize('response', ['nan', '-inf', '1e999', '1e39'])
def test_a_number_that_is_not_finite_makes_its_response_wrong(response, elsewhere):
    rewards = make(elsewhere, 'return float(response or 0)')
    rewards.check(RECORD)
    bad, good = rewards([RECORD] * 2, [response, '2'])
    assert (bad.value, bad.correct, bad.failure) == (0.0, False, 'parse_failures')
    assert (good.value, good.failure) == (2.0, None)


def test_a_file_that_changes_while_it_is_used_is_refused(elsewhere):
    rewards = make(elsewhere, 'return 1')
    (elsewhere / 'my_reward.py').write_text('def reward(response, record): return 0')
    with pytest.raises(InputError, match='the file changed while a run uses it'):
        rewards.check(RECORD)


def test_a_reward_may_import_what_lies_beside_it(elsewhere):
    (elsewhere / 'mine').mkdir()
    (elsewhere / 'mine' / 'beside_reward.py').write_text('VALUE = 0.25')
    (elsewhere / 'mine' / 'my_reward.py').write_text(
        'from beside_reward import VALUE\ndef reward(response, record): return VALUE'
    )
    rewards = Rewards(RewardParams('mine/my_reward.py:reward', 1.0, 5.0, 1024))
    assert rewards([RECORD], ['a'])[0].value == 0.25
    assert 'beside_reward' not in sys.modules


def test_what_a_worker_imports_is_little():
    code = (
        'import sys\nfrom passk_jax.verifiers import worker, reward_worker\n'
        "sys.exit(str({'jax', 'numpy', 'ml_collections'} & set(sys.modules) or ''))"
    )
    ended = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.stderr.strip() == '', ended.stderr


def test_the_place_of_a_worker_is_checked_by_digest(elsewhere):
    path = elsewhere / 'my.py'
    path.write_text('def f(response, record):\n    return len(response) / record["n"]')
    with pytest.raises(InputError, match='changed'):
        reward_worker.load(f'{path}:f@0')
    judge = reward_worker.load(
        f'{path}:f@{reward_worker.plugins.digest(path.read_bytes())}'
    )
    assert judge('{"n": 2}', 'abc') == [[1.5, ''], None]
    assert judge('{}', 'abc') == [None, ['my.py, line 2', "KeyError: 'n'"]]
