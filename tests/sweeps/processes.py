"""Processes that tests kill, and their children."""

import os
import pathlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess


def children(pid: int) -> list[int]:
    """The child processes; none if the process is gone."""
    try:
        text = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in text.split()]


def wait_for_children(pid: int) -> list[int]:
    """Waits until there is one, or the process has ended."""
    while is_running(pid):
        if pids := children(pid):
            return pids
        time.sleep(0.002)
    return []


def is_running(pid: int) -> bool:
    """Whether the process is there, and not only its exit status."""
    try:
        state = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(') ')[2][0] != 'Z'


def kill(pid: int) -> bool:
    """Kills it; False if it was gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def exit_status(process: BaseProcess | subprocess.Popen) -> int | None:
    """``None``: it is running."""
    if isinstance(process, subprocess.Popen):
        return process.poll()
    return process.exitcode


def wait(process: BaseProcess | subprocess.Popen, seconds: float | None = None) -> None:
    """Waits for the end of a process."""
    if isinstance(process, subprocess.Popen):
        process.wait(seconds)
    else:
        process.join(seconds)


def until_done(
    start: Callable[[], BaseProcess | subprocess.Popen],
    *,
    kills: int,
    pause: float,
    seconds: float,
) -> tuple[int, int]:
    """Starts a sweep until it is done; kills it, a run of it, or both.

    Args:
        start: starts it.
        kills: how often at most.
        pause: the longest time between two, in seconds.
        seconds: the longest time that it may take when nothing is killed any more.

    Returns:
        The exit status, and how often something was killed.
    """
    done = 0
    while True:
        process = start()
        while exit_status(process) is None and done < kills:
            runs = wait_for_children(process.pid)
            time.sleep(random.uniform(0, pause))
            who = random.choice([{'sweep'}, {'run'}, {'sweep', 'run'}])
            hit = 'sweep' in who and exit_status(process) is None and kill(process.pid)
            if 'run' in who and runs:
                hit |= kill(random.choice(runs))
            done += hit
            if 'sweep' in who:
                wait(process)
        wait(process, seconds)
        # 1: a run was killed; it is not started again by the same sweep.
        if exit_status(process) not in (1, -signal.SIGKILL):
            return exit_status(process), done
