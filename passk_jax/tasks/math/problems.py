"""Reads problems of mathematics: records with problem and answer.

:mod:`passk_jax.tasks.sources` lists the kinds of sources,
``passk_jax/tasks/math/task.py`` the benchmarks that need no conversion.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from passk_jax.errors import InputError, prefixed
from passk_jax.tasks import chats, records, rows, sources
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
    """Reads the problems of a split, in the order of its names.

    Leaves out records without a gold (empty, null, NaN, ``proof``, ``notfound``) and
    repeats of earlier problems; the log counts both. The category of a problem is the
    label of its source.

    Args:
        names: names of sources (sources.py); the last part of each is its label.
        problem, answer: required fields of a record, with texts that are not the same
            in all records; ``prompt.0.content`` is a field of an item of a list.
        ids: fields; the first one that a record has is its id in ``Problem.data``.
        data_dir: where relative names start.

    Raises:
        ValueError: a source cannot be read, or a record is malformed.
    """
    problems: dict[str, Problem] = {}
    for name in names:
        source = sources.read(name, data_dir=data_dir)
        parsed = _parse_all(source, problem=problem, answer=answer, ids=ids)
        unanswered, repeated = 0, 0
        for read in parsed:
            digest = content_hash(read)
            if is_sentinel(read.data['answer']):
                unanswered += 1
            elif digest in problems:
                repeated += 1
            else:
                problems[digest] = dataclasses.replace(
                    read, id=len(problems), category=source.label
                )
        if unanswered or repeated:
            message = '%s: left out %d problems without a gold and %d repeats'
            logging.warning(message, source.name, unanswered, repeated)
    return list(problems.values())


def _parse_all(
    source: sources.Source, *, problem: str, answer: str, ids: Sequence[str]
) -> list[Problem]:
    parsed = []
    for number, record in source.records:
        with prefixed(f'{source.name}: {source.unit} {number}'):
            parsed.append(parse(record, problem=problem, answer=answer, ids=ids))
    texts, golds = (
        [read.data[key] for read in parsed] for key in ('problem', 'answer')
    )
    rows.check_varied(problem, texts, golds, source=source.name)
    rows.check_varied(answer, golds, texts, source=source.name)
    return parsed


def parse(
    record: Any,
    *,
    problem: str = 'problem',
    answer: str = 'answer',
    ids: Sequence[str] = ('id', 'unique_id'),
) -> Problem:
    """Reads a benchmark's record; see :func:`read_split`.

    The problem is a text or a chat (chats.py). The gold, in the field of the answer,
    may be a number, null, or a list with one of them. Raises ValueError if a field is
    missing or is something else.
    """
    if not isinstance(record, Mapping):
        raise InputError('give a problem as a record, not as text')
    chat = chats.read_field(record, problem)
    gold = rows.gold_text(rows.field_value(record, answer), field=answer)
    data = {'problem': chat.text, 'answer': gold}
    if id_fields := [field for field in ids if field in record]:
        data['id'] = str(record[id_fields[0]])
    prompt = f'{INSTRUCTIONS}\n\n{chat.text}'
    return Problem(0, prompt, data, 'mathematics', chat.turns)


def content_hash(problem: Problem) -> str:
    """Hashes a problem, ignoring white space and case."""
    return records.content_hash(problem.data['problem'])
