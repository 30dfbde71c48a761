"""One run under faults: starts it by launch_tpu.sh loop, waits for moments, strikes.

A moment is read from what the run itself writes: metrics, checkpoints, its log and the
marks of ``announced_train.py``.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAST = 16
# Steps between evaluations.
EVERY = 4
WARM_START_STEPS = 20
SETTINGS = {
    'mesh.data': -1,
    'mesh.fsdp': 1,
    'init.warm_start.steps': WARM_START_STEPS,
    'train.steps': LAST,
    'eval.every': EVERY,
    'eval.final_split': '',
    'checkpoint.every': 2,
    'checkpoint.keep': 3,
    'log.rollouts_every': 1,
}
# The program that each process starts as; the launcher turns the cache off for two.
_PYTHON = """#!/usr/bin/env bash
# In place of: PYTHON -m passk_jax.train FLAGS
export FAULTS_MARKS={marks} JAX_ENABLE_COMPILATION_CACHE=true
export JAX_COMPILATION_CACHE_DIR={cache} JAX_COMPILATION_CACHE_MAX_SIZE=2000000000
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
shift 2
exec {python} -m benchmarks.faults.announced_train "$@"
"""
_POLL_SECONDS = 0.002
_MOMENT_SECONDS = 600
_RESUMED = re.compile(r'resuming at step (\d+)')


@dataclasses.dataclass(frozen=True)
class Fault:
    """What strikes a run, and when.

    Attributes:
        kind: one of :data:`KINDS`.
        moment: one of :data:`MOMENTS`.
        gap: steps after the fault before it, at least.
        delay: seconds after the moment is seen.
        process: the index of the one that is struck; ``all``: both.
        seed: of the byte that is flipped, and the like.
    """

    kind: str
    moment: str
    gap: int
    delay: float
    process: str
    seed: int


class Run:
    """A run directory, the loop that trains it, and the marks of its processes.

    Args:
        place: holds logs, marks and, unless ``workdir`` says otherwise, the run.
        processes: 1 or 2.
        cache: of compiled programs.
        workdir: of the run.
    """

    def __init__(
        self,
        place: pathlib.Path,
        processes: int,
        cache: pathlib.Path,
        workdir: pathlib.Path | None = None,
    ):
        self.place, self.processes = place, processes
        self.workdir = workdir or place / 'run'
        self.marks, self.logs = place / 'marks', place / 'logs'
        self.starts = 0
        self._cache = cache
        self.loop: subprocess.Popen | None = None

    def clear(self) -> None:
        """Ends and removes what a campaign that was killed has left of this run."""
        self.stop()
        if self.place.exists():
            shutil.rmtree(self.place)
        for folder in (self.marks, self.logs, self._cache):
            folder.mkdir(parents=True, exist_ok=True)
        python = self.place / 'python'
        python.write_text(
            _PYTHON.format(marks=self.marks, cache=self._cache, python=sys.executable)
        )
        python.chmod(0o755)

    def start(self) -> None:
        """Gives the command of a person; the loop restarts what fails."""
        settings = (f'--config.{key}={value}' for key, value in SETTINGS.items())
        command = [
            *('./launch_tpu.sh', 'loop', '--backend=local', '--backoff=0'),
            *(f'--processes={self.processes}', '--devices-per-process=1'),
            *('--max-failures=1000', f'--name={self.place.name.replace("_", "-")}'),
            *(f'--logs={self.logs}', f'--python={self.place}/python', '--'),
            *('--config=tests/tiny.py', *settings, f'--workdir={self.workdir}'),
        ]
        environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
        with (self.place / 'loop.log').open('a') as log:
            self.loop = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1

    def ended(self) -> int | None:
        """The loop's exit status; ``None`` while it goes on."""
        return self.loop.poll()

    def trainers(self) -> dict[int, int]:
        """The process number of each trainer that runs, by its index."""
        processes = {}
        flag = f'--workdir={self.workdir}'
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode(errors='replace').split('\0')
                if flag in words and 'benchmarks.faults.announced_train' in words:
                    hosts = next((w for w in words if w.startswith('--hosts=')), ',0')
                    processes[int(hosts.rpartition(',')[2])] = int(path.parent.name)
        return processes

    def steps_done(self) -> int:
        """The number of steps in the metrics."""
        return sum(row['split'] == 'train' for row in self._rows())

    def steps_computed(self) -> int:
        """The number of steps that process 0 has verified, repeats included."""
        with contextlib.suppress(OSError):
            return len((self.marks / 'steps-0').read_text().splitlines())
        return 0

    def log(self) -> str:
        """What the newest process 0 has said."""
        with contextlib.suppress(OSError):
            return (self.logs / 'worker-0.log').read_text(errors='replace')
        return ''

    def restarts(self) -> int:
        """How often the loop, or a person, started it again."""
        log = (self.place / 'loop.log').read_text(errors='replace')
        return log.count('; again in') + self.starts - 1

    def at(self, moment: str, step: int) -> bool:
        """Whether the run is there now, not before ``step``."""
        if moment == 'warm start':
            committed = (self.workdir / 'warm_start' / '0' / 'commit.json').exists()
            return not committed and 'warm start 1/' in self.log()
        if moment == 'start':
            return 'devices:' in self.log() and not _RESUMED.search(self.log())
        if moment == 'checkpoint':
            return any(path >= step for path in self.unfinished())
        done = self.steps_done()
        if done < step:
            return False
        if moment == 'verification':
            return any(self.marks.glob('verifying-*'))
        if moment == 'evaluation':
            # The metrics of the step before it are there, and not yet its own.
            rows = self._rows()
            return bool(rows and rows[-1]['split'] == 'train' and not done % EVERY)
        return bool(done)

    def unfinished(self) -> list[int]:
        """The steps whose checkpoint is being written."""
        paths = (self.workdir / 'checkpoints').glob('[0-9]*')
        return [
            int(path.name)
            for path in paths
            if path.name.isdigit() and not (path / 'commit.json').exists()
        ]

    def newest(self) -> pathlib.Path | None:
        """The newest complete checkpoint if there is an older one, too."""
        paths = (self.workdir / 'checkpoints').glob('[0-9]*/commit.json')
        steps = sorted(int(p.parent.name) for p in paths if p.parent.name.isdigit())
        if len(steps) < 2:
            return None
        return self.workdir / 'checkpoints' / str(steps[-1])

    def stop(self) -> None:
        """Ends everything that this started."""
        # It leads a session of its own, as does that of a campaign that was killed.
        with contextlib.suppress(OSError, ValueError):
            launcher = int((self.logs / 'launcher.pid').read_text())
            words = pathlib.Path(f'/proc/{launcher}/cmdline').read_text().split('\0')
            if f'--logs={self.logs}' in words:
                os.killpg(launcher, signal.SIGKILL)
        if self.loop is not None:
            self.loop.wait()
        for process in self.trainers().values():
            _signal(process, signal.SIGKILL)

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        with contextlib.suppress(OSError, ValueError):
            # The last line may be half written.
            for line in (self.workdir / 'metrics.jsonl').read_text().splitlines():
                rows.append(json.loads(line))
        return rows


def strike(run: Run, fault: Fault, step: int) -> dict[str, Any] | None:
    """Waits for the moment and strikes; ``None`` if the run ended before it.

    Returns where it struck: ``step`` (done, by the metrics), ``half_written``
    (checkpoints) and what the kind adds.
    """
    until = time.monotonic() + _MOMENT_SECONDS
    while True:
        if run.ended() is not None:
            return None
        trainers = run.trainers()
        if len(trainers) == run.processes and _moment_comes(run, fault, step):
            break
        if time.monotonic() > until:
            raise TimeoutError(f'{run.place}: {fault} never came')
        time.sleep(0.05)
    time.sleep(fault.delay)
    struck = _chosen(trainers, fault)
    where = {'step': run.steps_done()}
    extra = KINDS[fault.kind](run, struck, fault)
    if extra is None:
        return None
    where['half_written'] = run.unfinished()
    if fault.kind not in ('pause', 'full disk'):
        # The next fault is for the processes that are started after these.
        _gone([*trainers.values()])
    return where | extra


def _moment_comes(run: Run, fault: Fault, step: int) -> bool:
    """Polls closely for a while; the caller looks for the processes between."""
    if fault.kind in ('truncate', 'flip', 'damage commit') and run.newest() is None:
        return False
    for _ in range(50):
        if run.at(fault.moment, step):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _chosen(trainers: dict[int, int], fault: Fault) -> list[int]:
    if fault.process == 'all':
        return [*trainers.values()]
    return [trainers[int(fault.process)]]


def _signal(process: int, number: int) -> bool:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def _gone(processes: list[int]) -> None:
    while any(
        pathlib.Path(f'/proc/{p}/cmdline').exists() and _lives(p) for p in processes
    ):
        time.sleep(_POLL_SECONDS)


def _lives(process: int) -> bool:
    with contextlib.suppress(OSError):
        stat = pathlib.Path(f'/proc/{process}/stat').read_text()
        return stat.rpartition(')')[2].split()[0] != 'Z'
    return False


def _send(run: Run, processes: list[int], number: int) -> dict[str, Any] | None:
    sent = [_signal(process, number) for process in processes]
    return {} if any(sent) else None


def kill(run: Run, processes: list[int], fault: Fault) -> dict[str, Any] | None:
    """SIGKILL."""
    if _send(run, processes, signal.SIGKILL) is None:
        return None
    _gone(processes)
    return {}


def terminate(run: Run, processes: list[int], fault: Fault) -> dict[str, Any] | None:
    """SIGTERM: it is to save, and to exit with 42."""
    return _send(run, processes, signal.SIGTERM)


def pause(run: Run, processes: list[int], fault: Fault) -> dict[str, Any] | None:
    """SIGSTOP, a second or so, SIGCONT."""
    if _send(run, processes, signal.SIGSTOP) is None:
        return None
    seconds = 0.5 + random.Random(fault.seed).random() * 2
    time.sleep(seconds)
    _send(run, processes, signal.SIGCONT)
    return {'seconds': round(seconds, 2)}


def damage(run: Run, processes: list[int], fault: Fault) -> dict[str, Any] | None:
    """All are killed, and the newest checkpoint is changed before they start again."""
    # The loop waits meanwhile.
    run.loop.send_signal(signal.SIGSTOP)
    try:
        trainers = [*run.trainers().values()]
        if _send(run, trainers, signal.SIGKILL) is None:
            return None
        _gone(trainers)
        newest = run.newest()
        if newest is None:
            return {'damaged': None}
        path = harm(newest, fault.kind, random.Random(fault.seed))
        return {'damaged': str(path.relative_to(run.workdir))}
    finally:
        run.loop.send_signal(signal.SIGCONT)


def harm(checkpoint: pathlib.Path, kind: str, draws: random.Random) -> pathlib.Path:
    """Truncates or flips a file of a checkpoint; returns which.

    A truncated file loses half or more. A flipped one has a bit of each 64 bytes
    changed, because a file has bytes that nobody reads.
    """
    if kind == 'damage commit':
        path = checkpoint / 'commit.json'
    else:
        files = [
            p for p in checkpoint.rglob('*') if p.is_file() and p.parent.name == 'd'
        ]
        files = files or [p for p in checkpoint.rglob('*') if p.is_file()]
        path = draws.choice(sorted(p for p in files if p.name != 'commit.json'))
    content = bytearray(path.read_bytes())
    if kind == 'truncate':
        content = content[: draws.randrange(len(content) // 2 + 1)]
    else:
        for start in range(0, len(content), 64):
            at = min(start + draws.randrange(64), len(content) - 1)
            content[at] ^= 1 << draws.randrange(8)
    path.write_bytes(bytes(content))
    return path


def fill(run: Run, processes: list[int], fault: Fault) -> dict[str, Any] | None:
    """No byte is left on the disk until the run fails for it; then a person helps."""
    ballast = run.workdir.parent / 'ballast'
    try:
        with ballast.open('wb', buffering=0) as stream:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while stream.write(bytes(size)) == size:
                        pass
        until = time.monotonic() + _MOMENT_SECONDS
        while run.ended() is None:
            if time.monotonic() > until:
                raise TimeoutError(f'{run.place} does not notice that its disk is full')
            time.sleep(0.1)
    finally:
        ballast.unlink(missing_ok=True)
    status = run.ended()
    if status:
        run.start()
    return {'status': status}


KINDS = {
    'kill': kill,
    'kill all': kill,
    'terminate': terminate,
    'pause': pause,
    'truncate': damage,
    'flip': damage,
    'damage commit': damage,
    'full disk': fill,
}
KILLS = frozenset(KINDS) - {'pause', 'full disk'}
MOMENTS = ('start', 'warm start', 'evaluation', 'checkpoint', 'verification', 'step')
