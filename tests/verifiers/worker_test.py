"""The process that judges, spoken to by hand."""

import json
import subprocess
import sys

from passk_jax.verifiers import worker

JUDGE = 'tests.verifiers.judged:judge'


def talk(*requests, function=JUDGE, memory_bytes=2**29):
    """What a worker replies to these lines, and how it ended."""
    result = subprocess.run(
        [
            sys.executable,
            '-m',
            'passk_jax.verifiers.worker',
            function,
            str(memory_bytes),
        ],
        input=''.join(
            json.dumps([i, *request]) + '\n' for i, request in enumerate(requests)
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in result.stdout.splitlines()], result.returncode


def test_a_worker_replies_to_each_request_and_ends_with_its_input():
    replies, code = talk(
        [9.0, ['a', 'a']], [9.0, ['a', 'raise:']], [9.0, ['a', f'allocate:{2**30}']]
    )
    assert replies == [
        None,
        [0, 'returned', True],
        [1, 'raised', 'ValueError'],
        [2, 'memory', ''],
    ]
    assert code == 0


def test_what_is_printed_is_no_reply():
    assert talk([9.0, ['a', 'print:']])[0] == [None, [0, 'returned', False]]


def test_the_kernel_ends_an_orphan_inside_c():
    replies, code = talk([0.5, ['a', 'loop:']])
    assert (replies, code) == ([None], -14)


def test_a_function_that_is_absent_is_the_first_reply():
    ((reply,), _) = talk(function='no_such_module:judge')
    assert reply == "ModuleNotFoundError: No module named 'no_such_module'"


def test_a_call_tells_how_it_ended():
    def judge(what):
        raise {'memory': MemoryError, 'bug': KeyError}[what]

    assert worker.call(lambda x: x + 1, [1]) == ('returned', 2)
    # It would fill the pipe and the parent's memory.
    too_long = ('raised', 'what it returned is too long')
    assert worker.call(lambda x: 'x' * x, [10**6]) == too_long
    # JSON has none.
    assert worker.call(lambda x: {x}, [1]) == ('raised', 'TypeError')
    assert worker.call(judge, ['memory']) == ('memory', '')
    assert worker.call(judge, ['bug']) == ('raised', 'KeyError')
