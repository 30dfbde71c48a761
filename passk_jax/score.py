"""Verdicts on responses made elsewhere: ``python -m passk_jax.score``.

    python -m passk_jax.score --task=maze --input=in.jsonl --output=out.jsonl

Each line of the input is an object ``{"problem": <text>, "response": <text>}``; for a
maze the problem is its rows. The same line of the output is that object with

    "correct"  true or false
    "parsed"   the answer read from the response, "" where there was none
    "error"    null, or why the response is not correct

(replacing fields of these names). Whatever a line is, it has a line in the output: a
malformed one gives ``{"line": 3, "correct": false, "parsed": "", "error": <reason>}``
beside whatever fields it has, is reported with its number on stderr, and makes the exit
status 1. A file that cannot be read or written makes it 2. The output appears at the
end, whole, or not at all. No device is used.
"""

import json
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from passk_jax import cli, files, tasks
from passk_jax.errors import InputError


def score_lines(
    lines: Sequence[bytes], *, task: type[tasks.Task]
) -> Iterator[tuple[dict[str, Any], bool]]:
    """What the output says of each line, and whether the line was malformed."""
    for number, line in enumerate(lines, start=1):
        record = {}
        try:
            record = _parse(line)
            yield _score(record, task), False
        except (ValueError, RecursionError) as e:
            failed = {'line': number, 'correct': False, 'parsed': '', 'error': str(e)}
            yield record | failed, True


def score_file(name: str, *, input_path: str, output_path: str) -> int:
    """Scores a file; reports malformed lines on stderr.

    Args:
        name: of the task.
        input_path: JSON lines.
        output_path: replaced if it exists.

    Returns:
        How many lines were malformed.

    Raises:
        ValueError: an unknown task; a file that cannot be read or written, found
            before anything is scored.
    """
    task = tasks.task_class(name)
    try:
        content = pathlib.Path(input_path).read_bytes()
    except OSError as e:
        raise InputError(f'input {input_path!r} cannot be read: {e.strerror}') from e
    _check_writable(pathlib.Path(output_path))
    lines = content.split(b'\n')
    if not lines[-1]:  # What follows the last line break is no line.
        lines.pop()
    results, num_malformed = [], 0
    for number, (result, malformed) in enumerate(score_lines(lines, task=task), 1):
        results.append(json.dumps(result) + '\n')
        if malformed:
            num_malformed += 1
            logging.error('%s: line %d: %s', input_path, number, result['error'])
    try:
        files.atomic_write_text(output_path, ''.join(results))
    except OSError as e:
        raise InputError(f'output {output_path!r} cannot be written: {e}') from e
    return num_malformed


def _parse(line: bytes) -> dict[str, Any]:
    if not line.strip():
        raise InputError('empty line')
    try:
        record = json.loads(line.decode('utf-8'), parse_constant=_refuse_constant)
    except json.JSONDecodeError as e:
        raise InputError(f'not JSON: {e}') from e
    if not isinstance(record, dict):
        raise InputError(f'a JSON {type(record).__name__}, not an object')
    return record


def _score(record: dict[str, Any], task: type[tasks.Task]) -> dict[str, Any]:
    for field in ('problem', 'response'):
        if field not in record:
            raise InputError(f'no field {field!r}')
        if not isinstance(record[field], str):
            raise InputError(f'field {field!r} is not text')
    verdict = task.verdict(task.parse_problem(record['problem']), record['response'])
    return record | {
        'correct': verdict.correct,
        'parsed': verdict.parsed,
        'error': verdict.error,
    }


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity, and write them, though they are no JSON."""
    raise InputError(f'not JSON: {name}')


def _check_writable(path: pathlib.Path) -> None:
    if path.is_dir():
        raise InputError(f'output {str(path)!r} is a directory')
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise InputError(f'output {str(path)!r} cannot be written: {e}') from e


# The parameters are the names of the flags.
def main(*, task: str, input: str, output: str) -> int:
    """Scores ``input``; 1 if any line of it was malformed."""
    return 1 if score_file(task, input_path=input, output_path=output) else 0


if __name__ == '__main__':
    cli.run(main)
