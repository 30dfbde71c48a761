"""Judges answers in worker processes that can be killed.

A verifier that parses model text may hang, crash or take all memory, even inside C,
where no exception reaches it. So a :class:`Pool` calls it in worker processes:

* The parent watches the deadline: it kills a late worker and starts another.
* A worker limits its memory and ends after a number of tasks.
* A time-out, a crash or an error of the verifier means that this answer is wrong. It
  does not raise and does not touch other answers. ``failures`` counts them.
* If too large a share of recent answers timed out or crashed, the verifier is broken,
  not the policy: the pool raises ``InputError``.

A worker is a fresh interpreter that imports the judged function and nothing else of the
parent. ``multiprocessing`` and libraries built on it would import the parent's main
module again, and so JAX. The hash seed is fixed and gmpy2 off, so workers agree.

A verdict depends on the problem and the answer alone, not on the memo, the order of a
batch or the number of workers. Time-outs are the exception: an answer that takes nearly
the whole deadline may time out on one host only, because hosts differ in load. So a
host judges only its share of a batch, and :mod:`passk_jax.rollouts.verify` gathers the
verdicts.
"""

import collections
import dataclasses
import selectors
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.runtime.cores import usable_cores
from passk_jax.verifiers.worker_process import WorkerProcess

TIMEOUT, CRASH, PARSE_FAILURE = 'timeouts', 'crashes', 'parse_failures'
# The least number of different answers over which the share of failures is taken.
_RECENT = 256
# Interpreter, sympy and math-verify take 1 s on an idle core.
_START_DEADLINE_S = 120.0
# One parent feeds all workers; with more, they would wait for it.
_MAX_WORKERS = 16

Pair = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The verifier's judgement of an answer.

    Attributes:
        correct: whether the function returned ``True``.
        failure: ``None``, or the key of ``Pool.failures`` that counts it.
        value: the function's result, as parsed from JSON.
    """

    correct: bool
    failure: str | None
    value: Any = dataclasses.field(default=None, compare=False)


class RecentFailures:
    """The last different answers, and which of them failed.

    A policy may repeat one answer for ever, which says nothing more of the verifier. So
    an answer counts once.

    Args:
        largest_share: the largest share of failures of a verifier that works.
    """

    def __init__(self, largest_share: float):
        self._largest_share = largest_share
        self._failed: dict[str, bool] = {}

    def add(self, answers: Iterable[str], failed: Iterable[bool]) -> None:
        """Adds a batch of answers; afterwards the last 256 count, or all of a batch."""
        batch: dict[str, bool] = {}
        for answer, has_failed in zip(answers, failed, strict=True):
            batch[answer] = batch.get(answer, False) or has_failed
        earlier = [x for x in self._failed.items() if x[0] not in batch]
        room = max(0, _RECENT - len(batch))
        self._failed = dict(earlier[max(0, len(earlier) - room) :]) | batch

    @property
    def counts(self) -> tuple[int, int]:
        """The number of failures, and of answers."""
        return sum(self._failed.values()), len(self._failed)

    @property
    def are_too_many(self) -> bool:
        """Whether the share of 256 answers, or of more, is too large."""
        failed, total = self.counts
        return failed > self._largest_share * max(total, _RECENT)


def num_workers() -> int:
    """Returns the number of workers for the cores of this process, at most 16."""
    return min(len(usable_cores()), _MAX_WORKERS)


class Pool:
    """Judges batches of answers with a function, in worker processes.

    Workers start when they are needed and live until :meth:`close`, which the end of
    the interpreter calls too. Any thread may call :meth:`judge`; batches take turns.

    Args:
        function: ``'module:name'`` of a function of problem and answer, two texts, that
            returns whether the answer is right, and raises if it cannot parse one; or
            ``'file.py:name@digest'``, a user's reward (``rewards.py``).
        workers: the most processes at a time.
        deadline_s: seconds for one answer, without the start of its worker.
        memory_bytes: address space of a worker.
        tasks_per_worker: answers after which a worker is replaced.
        max_failure_share: the largest share of time-outs and crashes among the last
            256 different answers, or in a batch of more. Parse failures do not count,
            because the policy causes them.
        memo_size: the number of judgements to remember; the oldest go first.

    Attributes:
        failures: how many judgements failed so far, by kind: ``'timeouts'``,
            ``'crashes'`` (also memory) and ``'parse_failures'`` (the function raised).
            An answer that is found in the memo is counted again.
        calls: the number of answers that went to a worker, not found in the memo.
    """

    def __init__(
        self,
        function: str,
        *,
        workers: int,
        deadline_s: float,
        memory_bytes: int,
        tasks_per_worker: int = 1000,
        max_failure_share: float = 0.5,
        memo_size: int = 2**17,
    ):
        if workers < 1 or tasks_per_worker < 1:
            raise InputError(f'{workers=} and {tasks_per_worker=} must be at least 1')
        if not (deadline_s > 0 and memory_bytes > 0):
            raise InputError(f'{deadline_s=} and {memory_bytes=} must be positive')
        self._function, self._memory_bytes = function, memory_bytes
        self._num_workers, self._deadline_s = workers, deadline_s
        self._tasks_per_worker, self._memo_size = tasks_per_worker, memo_size
        self._max_failure_share = max_failure_share
        self._recent = RecentFailures(max_failure_share)
        self._memo: dict[Pair, Judgement] = {}
        self._lock = threading.Lock()
        self._workers: list[WorkerProcess] = []
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)
        self.failures = dict.fromkeys((TIMEOUT, CRASH, PARSE_FAILURE), 0)
        self.calls = 0

    def __enter__(self) -> 'Pool':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills the workers and waits for their end; :meth:`judge` may start others."""
        with self._lock:
            _kill_all(self._workers)

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        """Judges a batch of (problem, answer), each different pair once.

        Raises:
            ValueError: workers cannot start, or too large a share of answers failed.
        """
        with self._lock:
            by_pair = {p: self._memo[p] for p in set(pairs) if p in self._memo}
            todo = [pair for pair in dict.fromkeys(pairs) if pair not in by_pair]
            try:
                for pair, judgement in self._run(todo):
                    by_pair[pair] = judgement
                    self._remember(pair, judgement)
            except BaseException:
                # A busy worker would reply during the next batch.
                _kill_all(self._workers)
                raise
            judgements = [by_pair[pair] for pair in pairs]
            self._count(pairs, judgements)
        return judgements

    def _remember(self, pair: Pair, judgement: Judgement) -> None:
        # The pair may not be the cause: anything may have killed the process.
        if judgement.failure == CRASH:
            return
        self._memo[pair] = judgement
        if len(self._memo) > self._memo_size:
            del self._memo[next(iter(self._memo))]

    def _run(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Judgement]]:
        """Yields the judgement on each pair, in any order."""
        queue = collections.deque(pairs)
        self.calls += len(pairs)
        while queue or any(worker.task for worker in self._workers):
            self._replace_workers(len(queue))
            for worker in self._workers:
                if queue and worker.idle:
                    worker.send(queue.popleft(), self._deadline_s)
            yield from self._wait()

    def _replace_workers(self, num_waiting: int) -> None:
        """Ends idle workers that are worn, dead or have spoken; starts others."""
        for worker in list(self._workers):
            worn = worker.num_tasks >= self._tasks_per_worker
            # A worker that died idle would fail an answer that it never saw. Code that
            # an earlier answer left behind might reply to a later one.
            if worker.idle and (worn or worker.has_ended or worker.has_spoken):
                self._workers.remove(worker)
                worker.kill()
        busy = sum(worker.task is not None for worker in self._workers)
        target = min(self._num_workers, busy + num_waiting)
        while len(self._workers) < target:
            self._workers.append(
                WorkerProcess(
                    self._function,
                    memory_bytes=self._memory_bytes,
                    start_deadline_s=_START_DEADLINE_S,
                )
            )

    def _wait(self) -> Iterator[tuple[Pair, Judgement]]:
        """Waits for a reply, an end or a deadline; yields the judgements."""
        active = [worker for worker in self._workers if not worker.idle]
        with selectors.DefaultSelector() as selector:
            for worker in active:
                selector.register(worker.replies.fileno(), selectors.EVENT_READ, worker)
            earliest = min(worker.deadline for worker in active)
            ready = selector.select(max(0, earliest - time.monotonic()))
        ready = [key.data for key, _ in ready]
        for worker in active:
            task, judgement = worker.task, None
            if worker in ready:
                judgement = self._receive(worker)
            elif time.monotonic() >= worker.deadline:
                self._end(worker, 'took too long to start')
                judgement = Judgement(False, TIMEOUT)
            if task and judgement:
                yield task, judgement

    def _receive(self, worker: WorkerProcess) -> Judgement | None:
        """Returns the judgement in a worker's reply.

        Returns ``None`` if the reply is incomplete or says that the worker has started.
        Raises ValueError if the worker could not start.
        """
        try:
            reply = worker.receive()
        except EOFError:
            self._end(worker, 'ended as it started')
            return Judgement(False, CRASH)
        if reply is None:
            return None
        outcome, value = reply
        if outcome == 'failed to start':
            raise InputError(f'a verifier process cannot import its function: {value}')
        failure = {'raised': PARSE_FAILURE, 'memory': CRASH}.get(outcome)
        return Judgement(value is True and not failure, failure, value)

    def _end(self, worker: WorkerProcess, event: str) -> None:
        """Kills a worker; raises ValueError if it had not even started."""
        self._workers.remove(worker)
        worker.kill()
        if not worker.started:
            raise InputError(
                f'a verifier process {event}: give it more memory than '
                f'{self._memory_bytes / 2**20:.0f} MiB, or fewer workers than '
                f'{self._num_workers}'
            )

    def _count(self, pairs: Sequence[Pair], judgements: Sequence[Judgement]) -> None:
        """Counts failures; raises ValueError if they are too many."""
        kinds = collections.Counter(j.failure for j in judgements if j.failure)
        for kind, number in kinds.items():
            self.failures[kind] += number
        failed = (j.failure in (TIMEOUT, CRASH) for j in judgements)
        self._recent.add((answer for _, answer in pairs), failed)
        if self._recent.are_too_many:
            number, total = self._recent.counts
            self._recent = RecentFailures(self._max_failure_share)
            raise InputError(
                f'the verifier failed on {number} of the last {total} different '
                f'answers, a share of more than {self._max_failure_share:g}; so far '
                f'{self.failures}, with {self._deadline_s:g} s and '
                f'{self._memory_bytes / 2**20:.0f} MiB for an answer'
            )


def _kill_all(workers: list[WorkerProcess]) -> None:
    while workers:
        workers.pop().kill()
