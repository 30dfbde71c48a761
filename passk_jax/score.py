"""Scores responses from any program: ``python -m passk_jax.score``.

    python -m passk_jax.score --task=maze --input=in.jsonl --output=out.jsonl

Each input line is an object ``{"problem": <problem>, "response": <text>}``. The problem
is text (for a maze, its rows) or an object, the benchmark's record. Each output line is
the same object with these fields added or replaced:

    "correct"  true or false
    "parsed"   the answer read from the response, "" if there is none
    "error"    null, or why the response is wrong

A verdict is strict: it applies the rules as stated and accepts any valid solution.
``--official`` uses the benchmark's verifier instead, for numbers that must be
comparable; it is an error for a task without one.

A malformed line keeps its fields and gets ``"line": <number>, "correct": false,
"parsed": "", "error": <reason>``. The command also reports it on stderr and exits with
1. It exits with 2 if it cannot read or write a file. It writes the whole output at the
end or nothing, also through links and into pipes, and uses no device.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from passk_jax import cli, files, plugins, tasks
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks.abilities import OfficialVerdict
from passk_jax.tasks.judging import judge_all, judge_singly
from passk_jax.types import Problem, Verdict


def score_lines(
    lines: Sequence[bytes], *, task: type[tasks.Task], official: bool = False
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yields the output record of each line, and whether the line is malformed.

    With ``official``, the task must have the ability ``OfficialVerdict``.
    """
    judge = task.verdict
    if official:
        official_task = tasks.require(task, OfficialVerdict, needed_by='--official')
        judge = official_task.official_verdict
    for number, line in enumerate(lines, start=1):
        record = {}
        try:
            record = _parse(line)
            yield _score(record, task.parse_problem, judge), False
        except (ValueError, RecursionError) as e:
            failed = {'line': number, 'correct': False, 'parsed': '', 'error': str(e)}
            yield record | failed, True


def score_file(
    name: str, *, input_path: str, output_path: str, official: bool = False
) -> int:
    """Scores a file, reports malformed lines on stderr and returns their number.

    Args:
        name: name of the task.
        input_path: a file of JSON lines.
        output_path: replaced if it is a file, else written to (``/dev/stdout``).
        official: whether to judge by the benchmark's verifier.

    Raises:
        InputError: the task is unknown, reads no records or has no official verdict,
            or a file cannot be read or written; raised before the first verdict if
            possible.
    """
    task = tasks.task_class(name)
    if task.parse_problem is tasks.Task.parse_problem:
        raise InputError(
            f'{plugins.where(task)} has no parse_problem(record), which makes the '
            'Problem of the field "problem" of a line: score needs it'
        )
    if official:
        tasks.require(task, OfficialVerdict, needed_by='--official')
    try:
        content = pathlib.Path(input_path).read_bytes()
    except OSError as e:
        raise InputError(f'input {input_path!r} cannot be read: {e.strerror}') from e
    unwritable = f'output {output_path!r} cannot be written'
    with prefixed(unwritable, OSError):
        files.check_writable(output_path)
    lines = content.removesuffix(b'\n').split(b'\n') if content else []
    results, num_malformed = [], 0
    scored = score_lines(lines, task=task, official=official)
    for number, (result, malformed) in enumerate(scored, start=1):
        results.append(json.dumps(result) + '\n')
        if malformed:
            num_malformed += 1
            logging.error('%s: line %d: %s', input_path, number, result['error'])
    with prefixed(unwritable, OSError):
        files.atomic_write_text(output_path, ''.join(results))
    return num_malformed


def _parse(line: bytes) -> dict[str, Any]:
    if not line.strip():
        raise InputError('empty line')
    try:
        record = json.loads(
            line.decode('utf-8'), parse_float=_finite, parse_constant=_finite
        )
    except (json.JSONDecodeError, RecursionError) as e:
        raise InputError(f'not JSON: {e}') from e
    if not isinstance(record, dict):
        raise InputError(f'a JSON {type(record).__name__}, not an object')
    return record


def _score(
    record: dict[str, Any],
    parse_problem: Callable[[str | dict[str, Any]], Problem],
    judge: Callable[[Problem, str], Verdict],
) -> dict[str, Any]:
    for field, kinds in (('problem', (str, dict)), ('response', (str,))):
        if field not in record:
            raise InputError(f'no field {field!r}')
        if not isinstance(record[field], kinds):
            allowed = 'text' if len(kinds) == 1 else 'text or an object'
            raise InputError(f'field {field!r} is not {allowed}')
    problem = parse_problem(record['problem'])
    (verdict,) = judge_all(judge_singly(judge), [problem], [record['response']])
    return record | dataclasses.asdict(verdict)


def _finite(number: str) -> float:
    """Parses a finite number: JSON has no NaN and no infinity."""
    value = float(number)
    if not math.isfinite(value):
        raise InputError(f'not JSON: {number} is {value}')
    return value


# The parameters have the names of the flags, which hide two builtins.
def main(*, task: str, input: str, output: str, official: bool = False) -> int:
    """Scores ``input``; returns 1 if a line is malformed, else 0."""
    num_malformed = score_file(
        task, input_path=input, output_path=output, official=official
    )
    return 1 if num_malformed else 0


if __name__ == '__main__':
    cli.run(main)
