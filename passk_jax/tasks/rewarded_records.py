"""The task ``records``: prompts from files, and a user's reward function.

A record is a row of a file (sources.py): it has a prompt, a text or the turns of a
chat, and any other fields. Its fields ``image`` and ``images`` are pictures
(picture_fields.py), which stand in the prompt at ``<image>`` or at the parts of a chat
that are pictures. The function gets the response and the record;
:mod:`passk_jax.verifiers.rewards` says what it returns, and where it runs.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from passk_jax.config import checks
from passk_jax.config.ranges import not_empty
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks import chats, records, sources
from passk_jax.tasks.judging import shape_of
from passk_jax.tasks.picture_fields import picture_digests, read_pictures
from passk_jax.tasks.rows import unwritten
from passk_jax.tasks.task import (
    ASCII,
    About,
    EmptySplitError,
    Task,
    check_choice,
    check_disjoint,
)
from passk_jax.types import PICTURE, Picture, Problem, Verdict, Verdicts
from passk_jax.verifiers import rewards
from passk_jax.verifiers.rewards import RewardParams, shared_rewards

_PICTURE_FIELDS = 'image', 'images'
_LIMITS = tuple(field.name for field in dataclasses.fields(RewardParams))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsParams(RewardParams):
    """Where the prompts are, and the reward function with its limits.

    Attributes:
        train_files, validation_files, test_files: names of files, of files on the
            hub and of TFDS data sets (sources.py); a relative path starts at
            ``data.dir``, or without that at the working directory.
        prompt_field: the field of a record with the prompt, a text or a chat;
            ``prompt.0.content`` is a field of an item of a list.
    """

    train_files: tuple[str, ...]
    validation_files: tuple[str, ...]
    test_files: tuple[str, ...]
    prompt_field: str = not_empty()

    def __post_init__(self):
        super().__post_init__()
        sources.check_files(self, RecordsTask.splits)


class RecordsTask(Task):
    """Records with a reward function as a :class:`passk_jax.tasks.task.Task`.

    Answers are those that the function returns with its rewards. Raises ValueError if
    the function's file cannot be read, or lacks it.
    """

    name = 'records'
    splits = ('train', 'validation', 'test')
    Params = RecordsParams
    alphabet = ASCII
    about = About(
        summary='prompts of your own, with a reward function of your own',
        size='as many as the files have',
        licence='yours',
        source='files of your own and my_reward.py; docs/plugins.md has an example',
        example={
            'train_files': ('records/train.jsonl',),
            'validation_files': (),
            'test_files': ('records/test.jsonl',),
            'prompt_field': 'prompt',
            'reward': 'my_reward.py:reward',
            'threshold': 1.0,
            'deadline_s': 5.0,
            'memory_mib': 4096,
        },
    )

    def __init__(self, params: RecordsParams):
        super().__init__(params)
        _rewards_of(vars(params))

    def source(self, split: str, *, data_dir: str) -> list[Problem]:
        """Returns the problems of a split.

        It reads the files of all splits, to check that no two share a prompt, and calls
        the reward function once. Raises ValueError if two do, if a file cannot be read,
        if the split is unknown or empty, or if the function returns no reward.
        """
        check_choice('split', split, self.splits)
        splits = {
            name: self._read(getattr(self.params, f'{name}_files'), data_dir)
            for name in self.splits
        }
        repeats = check_disjoint(splits, digest=self.content_hash)[split]
        if not (problems := splits[split]):
            files = f'{split}_files={getattr(self.params, f"{split}_files")}'
            raise EmptySplitError(f'split {split!r} of the task is empty: {files}')
        if repeats:
            message = 'split %r: %d of %d prompts repeat earlier ones'
            logging.warning(message, split, repeats, len(problems))
        _rewards_of(vars(self.params)).check(problems[0].data['record'])
        return problems

    def _read(self, names: Sequence[str], data_dir: str) -> list[Problem]:
        problems: list[Problem] = []
        for name in names:
            source = sources.read(name, data_dir=data_dir)
            for number, record in source.records:
                folders = source.folder, pathlib.Path(data_dir).expanduser()
                with prefixed(f'{source.name}: {source.unit} {number}'):
                    problem = self._problem(record, source.label, folders)
                problems.append(dataclasses.replace(problem, id=len(problems)))
        return problems

    def _problem(
        self, record: Any, category: str, folders: Sequence[pathlib.Path]
    ) -> Problem:
        if not isinstance(record, Mapping):
            raise InputError(f'it is a {type(record).__name__}, not a record')
        chat = chats.read_field(record, self.params.prompt_field)
        images = _images(record, chat, folders)
        # The function gets JSON: dates become text, bytes and arrays an empty text.
        plain = json.loads(json.dumps(dict(record), default=_text_of))
        data = {'record': plain, **_limits_of(vars(self.params))}
        return Problem(0, chat.text, data, category, chat.turns, images)

    def verify(
        self, problems: Sequence[Problem], responses: Sequence[Sequence[str]]
    ) -> Verdicts:
        """Judges N responses to each of P problems, all at once.

        The rewards are those of the function. Raises ValueError if the problems have
        different numbers of responses, or the function is broken.
        """
        shape = shape_of(problems, responses)
        judged = _rewards_of(vars(self.params))(
            [problem.data['record'] for problem in problems for _ in range(shape[1])],
            [text for row in responses for text in row],
        )
        values = np.array([reward.value for reward in judged], np.float32)
        correct = np.array([reward.correct for reward in judged], bool)
        answers = np.array([reward.answer for reward in judged], object)
        failures = np.array([reward.failure for reward in judged], object)
        return Verdicts(
            values.reshape(shape),
            correct.reshape(shape),
            answers.reshape(shape).tolist(),
            {kind: (failures == kind).reshape(shape) for kind in rewards.FAILURES},
        )

    @staticmethod
    def content_hash(problem: Problem) -> str:
        """Hashes prompt, earlier turns and pictures, ignoring white space and case."""
        turns = [turn.content for turn in problem.turns]
        return records.content_hash(*turns, problem.prompt, *picture_digests(problem))

    @staticmethod
    def parse_problem(record: str | Mapping[str, Any]) -> Problem:
        """Reads ``{"record": RECORD, "reward": PLACE, ...}``, as ``Problem.data`` is.

        Raises ValueError for anything else.
        """
        allowed = ('record', *_LIMITS)
        if not isinstance(record, Mapping) or record.keys() != set(allowed):
            raise InputError(f'give an object with the fields {list(allowed)}')
        if not isinstance(record['record'], Mapping):
            raise InputError('field record must be an object')
        _rewards_of(record)
        return Problem(0, '', dict(record), 'records')

    @staticmethod
    def verdict(problem: Problem, response: str) -> Verdict:
        """Judges one response; a wrong one gets a reason."""
        (reward,) = _rewards_of(problem.data)([problem.data['record']], [response])
        return Verdict(reward.correct, reward.answer, reward.error)


def _images(
    record: Mapping[str, Any], chat: chats.Chat, folders: Sequence[pathlib.Path]
) -> tuple[Picture, ...]:
    """Reads the pictures of a record, in the order of their places in the prompt.

    A part of a chat may contain a picture; the fields of the record have the others.
    """
    of_fields = [
        picture
        for name in _PICTURE_FIELDS
        for picture in read_pictures(unwritten(record.get(name)), folders)
    ]
    of_parts = [read_pictures(part, folders) for part in chat.pictures]
    has_field = any(name in record for name in _PICTURE_FIELDS)
    places = chat.text.count(PICTURE) if has_field or of_parts else 0
    have = len(of_fields) + sum(map(len, of_parts))
    if have != places or len(of_parts) not in (0, places):
        raise InputError(
            f'it has {have} pictures, and its prompt {places} places for them, which '
            f'are {PICTURE!r} in a text or the parts of a chat that are pictures'
        )
    if has_field and any(PICTURE in turn.content for turn in chat.turns):
        raise InputError(f'{PICTURE!r} stands in a turn before the last one')
    of_places = iter(of_fields)
    of_parts = of_parts or [[] for _ in of_fields]
    return tuple(part[0] if part else next(of_places) for part in of_parts)


def _text_of(value: Any) -> str:
    return '' if isinstance(value, bytes | np.ndarray) else str(value)


def _limits_of(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _LIMITS}


def _rewards_of(values: Mapping[str, Any]) -> rewards.Rewards:
    """Returns the rewards by the function and with the limits in ``values``."""
    limits = _limits_of(values)
    return shared_rewards(checks.build(RewardParams, limits, path='task.params'))
