"""Problems of mathematics: records with problem and answer, from several sources.

:mod:`passk_jax.tasks.math.sources` says which; ``passk_jax/tasks/math/task.py`` says
which benchmarks are read as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.tasks.math import sources
from passk_jax.types import Problem
from passk_jax.verifiers.golds import is_sentinel

INSTRUCTIONS = r'Please reason step by step, and put your final answer within \boxed{}.'


def read_split(
    names: Sequence[str],
    *,
    problem: str,
    answer: str,
    ids: Sequence[str],
    data_dir: str = '',
) -> list[Problem]:
    """The problems of a split, in the order of its names.

    A record whose gold stands for none (empty, null, NaN, ``proof``, ``notfound``), and
    a repeat of an earlier problem, is left out; the log says how many. The category of
    a problem is the label of its source.

    Args:
        names: names of sources (sources.py); the last part of each is its label.
        problem, answer: fields of a record, which it must have; ``prompt.0.content``
            is the field of an item of a list.
        ids: of these fields, the first that a record has names it in ``Problem.data``.
        data_dir: where relative names start.

    Raises:
        ValueError: a source cannot be read, or a record is malformed.
    """
    problems: dict[str, Problem] = {}
    for name in names:
        source = sources.read(name, data_dir=data_dir)
        unanswered, repeated = 0, 0
        for number, record in source.records:
            try:
                read = parse(record, problem=problem, answer=answer, ids=ids)
            except ValueError as e:
                place = f'{source.name}: {source.unit} {number}'
                raise InputError(f'{place}: {e}') from e
            digest = content_hash(read)
            if is_sentinel(read.data['answer']):
                unanswered += 1
            elif digest in problems:
                repeated += 1
            else:
                problems[digest] = Problem(
                    len(problems), read.prompt, read.data, source.label
                )
        if unanswered or repeated:
            message = '%s: left out %d problems without a gold and %d repeats'
            logging.warning(message, source.name, unanswered, repeated)
    return list(problems.values())


def parse(
    record: Any,
    *,
    problem: str = 'problem',
    answer: str = 'answer',
    ids: Sequence[str] = ('id', 'unique_id'),
) -> Problem:
    """Reads a benchmark's record; see :func:`read_split`.

    Raises ValueError if a field is missing or is not text; the gold, in the field of
    the answer, may be a number or null.
    """
    if not isinstance(record, Mapping):
        raise InputError('give a problem as a record, not as text')
    text, gold = (_value(record, field) for field in (problem, answer))
    if gold is None:
        gold = ''
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        gold = str(gold)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f'field {problem!r} must be text that is not empty')
    if not isinstance(gold, str):
        raise InputError(f'the gold, field {answer!r}, must be text or a number')
    data = {'problem': text, 'answer': gold.strip()}
    if id_fields := [field for field in ids if field in record]:
        data['id'] = str(record[id_fields[0]])
    return Problem(0, f'{INSTRUCTIONS}\n\n{text}', data, 'mathematics')


def _value(record: Mapping[str, Any], field: str) -> Any:
    """What a record has at ``field`` or, part by part, at ``outer.0.inner``."""
    if field in record:
        return record[field]
    value: Any = record
    for part in field.split('.'):
        if isinstance(value, list) and part.isascii() and part.isdigit():
            value = dict(enumerate(value)).get(int(part))
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise InputError(f'no field {field!r}; have {list(record)}')
    return value


def content_hash(problem: Problem) -> str:
    """Equal for problems that differ in blanks and capitals only."""
    return records.content_hash(problem.data['problem'])


def check_disjoint(splits: Mapping[str, Sequence[Problem]]) -> None:
    """Raises ValueError if two splits share a problem; it names the first."""
    first_seen: dict[str, tuple[str, Problem]] = {}
    shared: list[tuple[tuple[str, Problem], tuple[str, Problem]]] = []
    for split, problems in splits.items():
        for problem in problems:
            place = split, problem
            first = first_seen.setdefault(content_hash(problem), place)
            if first[0] != split:
                shared.append((first, place))
    if not shared:
        return
    (split, problem), (other_split, other) = shared[0]
    raise InputError(
        f'{len(shared)} problems lie in two splits; problem {problem.id} of {split!r} '
        f'(from {problem.category}) is problem {other.id} of {other_split!r} (from '
        f'{other.category}): {other.data["problem"][:80]!r}'
    )
