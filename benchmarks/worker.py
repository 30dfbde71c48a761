"""The process of a side of a comparison, which repeats a piece of work on request.

A side prepares itself, then iterates over :func:`repetitions`. The body of its loop is
measured, once for each line on the standard input. Whatever a library prints goes to
the standard error, so that it cannot be taken for an answer.

The peers' pythons import this module too, so it needs the standard library alone.
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
    """Counts CPU seconds of this process and its children: user and system."""
    process_seconds = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_seconds + children.ru_utime + children.ru_stime


def peak_megabytes() -> float:
    """Returns the largest resident size that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == 'darwin' else 2**10)


def repetitions(ready: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a report for each request, and answers with it at the next iteration.

    Args:
        ready: the first answer, before any request, as JSON values.

    Yields:
        A dict for more figures; ``cpu`` and ``wall`` seconds and the peak are added.
    """
    answers = os.fdopen(os.dup(1), 'w', buffering=1)
    os.dup2(2, 1)
    print(json.dumps(ready), file=answers)
    for _ in sys.stdin:
        report: dict[str, Any] = {}
        # After a compilation, garbage collection takes a quarter of a second.
        gc.collect()
        cpu, wall = cpu_seconds(), time.perf_counter()
        yield report
        report['cpu'] = cpu_seconds() - cpu
        report['wall'] = time.perf_counter() - wall
        report['peak_megabytes'] = peak_megabytes()
        print(json.dumps(report), file=answers)
