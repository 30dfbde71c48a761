"""Reads problems of KOR-Bench from a local copy of its files.

Each of five categories has 25 rules with 10 questions each: 1,250 problems. Each
category has a folder with ``rule.jsonl`` and ``sample.jsonl``. ``zero-shot.yaml`` has
the prompts.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.types import Problem

CATEGORIES = ('cipher', 'counterfactual', 'logic', 'operation', 'puzzle')
HOW_TO_GET = (
    'git clone https://github.com/KOR-Bench/KOR-Bench (1,250 problems, Apache-2.0), '
    'with the folder data and the prompts config/prompt/zero-shot.yaml'
)
# The place of rule and question in the prompts.
_PLACE = '{}'


def read_category(
    category: str, *, directory: pathlib.Path, prompt_file: pathlib.Path
) -> list[Problem]:
    """Reads the problems of a category, in file order; all have the id 0.

    Args:
        category: one of ``CATEGORIES``.
        directory: has a folder for each category.
        prompt_file: the benchmark's ``zero-shot.yaml``.

    Raises:
        ValueError: a file is missing (the message says how to get it) or malformed.
    """
    template = _template(category, prompt_file)
    rules: dict[str, str] = {}
    file = _present(directory / category / 'rule.jsonl')
    for number, record in records.read_lines(file):
        idx, text = (
            _field(record, name, file, number) for name in ('idx', 'rule_content')
        )
        rules[idx] = text
    problems = []
    file = _present(directory / category / 'sample.jsonl')
    for number, record in records.read_lines(file):
        try:
            problem = parse(record, category=category)
            rule = rules.get(problem.data['rule'])
            if rule is None:
                raise InputError(f'no rule {problem.data["rule"]!r} in rule.jsonl')
        except ValueError as e:
            raise InputError(f'{file}: line {number}: {e}') from e
        # format() would also interpret braces in the template.
        before, between, after = template
        prompt = f'{before}{rule}{between}{problem.prompt}{after}'
        problems.append(Problem(0, prompt, problem.data, category))
    return problems


def parse(record: Any, *, category: str) -> Problem:
    """Reads a record of ``sample.jsonl``; the prompt is just the question.

    ``Problem.data`` holds texts: ``category``, ``rule`` and ``idx`` (the numbers of
    rule and problem), ``question``, and ``answer`` without its brackets.

    Raises ValueError if a field is missing or malformed.
    """
    if not isinstance(record, Mapping):
        raise InputError("give KOR-Bench's record as an object, not as text")
    fields = {}
    for field in ('idx', 'rule_id', 'question', 'answer'):
        if field not in record:
            raise InputError(f'no field {field!r}; have {list(record)}')
        fields[field] = record[field]
        if not isinstance(record[field], str) or not record[field].strip():
            raise InputError(f'field {field!r} must be text that is not empty')
    for field in ('idx', 'rule_id'):
        if not (fields[field].isascii() and fields[field].isdigit()):
            raise InputError(f'field {field!r} is not a number: {fields[field][:20]!r}')
    answer = fields['answer']
    if len(answer) <= 4 or not (answer.startswith('[[') and answer.endswith(']]')):
        raise InputError(f'the answer is not in [[...]]: {answer[:40]!r}')
    data = {
        'category': category,
        'rule': str(int(fields['rule_id'])),
        'idx': str(int(fields['idx'])),
        'question': fields['question'],
        'answer': answer[2:-2],
    }
    return Problem(0, fields['question'], data, category)


def content_hash(problem: Problem) -> str:
    """Hashes a problem and its rule, ignoring white space and case."""
    data = problem.data
    return records.content_hash(data['category'], data['rule'], data['question'])


def _template(category: str, file: pathlib.Path) -> list[str]:
    """Splits a category's prompt into the texts around rule and question."""
    try:
        templates = yaml.safe_load(records.read_text(_present(file)))
        (template,) = templates[f'{category}_prompt_format']
        parts = template.split(_PLACE)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as e:
        if isinstance(e, InputError):
            raise
        message = f'{file}: no prompt of {category}: {type(e).__name__}: {e}'
        raise InputError(message) from e
    if len(parts) != 3:
        raise InputError(f'{file}: the prompt of {category} has not two places {{}}')
    return parts


def _present(file: pathlib.Path) -> pathlib.Path:
    if not file.is_file():
        raise InputError(f'{str(file)!r} of KOR-Bench is absent: {HOW_TO_GET}')
    return file


def _field(record: Any, name: str, file: pathlib.Path, number: int) -> str:
    if not isinstance(record, Mapping) or not isinstance(record.get(name), str):
        raise InputError(f'{file}: line {number}: no text in field {name!r}')
    return record[name]
