"""The phase that this process is in: for timings, a heartbeat and a watchdog.

A run is a sequence of phases, each of which lasts until the next one begins. So every
second belongs to one: it is spent in what the host does, or waits for, in that phase.
The first is ``start``: reading or making the first policy, or reading a checkpoint.
Each step of a warm start is another. The phases of a step of training are

    update      waiting for the update of the step before; later, dispatching its own
    wait        agreeing with the other hosts on whether to go on
    evaluate    only where an evaluation is due; no part of a step's time
    checkpoint  copying the state to the host, and waiting for the save before
    decode      reading a batch of problems and sampling responses
    verify      waiting for the verdicts that decoding has not hidden
    gather      exchanging verdicts with the other hosts
    estimate    advantages, and which problems have a signal
    write       metrics, rollouts and the like of the step before
"""

import contextlib
import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from absl import logging

from passk_jax.config import LogConfig
from passk_jax.runs.whereabouts import Whereabouts
from passk_jax.runtime import peers

EXIT_HUNG = 44
"""Exit status after a phase that went on for too long: start all processes again."""


class Phases(contextlib.AbstractContextManager):
    """The phases of a loop; inside, threads watch them.

    Args:
        heartbeat_seconds: how often a warning on process 0 says where every process is,
            while one has been in its phase for that long; 0: never.
        longest_seconds: how long a phase may last; 0: without limit. After that
            every process of the run writes the stacks of its threads to standard error,
            and all leave with :data:`EXIT_HUNG`. Native code that keeps the lock of the
            interpreter holds up the watchdog too.
        clock: returns seconds.
        cpu_clock: returns the seconds that all threads of this process have computed.
    """

    def __init__(
        self,
        *,
        longest_seconds: float,
        heartbeat_seconds: float = 0,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ):
        self._longest, self._heartbeat = longest_seconds, heartbeat_seconds
        self._clock, self._host = clock, socket.gethostname()
        self._whereabouts = Whereabouts(clock=clock)
        self._name, self._step = 'start', 0
        self._began = self._counted = clock()
        self._seconds: dict[str, float] = {}
        self._cpu_clock, self._cpu_counted = cpu_clock, cpu_clock()
        self._cpu_seconds: dict[str, float] = {}
        self._lock, self._is_over = threading.Lock(), threading.Event()

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        """Makes phases that are watched as the configuration says."""
        return cls(
            longest_seconds=config.watchdog_seconds,
            heartbeat_seconds=config.heartbeat_seconds,
        )

    def begin(self, name: str, step: int) -> None:
        """Ends the phase before and begins this one."""
        with self._lock:
            self._count()
            self._name, self._step, self._began = name, step, self._counted
        peers.tell([name, step, self._host])

    def slowest(self, step: int) -> tuple[int, float] | None:
        """On process 0, the one that the others waited for; see whereabouts.py."""
        return self._whereabouts.slowest(step)

    def take(self) -> Mapping[str, float]:
        """Seconds of each phase since this was last called; they add up to all."""
        with self._lock:
            self._count()
            seconds, self._seconds = self._seconds, {}
        return seconds

    def take_cpu(self) -> float:
        """CPU seconds of this process since this was last called, of all phases."""
        with self._lock:
            self._count()
            seconds, self._cpu_seconds = self._cpu_seconds, {}
        return sum(seconds.values())

    def drop(self, name: str) -> None:
        """Forgets the seconds of a phase so far."""
        with self._lock:
            self._count()
            self._seconds.pop(name, None)
            self._cpu_seconds.pop(name, None)

    def _count(self) -> None:
        now = self._clock()
        spent = self._seconds.get(self._name, 0.0) + now - self._counted
        self._seconds[self._name], self._counted = spent, now
        cpu = self._cpu_clock()
        spent = self._cpu_seconds.get(self._name, 0.0) + cpu - self._cpu_counted
        self._cpu_seconds[self._name], self._cpu_counted = spent, cpu

    def __enter__(self) -> Self:
        peers.listen_to(lambda process, news: self._whereabouts.note(process, *news))
        if self._longest:
            threading.Thread(target=self._watch, daemon=True).start()
        if self._heartbeat:
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_over.set()
        peers.listen_to(None)

    def _beat(self) -> None:
        while not self._is_over.wait(self._heartbeat):
            # Only process 0 hears of any process.
            if where := self._whereabouts.late(seconds=self._heartbeat):
                logging.warning('no news: %s', where)

    def _watch(self) -> None:
        while True:
            with self._lock:
                name, step, began = self._name, self._step, self._began
            remaining = self._longest - (self._clock() - began)
            if remaining <= 0:
                _end(f'{name} of step {step} has gone on for {self._longest:g} seconds')
            if self._is_over.wait(remaining):
                return


def _end(message: str) -> None:
    """Ends this process and the others of the run, each with its stacks."""
    sys.stdout.flush()
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    text = f'error: {message}\n'
    peers.fail(EXIT_HUNG, message, text=text, stacks=True)
    sys.stderr.write(text)
    sys.stderr.flush()
    os._exit(EXIT_HUNG)
