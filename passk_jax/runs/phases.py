"""Tracks the phase of this process, for timings, a heartbeat and a watchdog.

A run is a sequence of phases; each lasts until the next one begins. So every second of
the host, working or waiting, belongs to one phase. The first is ``start``: reading or
making the first policy, or reading a checkpoint. Each step of a warm start is another.
The phases of a training step are

    update      waiting for the previous step's update; later, dispatching its own
    wait        agreeing with the other hosts on whether to go on
    evaluate    evaluating, where due; not counted in the step's time
    checkpoint  copying the state to the host, and waiting for the previous save
    decode      reading a batch of problems and sampling responses
    verify      waiting for verdicts that are not ready when decoding ends
    gather      exchanging verdicts with the other hosts
    estimate    computing advantages, and which problems have a signal
    write       writing the previous step's metrics, rollouts and timings
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
"""Exit status after a phase lasted too long: start all processes again."""


class Phases(contextlib.AbstractContextManager):
    """The phases of a loop, a context manager whose threads watch them.

    Args:
        heartbeat_seconds: while a process stays in a phase longer than this, process 0
            warns so often where every process is; 0: never.
        longest_seconds: how long a phase may last; 0: without limit. After that, every
            process of the run writes the stacks of its threads to standard error and
            exits with :data:`EXIT_HUNG`. Native code that holds the interpreter's lock
            delays the watchdog.
        clock: returns seconds.
        cpu_clock: returns the CPU seconds of all threads of this process.
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
        """Makes phases with the heartbeat and the watchdog of the configuration."""
        return cls(
            longest_seconds=config.watchdog_seconds,
            heartbeat_seconds=config.heartbeat_seconds,
        )

    def begin(self, name: str, step: int) -> None:
        """Ends the current phase and begins this one."""
        with self._lock:
            self._count()
            self._name, self._step, self._began = name, step, self._counted
        peers.tell([name, step, self._host])

    def slowest(self, step: int) -> tuple[int, float] | None:
        """Returns the slowest process on process 0; see :meth:`Whereabouts.slowest`."""
        return self._whereabouts.slowest(step)

    def take(self) -> tuple[Mapping[str, float], float]:
        """Returns each phase's seconds and all CPU seconds since the last call."""
        with self._lock:
            self._count()
            seconds, self._seconds = self._seconds, {}
            cpu_seconds, self._cpu_seconds = self._cpu_seconds, {}
        return seconds, sum(cpu_seconds.values())

    def drop(self, name: str) -> None:
        """Drops the seconds of a phase so far."""
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
            # Only process 0 gets news of the processes.
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
    """Ends all processes of the run; each prints the stacks of its threads."""
    sys.stdout.flush()
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    text = f'error: {message}\n'
    peers.fail(EXIT_HUNG, message, text=text, stacks=True)
    sys.stderr.write(text)
    sys.stderr.flush()
    os._exit(EXIT_HUNG)
