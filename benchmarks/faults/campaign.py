"""A fault campaign: runs struck at random moments must end as if they were not.

    python -m benchmarks.faults.campaign --faults=150 --seed=0 --workdir=runs/faults

``launch_tpu.sh loop`` trains ``tests/tiny.py`` on one process and on two, and restarts
what the faults end. Of each run several faults strike, one after another; then it ends
and is compared with a run that nothing struck: parameters, optimizer state, metrics,
rollouts and evaluations, bit for bit, and every step is there once.

The seed draws the faults. Each finished run is a line of ``faults.jsonl``; the
command goes on from there if it was killed, and an unfinished run begins anew. It
writes ``README.md`` after every run, and also where none is missing. A full disk needs
a small tmpfs, which only root can mount; where that fails, this kind is left out and
the page says so.
"""

import concurrent.futures
import datetime
import json
import pathlib
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from benchmarks.faults import page, striking
from benchmarks.faults.striking import LAST, MOMENTS, Fault, Run
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.runs import directory
from tests import tiny

# The most faults of a run: more would hardly leave it time between them.
_PER_RUN = 6
# This many of five faults strike runs of two processes.
_OF_TWO = 2
_DISK_BYTES = 256 << 20
_MOST_TRIES = 3
_END_SECONDS = 900


def main(
    *,
    faults: int = 150,
    seed: int = 0,
    workdir: str = 'runs/faults',
    results: str = 'benchmarks/faults',
    jobs: int = 2,
) -> int:
    """Runs what is missing of the campaign, ``jobs`` runs at a time, and its page."""
    if faults < 1:
        raise InputError(f'{faults=} must be at least 1')
    if jobs < 1:
        raise InputError(f'{jobs=} must be at least 1')
    place = pathlib.Path(workdir).absolute()
    place.mkdir(parents=True, exist_ok=True)
    record = pathlib.Path(results) / 'faults.jsonl'
    has_disk = can_mount(place)
    drawn = {p: draw(faults, seed, p) for p in (1, 2)}
    work = Work(record, drawn, seed=seed, has_disk=has_disk)
    references = {
        p: make_reference(place, p) for p, pending in work.pending().items() if pending
    }
    code = directory.git_state(tiny.ROOT) | {'seed': seed}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ends = [
            pool.submit(strike_runs, place, work, references, code) for _ in range(jobs)
        ]
        for end in ends:
            end.result()
    # Also where nothing was missing.
    write_page(record)
    rows = read(record)
    return 0 if all(row['equal'] for row in rows) else 1


def draw(faults: int, seed: int, processes: int) -> list[Fault]:
    """The faults of the runs of so many processes, in the order of their striking.

    More faults begin with the same ones.
    """
    of_two = faults * _OF_TWO // 5
    count = of_two if processes == 2 else faults - of_two
    draws = random.Random(f'{seed} {processes}')
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count:
        chosen += draws.sample(pairs := kinds_and_moments(processes), len(pairs))
    drawn = []
    for index, (kind, moment) in enumerate(chosen[:count]):
        generator = random.Random(f'{seed} {processes} {index}')
        fault = Fault(
            kind,
            moment,
            gap=generator.randrange(3),
            delay=round(generator.random() * longest_delay(moment), 4),
            process='all'
            if kind == 'kill all'
            else str(generator.randrange(processes)),
            seed=generator.randrange(2**31),
        )
        drawn.append(fault)
    return drawn


def kinds_and_moments(processes: int) -> list[tuple[str, str]]:
    """One round of kinds of faults, each with a moment; some kinds more often."""
    pairs = [(kind, m) for kind in ('kill', 'terminate') for m in MOMENTS]
    pairs += [('kill', m) for m in MOMENTS[2:]]
    damage = ('truncate', 'flip', 'damage commit')
    pairs += [(kind, 'step') for kind in damage] + [('flip', 'checkpoint')]
    pairs += [('pause', 'verification'), ('pause', 'checkpoint')]
    if processes > 1:
        pairs += [('kill all', m) for m in ('evaluation', 'checkpoint', 'step')]
    return [*pairs, ('full disk', 'step')]


def longest_delay(moment: str) -> float:
    """Seconds from seeing a moment within which it has not gone by."""
    return {'start': 2.0, 'warm start': 0.3, 'step': 0.5}.get(moment, 0.03)


class Work:
    """What is still to strike, for threads that each take a run's share of it.

    Args:
        record: JSON lines of finished runs, to append to.
        drawn: the faults by the number of processes.
        seed: of these draws; what others have struck counts for nothing.
        has_disk: whether disks can be filled; else such faults are left out.
    """

    def __init__(
        self,
        record: pathlib.Path,
        drawn: Mapping[int, Sequence[Fault]],
        *,
        seed: int,
        has_disk: bool,
    ):
        self._record, self._drawn = record, drawn
        self._seed, self._has_disk = seed, has_disk
        self._claimed: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def pending(self) -> dict[int, list[int]]:
        """The indices of the faults that nobody has claimed, by number of processes."""
        rows = [row for row in read(self._record) if row['seed'] == self._seed]
        return {
            p: [
                i
                for i in still_to_strike(rows, p, drawn)
                if (p, i) not in self._claimed
                and (self._has_disk or drawn[i].kind != 'full disk')
            ]
            for p, drawn in self._drawn.items()
        }

    def take(self) -> tuple[int, list[tuple[int, Fault]]] | None:
        """A number of processes and the faults of a run; ``None`` if none is left."""
        with self._lock:
            pending = self.pending()
            processes = max(pending, key=lambda p: len(pending[p]))
            drawn, chosen = self._drawn[processes], pending[processes][:_PER_RUN]
            self._claimed |= {(processes, index) for index in chosen}
        # There is a warm start at the beginning only.
        first = ('start', 'warm start')
        chosen.sort(key=lambda index: drawn[index].moment not in first)
        return (processes, [(i, drawn[i]) for i in chosen]) if chosen else None

    def finish(self, row: dict[str, Any]) -> None:
        """Writes a run into the record; what missed may be taken again."""
        with self._lock:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            text = self._record.read_text() if self._record.exists() else '\n'
            # Half a line, of a process that was killed, ends here.
            ended = '' if text.endswith('\n') else '\n'
            with self._record.open('a') as stream:
                stream.write(f'{ended}{json.dumps(row)}\n')
            write_page(self._record)
            self._claimed -= {(row['processes'], index) for index in row['missed']}


def write_page(record: pathlib.Path) -> None:
    """Writes ``README.md`` beside the record, if that has a row."""
    if rows := read(record):
        atomic_write_text(record.with_name('README.md'), page.page(rows))


def strike_runs(
    place: pathlib.Path,
    work: Work,
    references: Mapping[int, pathlib.Path],
    code: dict[str, Any],
) -> None:
    """Runs until each fault has struck, or has missed too often.

    Args:
        place: of all runs.
        work: shared by the threads.
        references: the run directories that nothing struck, by number of processes.
        code: revision and seed, for the record.
    """
    while (work_item := work.take()) is not None:
        processes, chosen = work_item
        run, row = run_one(place, processes, chosen)
        changed = differences(run.workdir, references[processes])
        work.finish(row | {'equal': not changed, 'differences': changed, **code})
        if not changed:
            unmount(run)
            shutil.rmtree(run.place)
        logging.info(
            '%s: %d faults, %s', run.place.name, len(row['struck']), changed or 'equal'
        )


def still_to_strike(
    rows: Iterable[dict[str, Any]], processes: int, drawn: Sequence[Fault]
) -> list[int]:
    """The indices of faults that have not struck; those that missed come last."""
    tries = dict.fromkeys(range(len(drawn)), 0)
    for row in rows:
        if row['processes'] == processes:
            for fault in row['struck']:
                tries.pop(fault['index'], None)
            for index in row['missed']:
                if index in tries:
                    tries[index] += 1
    pending = [index for index, count in tries.items() if count < _MOST_TRIES]
    return sorted(pending, key=lambda index: tries[index])


def make_reference(place: pathlib.Path, processes: int) -> pathlib.Path:
    """The run of so many processes that nothing strikes."""
    folder = place / f'reference_{processes}'
    if not (folder / 'done').exists():
        run = Run(folder, processes, place / 'programs')
        run.clear()
        try:
            run.start()
            wait_for_end(run)
        finally:
            run.stop()
        if run.restarts() or run.ended() or differences(run.workdir, run.workdir):
            raise InputError(f'the run that nothing strikes failed: see {run.logs}')
        (folder / 'done').touch()
    return folder / 'run'


def run_one(
    place: pathlib.Path,
    processes: int,
    chosen: Sequence[tuple[int, Fault]],
) -> tuple[Run, dict[str, Any]]:
    """One run under faults, to its end, and its row of the record."""
    name = f'run_{processes}_{min(index for index, _ in chosen):03d}'
    folder = place / name
    has_disk = any(fault.kind == 'full disk' for _, fault in chosen)
    workdir = folder / ('disk/run' if has_disk else 'run')
    run = Run(folder, processes, place / 'programs', workdir)
    run.stop()
    unmount(run)
    run.clear()
    if has_disk:
        (folder / 'disk').mkdir()
        mount(folder / 'disk')
    start, step, struck, missed = time.monotonic(), 0, [], []
    try:
        run.start()
        for index, fault in chosen:
            step = min(step + fault.gap, LAST - 1)
            where = striking.strike(run, fault, step)
            if where is None:
                missed.append(index)
                continue
            step = max(step, where['step'])
            description = {'index': index, 'kind': fault.kind, 'moment': fault.moment}
            struck.append(description | {'process': fault.process} | where)
        wait_for_end(run)
    finally:
        run.stop()
    row = {
        'run': name,
        'processes': processes,
        'struck': struck,
        'missed': missed,
        'restarts': run.restarts(),
        'computed_again': run.steps_computed() - LAST,
        'status': run.ended(),
        'seconds': round(time.monotonic() - start),
        'date': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
    }
    return run, row


def wait_for_end(run: Run) -> None:
    """Until the loop ends; TimeoutError if it hangs."""
    until = time.monotonic() + _END_SECONDS
    while run.ended() is None:
        if time.monotonic() > until:
            raise TimeoutError(f'{run.place} does not end')
        time.sleep(0.1)


def differences(
    run: pathlib.Path, reference: pathlib.Path, *, last: int = LAST
) -> list[str]:
    """What a finished run of ``last`` steps has otherwise than the reference."""
    if not (run / 'checkpoints' / str(last) / 'commit.json').exists():
        return [f'no checkpoint {last}']
    lines = []
    steps = [row['step'] for row in tiny.metrics(run, 'train')]
    if steps != [*range(last)]:
        lines.append(f'steps {steps}')
    files, reference_files = tiny.contents(run), tiny.contents(reference)
    lines += [
        name
        for name in sorted(files.keys() | reference_files.keys())
        if files.get(name) != reference_files.get(name)
    ]
    arrays, reference_arrays = (
        {name: x.tobytes() for name, x in tiny.saved_arrays(directory, last).items()}
        for directory in (run, reference)
    )
    lines += [
        name
        for name in sorted(arrays.keys() | reference_arrays.keys())
        if arrays.get(name) != reference_arrays.get(name)
    ]
    return lines


def read(record: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of the record; a last line that a kill cut short is left out."""
    rows = []
    for line in record.read_text().splitlines() if record.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            logging.warning('%s: half a line is left out', record)
    return rows


def mount(path: pathlib.Path) -> None:
    """A small disk."""
    size = f'size={_DISK_BYTES}'
    command = ['mount', '-t', 'tmpfs', '-o', size, 'tmpfs', str(path)]
    subprocess.run(command, check=True, capture_output=True)


def unmount(run: Run) -> None:
    """Of a run on a small disk."""
    if (disk := run.place / 'disk').is_mount():
        subprocess.run(['umount', str(disk)], check=True, capture_output=True)


def can_mount(place: pathlib.Path) -> bool:
    """Whether there can be a small disk here."""
    probe = place / 'probe'
    probe.mkdir(exist_ok=True)
    try:
        mount(probe)
        subprocess.run(['umount', str(probe)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        logging.warning('no tmpfs can be mounted, so no disk is filled: %s', error)
        return False
    return True


if __name__ == '__main__':
    cli.run(main)
