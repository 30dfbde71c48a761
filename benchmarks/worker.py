"""One side of a comparison: a process of its own that repeats a piece of work.

A side prepares itself, then iterates over :func:`repetitions`; the body of its loop is
what is measured, once for each line on the standard input. What it prints goes to the
standard error, so that a library's chatter is never taken for an answer.

This file is read under the peers' own pythons: standard library alone.
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any


def cpu_seconds() -> float:
    """CPU seconds of this process and its children, all threads, user and system."""
    own = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime


def peak_megabytes() -> float:
    """The largest resident size this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == 'darwin' else 2**10)


def repetitions(ready: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields once a request, and answers it when asked for the next.

    Args:
        ready: what the asking side wants to know before the first, as JSON values.

    Yields:
        A dict to put more into; ``cpu`` and ``wall`` seconds are added.
    """
    answers = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    print(json.dumps(ready), file=answers)
    for _ in sys.stdin:
        report: dict[str, Any] = {}
        # A collection takes a quarter of a second after a program was compiled.
        gc.collect()
        cpu, wall = cpu_seconds(), time.perf_counter()
        yield report
        report['cpu'] = cpu_seconds() - cpu
        report['wall'] = time.perf_counter() - wall
        report['peak_megabytes'] = peak_megabytes()
        print(json.dumps(report), file=answers)
