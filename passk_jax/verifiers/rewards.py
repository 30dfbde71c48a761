"""Rewards by a user's function, which runs in worker processes.

    def reward(response, record):
        return response.strip() == record['answer']

The function gets the text of a response and the record of its problem. It returns a
bool, which is both verdict and reward, or a finite number, the reward; then a response
is correct if it is at least ``threshold``. It may return ``(value, answer)`` instead,
with the text that it read as the answer, which maj@k and the like compare. Equal
responses to equal records are judged once, so the result must depend on these two
alone.

A response is wrong, with the reward 0, if the function raises on it, returns a number
that is not finite or an answer of more than 1,000 characters, exceeds the deadline,
ends its process or takes too much memory. The log says why, once per line. If that
happens to more than half of the last different responses, or if the function returns
anything else, an InputError names its file and line. :meth:`Rewards.check` finds most
of these errors before a run begins.
"""

import ast
import dataclasses
import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from passk_jax import plugins
from passk_jax.config.ranges import count, positive
from passk_jax.errors import InputError, prefixed
from passk_jax.verifiers.pool import (
    CRASH,
    PARSE_FAILURE,
    TIMEOUT,
    Judgement,
    Pool,
    RecentFailures,
    num_workers,
)

FAILURES = (TIMEOUT, CRASH, PARSE_FAILURE)
# The largest share of failures among the last 256 different responses.
_MAX_FAILURE_SHARE = 0.5
# Records and responses are long, and few repeat.
_MEMO_SIZE = 2**12
_MAX_CHARACTERS = 60


@dataclasses.dataclass(frozen=True)
class RewardParams:
    """A reward function and its limits.

    Attributes:
        reward: ``file.py:function``.
        threshold: the least reward of a correct response.
        deadline_s: seconds for one response.
        memory_mib: address space of a worker process.
    """

    reward: str
    threshold: float
    deadline_s: float = positive()
    memory_mib: int = count(1)

    def __post_init__(self):
        plugins.split_place(self.reward)


@dataclasses.dataclass(frozen=True)
class Reward:
    """The reward of one response.

    Attributes:
        value: the reward.
        correct: whether the response is correct.
        answer: the answer that the function read; ``''``: none.
        failure: ``None``, or the one of ``FAILURES`` that makes it wrong.
        error: ``None``, or why it is not correct.
    """

    value: float
    correct: bool
    answer: str = ''
    failure: str | None = None
    error: str | None = None


class Rewards:
    """A reward function in worker processes, which end with this process.

    Args:
        params: the function and its limits.

    Raises:
        InputError: the file does not exist, has a syntax error, or does not define the
            function. The file does not run here.
    """

    def __init__(self, params: RewardParams):
        self._params = params
        self.where, digest = _find(params.reward)
        file, name = plugins.split_place(params.reward)
        self._pool = Pool(
            f'{os.path.abspath(file)}:{name}@{digest}',
            workers=num_workers(),
            deadline_s=params.deadline_s,
            memory_bytes=params.memory_mib * 2**20,
            memo_size=_MEMO_SIZE,
        )
        self._logged: set[str] = set()
        self._recent = RecentFailures(_MAX_FAILURE_SHARE)
        self._checked = False

    def check(self, record: Mapping[str, Any]) -> None:
        """Calls the function once, on an empty response.

        Raises:
            InputError: it fails, or returns no reward.
        """
        if self._checked:
            return
        (judgement,) = self._judge([(json.dumps(dict(record)), '')])
        _, message, _ = self._reward(judgement, '')
        if message:
            raise InputError(f'{message}, an empty response')
        self._checked = True

    def __call__(
        self, records: Sequence[Mapping[str, Any]], responses: Sequence[str]
    ) -> list[Reward]:
        """Judges responses, each to the problem of its record.

        Raises:
            InputError: the function is broken; see above.
        """
        # Responses to one problem share its record.
        texts = {id(record): json.dumps(dict(record)) for record in records}
        pairs = [
            (texts[id(record)], response)
            for record, response in zip(records, responses, strict=True)
        ]
        rewards, last_message = [], ''
        for judgement, response in zip(self._judge(pairs), responses, strict=True):
            reward, message, kind = self._reward(judgement, response)
            rewards.append(reward)
            last_message = message or last_message
            if message and kind not in self._logged:
                self._logged.add(kind)
                logging.warning('%s: such responses are wrong', message)
        self._recent.add(responses, (reward.failure is not None for reward in rewards))
        if self._recent.are_too_many:
            number, total = self._recent.counts
            raise InputError(
                f'{self.where} failed on {number} of the last {total} different '
                f'responses; the last time: {last_message}'
            )
        return rewards

    def _judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        with prefixed(self.where):
            return self._pool.judge(pairs)

    def _reward(self, judged: Judgement, response: str) -> tuple[Reward, str, str]:
        """Returns the reward and, if the function failed, a message and its kind."""
        params = self._params
        about = f'on {response[:_MAX_CHARACTERS]!r}'
        if judged.failure:
            event = {
                TIMEOUT: f'took longer than {params.deadline_s:g} s',
                CRASH: f'ended its process or took more than {params.memory_mib} MiB',
            }.get(judged.failure, 'raised')
            failed = _make_failed(judged.failure, event)
            return failed, f'{self.where} {event} {about}', event
        returned, error = judged.value
        if error:
            place, text = error
            failed = _make_failed(PARSE_FAILURE, f'raised {text}')
            return failed, f'{place}: {text} {about}', place
        value, answer = returned
        if isinstance(value, str):
            raise InputError(
                f'{self.where} returned {value} {about}; it must return a bool or a '
                'finite number, or (value, answer) with a text'
            )
        correct = value if isinstance(value, bool) else value >= params.threshold
        error = None if correct else f'reward {value:g}'
        return Reward(float(value), correct, answer, error=error), '', ''


def _make_failed(kind: str, event: str) -> Reward:
    """Returns the reward of a response on which the function failed."""
    return Reward(0.0, False, failure=kind, error=f'the reward {event}')


@functools.cache
def shared_rewards(params: RewardParams) -> Rewards:
    """Returns the process's rewards by a function, made on first use."""
    return Rewards(params)


def _find(place: str) -> tuple[str, str]:
    """Finds a function's ``file, line N (name)`` and its file's digest; runs nothing.

    Raises InputError if that fails.
    """
    file, name = plugins.split_place(place)
    content = plugins.read(file)
    with plugins.errors_of(file):
        # compile puts the path into a syntax error, and runs nothing.
        compile(content, os.path.abspath(file), 'exec')
        tree = ast.parse(content)
    functions = {
        node.name: node.lineno
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    # The function may also be imported, or made by a call.
    if not re.search(rf'\b{name}\b', content.decode(errors='replace')):
        raise InputError(f'{file} defines no {name}; it has {list(functions)}')
    line = f', line {functions[name]}' if name in functions else ''
    return f'{file}{line} ({name})', plugins.digest(content)
