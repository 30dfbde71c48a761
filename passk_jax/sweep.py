"""Runs the arms and seeds of a sweep file, and makes its table and figure.

    python -m passk_jax.sweep --config=experiments/sweeps/passk_vs_pass1.py

The file lists arms and seeds (see ``sweeps/declarations.py``). Each run is a
``python -m passk_jax.train`` with its own directory and cores; on a machine with an
accelerator give ``--jobs=1``. Kill the sweep or its runs at any time and repeat the
command: it resumes them. It retries a failed run only when the command is repeated.

``<results>/<name>.jsonl.gz`` has a row for each evaluation of every finished run
(``--csv`` also writes ``.csv``). When all runs are done, ``.md`` has paired differences
and ``.png`` is the figure. A run that has rows is not repeated. So the same command
rebuilds table and figure on a machine with only the results, or adds a seed to them.
``--seeds`` selects the seeds to run. Table and figure also have every other seed whose
runs are all done, whether the file lists it or only the results have it.
``--arms=pass_at_1,maxrl`` runs only these arms, and prints their table instead of
writing one; without the sweep's baseline, the first of them is the baseline.

For a cluster, ``--dry_run`` prints the command of each missing run, one per line; a
later stage follows the run that it continues. Each command makes its warm start, which
the runs of a sweep otherwise share. Exit status 1: a run is not done, or its results
could not be written; 42: a signal stopped the sweep, and the same command goes on.
"""

import dataclasses
import fnmatch
import pathlib
import sys
from collections.abc import Mapping, Sequence

from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.files import (
    atomic_write_bytes,
    atomic_write_text,
    check_writable,
)
from passk_jax.runs.preemption import EXIT_PREEMPTED
from passk_jax.runtime.cores import usable_cores
from passk_jax.sweeps import directories, figure, progress, results
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.declarations import Sweep, check_seeds
from passk_jax.sweeps.opening import Job, open_runs
from passk_jax.sweeps.running import Runner, split_cores
from passk_jax.sweeps.saved_results import SavedResults

# A message names at most this many runs.
_MOST_NAMES = 12


def main(
    *,
    config: str,
    seeds: str | None = None,
    arms: str | None = None,
    only: str = '*',
    jobs: int | None = None,
    workdir: str | None = None,
    results: str = 'experiments/results',
    dry_run: bool = False,
    list: bool = False,
    csv: bool = False,
) -> int:
    """Runs what is missing; writes table and figure once all runs are done."""
    sweep = config_file.call(config, 'get_sweep', returns=Sweep)
    slots = split_cores(usable_cores(), jobs)
    root = pathlib.Path(workdir or f'runs/{sweep.name}')
    part = sweep.select(arms.split(',')) if arms else sweep
    run_seeds = _seeds(seeds) if seeds else sweep.seeds
    runs = runs_of(sweep, root, sorted({*run_seeds, *sweep.seeds}))
    out = pathlib.Path(results)
    store = SavedResults(out, sweep.name)
    opened = store.attach(open_runs(runs, sweep))
    chosen = _select_arms(part, [job for job in opened if job.run.seed in run_seeds])
    chosen = _chosen(chosen, only)
    if dry_run:
        _print_commands(chosen, store.paths[0])
        return 0
    if list:
        print(_listed(chosen))
        return 0
    paths = _written(sweep, out, store, csv=csv)
    # Report errors in other seeds' directories now, not at the end.
    _open_other_seeds(sweep, root, store, opened)
    display = progress.Display()
    _keep(store, opened, display)
    states = Runner(
        chosen,
        other_jobs=[job for job in opened if job not in chosen],
        slots=slots,
        display=display,
        when_done=lambda job: _say_what_is_undefined(
            sweep, job, display, lost=_keep(store, opened, display, of=[job])
        ),
    ).run()
    # Another sweep may have added results of runs that have no directory here.
    opened = store.attach(opened)
    if lost := _keep(store, opened, display):
        print(f'no table is written: the results of these could not be kept: {lost}')
        return 1
    # The lock keeps other sweeps from adding results while the table is made.
    with store.writing(paths):
        opened = store.attach(opened)
        every = opened + _open_other_seeds(sweep, root, store, opened)
        to = out if part is sweep else None
        table = _write_table(part, _select_arms(part, every), to, run_seeds=run_seeds)
        if csv:
            store.write_csv()
    print(table, end='')
    return _exit_status(states)


def _written(
    sweep: Sweep, out: pathlib.Path, store: SavedResults, *, csv: bool
) -> list[pathlib.Path]:
    """Lists the files that the sweep writes; makes their directory.

    Raises OSError if one cannot be written, before hours of training.
    """
    out.mkdir(parents=True, exist_ok=True)
    paths = [*store.paths, *_table_and_figure(sweep, out)]
    paths += [store.csv_path] if csv else []
    for path in paths:
        check_writable(path)
    return paths


def _select_arms(sweep: Sweep, jobs: Sequence[Job]) -> list[Job]:
    names = {arm.name for arm in sweep.arms}
    return [job for job in jobs if job.run.arm in names]


def _chosen(jobs: Sequence[Job], only: str) -> list[Job]:
    """Returns the runs whose names match the pattern; InputError if none does."""
    if chosen := [job for job in jobs if fnmatch.fnmatchcase(job.name, only)]:
        return chosen
    some = [*(job.name for job in jobs[:_MOST_NAMES])]
    some += ['...'] if len(jobs) > _MOST_NAMES else []
    raise InputError(
        f'{only=} is a pattern that matches none of the {len(jobs)} runs: {some}'
    )


def _open_other_seeds(
    sweep: Sweep, root: pathlib.Path, store: SavedResults, jobs: Sequence[Job]
) -> list[Job]:
    """Opens the runs of seeds that have results and are not among ``jobs``."""
    seeds = store.seeds() - {job.run.seed for job in jobs}
    return store.attach(open_runs(runs_of(sweep, root, sorted(seeds)), sweep))


def _keep(
    store: SavedResults,
    jobs: Sequence[Job],
    display: progress.Display,
    *,
    of: Sequence[Job] | None = None,
) -> list[str]:
    """Adds the results of finished runs; those of a run's stages are added together.

    Args:
        store: the results.
        jobs: the runs of the sweep.
        display: shows errors.
        of: the runs to add; ``None`` adds all.

    Returns:
        The names of runs whose results could not be added.
    """
    lost = []
    for job in [job for job in jobs if not job.run.previous] if of is None else of:
        try:
            store.add(jobs, of=job)
        except (OSError, ValueError) as error:
            display.say(f'{job.name}: its results could not be kept: {error}')
            lost.append(job.name)
    return lost


def _say_what_is_undefined(
    sweep: Sweep, job: Job, display: progress.Display, *, lost: Sequence[str]
) -> None:
    """Reports measures that no evaluation has; they may be misspelt."""
    rows = directories.evaluations(job)
    absent = [name for name in sweep.measures if all(name not in row for row in rows)]
    if absent and not lost:
        names = sorted({name for row in rows for name in row if '/' in name})
        display.say(f'{job.name}: no evaluation has {absent}; of categories: {names}')


def _seeds(text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(int(part) for part in text.split(','))
    except ValueError:
        message = f'seeds={text!r} must be whole numbers, for example 0,1,2'
        raise InputError(message) from None
    check_seeds(seeds)
    return seeds


def _listed(jobs: Sequence[Job]) -> str:
    width = max(len(job.name) for job in jobs)
    lines = []
    for job in jobs:
        state = 'done' if directories.is_done(job) else ''
        by_rows = ', by its kept results' if _is_done_by_rows(job) else ''
        lines.append(progress.line(job, state, width=width) + by_rows)
    return '\n'.join(lines)


def _print_commands(jobs: Sequence[Job], rows: pathlib.Path) -> None:
    """Prints the commands of the missing runs, or says that there are none."""
    missing = [job for job in jobs if not directories.is_done(job)]
    for job in missing:
        print(job.run.command())
    if not missing:
        print(_nothing_missing(jobs, rows), file=sys.stderr)


def _nothing_missing(jobs: Sequence[Job], rows: pathlib.Path) -> str:
    """Makes the message of a dry run whose runs are all done."""
    sentence = f'nothing is missing: all {len(jobs)} runs are done'
    if not (by_rows := sum(map(_is_done_by_rows, jobs))):
        return sentence
    return (
        f'{sentence}, {by_rows} by their rows in {rows}; --results=DIR, another '
        'directory, makes these anew'
    )


def _is_done_by_rows(job: Job) -> bool:
    """Returns whether the run has results, but no complete directory."""
    return bool(job.saved_rows) and not directories.is_done(
        dataclasses.replace(job, saved_rows=())
    )


def _write_table(
    sweep: Sweep,
    jobs: Sequence[Job],
    out: pathlib.Path | None,
    *,
    run_seeds: Sequence[int],
) -> str:
    """Makes table and figure if all of these seeds are done; returns what to print.

    Writes them to ``out``; nothing if it is ``None``.
    """
    undone = [job for job in jobs if not directories.is_done(job)]
    incomplete = {job.run.seed for job in undone}
    complete = [job for job in jobs if job.run.seed not in incomplete]
    complete.sort(key=lambda job: job.run.seed)
    missing = [job.name for job in undone if job.run.seed in run_seeds]
    if missing:
        return f'no table is written, because these are not done: {missing}\n'
    warning, begun = '', {job.run.seed for job in jobs if directories.is_done(job)}
    if unfinished := [job.name for job in undone if job.run.seed in begun]:
        seeds = sorted(begun & incomplete)
        warning = (
            f'the table lacks {seeds=}, because these are not done: {unfinished}\n'
        )
    table = results.markdown(sweep, complete)
    if out:
        drawn = figure.draw(sweep, complete)
        table_path, figure_path = _table_and_figure(sweep, out)
        atomic_write_text(table_path, table)
        atomic_write_bytes(figure_path, drawn)
    return warning + table


def _exit_status(states: Mapping[str, str]) -> int:
    """Returns 0 if all runs are done, 1 if one failed, 42 if they were stopped."""
    ended = set(states.values())
    if 'failed' in ended:
        return 1
    if 'stopped' in ended:
        return EXIT_PREEMPTED
    return 1 if ended - {'done'} else 0


def _table_and_figure(
    sweep: Sweep, out: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    return out / f'{sweep.name}.md', out / f'{sweep.name}.png'


if __name__ == '__main__':
    cli.run(main)
