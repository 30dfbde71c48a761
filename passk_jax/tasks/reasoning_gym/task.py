"""The task reasoning_gym: problems that the package reasoning-gym generates.

The package is an optional extra. It is needed to generate problems and, in the sets of
``table.SCORED``, to judge them. Only the sets of ``table.ALLOWED`` are used.
:mod:`passk_jax.tasks.reasoning_gym.judge` says how a response is judged.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.config.ranges import count, not_negative
from passk_jax.errors import InputError
from passk_jax.tasks import records
from passk_jax.tasks.judging import judge_together
from passk_jax.tasks.reasoning_gym import judge, problems
from passk_jax.tasks.reasoning_gym.judge import CLOSE, OPEN
from passk_jax.tasks.reasoning_gym.table import (
    ALLOWED,
    LEFT_OUT,
    SCORED,
    SYMBOLS,
    VERSION,
)
from passk_jax.tasks.task import (
    ASCII,
    GENERATED,
    About,
    EmptySplitError,
    Task,
    check_choice,
)
from passk_jax.types import Problem, Verdict, Verdicts
from passk_jax.verifiers.mathematics import FAILURES

_PLACE = f'Give your final answer alone between {OPEN} and {CLOSE} at the end.'
_RESERVED = ('seed', 'size')


@dataclasses.dataclass(frozen=True)
class ReasoningGymParams:
    """The sets, and how many problems to generate.

    Attributes:
        sets: name of a set -> fields of its configuration in the package, ``{}`` for
            its defaults. The sets' problems come in this order.
        train_count, validation_count, test_count: number of problems of each set.
        seed: decides which problems are generated.
    """

    sets: Mapping[str, Any]
    train_count: int = count(0)
    validation_count: int = count(0)
    test_count: int = count(0)
    seed: int = not_negative()

    def __post_init__(self):
        if not self.sets:
            raise InputError(f'sets is empty: name some of {list(ALLOWED)}')
        for name, config in self.sets.items():
            if name in LEFT_OUT:
                raise InputError(f'sets: {name!r} is left out: {LEFT_OUT[name]}')
            check_choice('sets:', name, ALLOWED)
            if not isinstance(config, Mapping):
                raise InputError(f'sets.{name}={config!r} must be a mapping')
            if reserved := [key for key in _RESERVED if key in config]:
                raise InputError(f'sets.{name}.{reserved[0]} is decided by the task')


class ReasoningGymTask(Task):
    """Sets as a :class:`~passk_jax.tasks.task.Task`; a category is a set's name.

    Raises ValueError if verdicts need the package and it is missing.
    """

    name = 'reasoning_gym'
    splits = ('train', 'validation', 'test')
    Params = ReasoningGymParams
    instructions = (_PLACE,)
    about = About(
        summary=f'reasoning-gym {VERSION}, {len(ALLOWED)} sets: {", ".join(ALLOWED)}',
        size='any number of most sets',
        licence='Apache-2.0',
        source=f'pip install reasoning-gym=={VERSION}; then {GENERATED}',
        example={
            'sets': {'gcd': {}, 'largest_island': {}},
            'train_count': 1,
            'validation_count': 0,
            'test_count': 1,
            'seed': 0,
        },
    )
    demonstrations = ('solution',)

    def __init__(self, params: ReasoningGymParams):
        super().__init__(params)
        if SCORED.keys() & params.sets.keys():
            problems.check_package()

    @property
    def alphabet(self) -> str:
        """Returns ASCII and the symbols of the sets."""
        symbols = ''.join(SYMBOLS.get(name, '') for name in self.params.sets)
        return ASCII + ''.join(dict.fromkeys(symbols))

    def source(self, split: str, *, data_dir: str) -> Sequence[Problem]:
        """Returns the problems of a split; generates them at a process's first call.

        Raises ValueError if the split is unknown or empty, the package is missing or
        rejects a configuration, or a set has too few problems.
        """
        del data_dir
        check_choice('split', split, self.splits)
        if not (count := getattr(self.params, f'{split}_count')):
            raise EmptySplitError(
                f'split {split!r} of the reasoning_gym task is empty: '
                f'{split}_count={count}'
            )
        # The text contains the order of the sets.
        return _problems(json.dumps(dataclasses.asdict(self.params)), split)

    def demonstration(
        self, problem: Problem, *, kind: str, rng: np.random.Generator
    ) -> str:
        """Returns the stored answer in its tags, always the same.

        Raises ValueError unless ``kind`` is one of ``demonstrations``.
        """
        del rng
        check_choice('kind', kind, self.demonstrations)
        return f'{OPEN}{problem.data["answer"]}{CLOSE}'

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems in one call.

        Raises ValueError if the problems have different numbers of responses, or if
        the verifier fails.
        """

        def verdicts(problems: list[Problem], texts: list[str]) -> list[Verdict]:
            return judge.judge([problem.data for problem in problems], texts)

        return judge_together(problems, responses, judge=verdicts, failures=FAILURES)

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes the question, without the rest of the prompt."""
        return records.content_hash(problem.data['question'])

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads an item of the package, whose ``metadata`` names its set.

        Raises ValueError for text, a malformed record or a set that is not allowed, and
        if verdicts need the package and it is missing.
        """
        if not isinstance(record, Mapping):
            raise InputError('give an item of reasoning-gym as an object, not as text')
        metadata = record.get('metadata')
        metadata_mapping = metadata if isinstance(metadata, Mapping) else {}
        name = record.get('set', metadata_mapping.get('source_dataset'))
        item = problems.item_of(name, {**record, 'metadata': metadata_mapping})
        check_choice('set', name, ALLOWED)
        if name in SCORED:
            problems.check_package()
        return _problem(0, item)

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        return judge.judge([problem.data], [response])[0]


def _problem(identity: int, item: Mapping[str, Any]) -> Problem:
    prompt = f'{item["question"]}\n\n{_PLACE}'
    return Problem(identity, prompt, dict(item), item['set'])


@functools.lru_cache(maxsize=8)
def _problems(params: str, split: str) -> tuple[Problem, ...]:
    values = json.loads(params)
    items = [
        item
        for name, config in values['sets'].items()
        for item in problems.generate_splits(
            name,
            config,
            counts={
                split_name: values[f'{split_name}_count']
                for split_name in problems.SPLITS
            },
            seed=values['seed'],
            upto=split,
        )[split]
    ]
    return tuple(_problem(i, item) for i, item in enumerate(items))
