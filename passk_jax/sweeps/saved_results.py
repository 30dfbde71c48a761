"""Keeps the results of a sweep in files that outlive the run directories.

``<name>.jsonl.gz`` has a row for each evaluation of each finished run.
``<name>.configs.json`` has the configuration of each setting, without the values that
the sweep sets for each run, and ``sources``, the digests of the user's Python files
that it names, if any. A run with rows counts as done if its configuration and these
files are still those that produced them.
"""

import collections
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from passk_jax.errors import InputError
from passk_jax.files import (
    atomic_write_bytes,
    atomic_write_text,
    read_json,
    remove_unfinished,
)
from passk_jax.report.run_data import Row
from passk_jax.runs.directory import config_differences
from passk_jax.runs.sources import check_files
from passk_jax.sweeps import results
from passk_jax.sweeps.commands import setting_of
from passk_jax.sweeps.directories import is_done
from passk_jax.sweeps.evaluated import check_same_start, lacking
from passk_jax.sweeps.opening import Job
from passk_jax.sweeps.rows import compress_rows, read_rows

# Keys that the sweep sets for each run, and one that evaluations do not depend on.
_OF_A_RUN = ('seed', 'init.checkpoint', 'train.micro_batch_prompts')
_SOURCES = 'sources'


class SavedResults:
    """The result files of a sweep; several sweeps of this name may write at once.

    Args:
        directory: the directory of the files; it must exist for :meth:`add`.
        name: the sweep's name.

    Attributes:
        paths: the files.
    """

    def __init__(self, directory: pathlib.Path, name: str):
        self._lock = directory / f'.{name}.lock'
        self.paths = tuple(
            directory / f'{name}{suffix}' for suffix in ('.jsonl.gz', '.configs.json')
        )
        self._rows, self._configs = self.paths

    def attach(self, jobs: Sequence[Job]) -> list[Job]:
        """Attaches saved results to the jobs that have them; returns all jobs.

        A stage's results count only if the results of all stages are saved, because a
        later stage needs the checkpoint of an earlier one. If an evaluation is missing
        or repeated, the results are ignored if the run's directory is complete.

        Raises:
            InputError: saved results of any seed came from another configuration or
                from other versions of the user's Python files; an evaluation is missing
                or repeated, and the run's directory is not complete; or runs of one
                seed began with different policies.
        """
        configs, rows = self._read()
        attached = []
        for job in jobs:
            self._check_same(job, configs)
            self._check_whole(job, rows)
        for job in jobs:
            if all(other.name in rows for other in _chain(job, jobs)):
                check_same_start(job, rows, jobs)
                job = dataclasses.replace(job, saved_rows=tuple(rows[job.name]))
            attached.append(job)
        return attached

    def add(self, jobs: Sequence[Job], *, of: Job | None = None) -> None:
        """Adds the results of finished runs.

        Rows are sorted by seed, then by setting, so the files do not depend on the
        order of writing.

        Args:
            jobs: the runs of the sweep.
            of: add only this run and its other stages; ``None``: add all.

        Raises:
            InputError: another sweep has added results of another configuration since
                :meth:`attach`, a user's Python file changed since the sweep began, or
                runs of one seed began with different policies. Nothing is written.
        """
        candidates = jobs if of is None else _chain(of, jobs)
        finished = [
            job
            for job in candidates
            if not job.saved_rows and all(is_done(other) for other in _chain(job, jobs))
        ]
        if not finished:
            return
        with self.writing(self.paths):
            configs, rows = self._read()
            for job in finished:
                self._check_same(job, configs)
                check_files(job.run.directory, job.sources)
                rows[job.name] = results.tidy_rows([job])
                check_same_start(job, rows, jobs)
                configs[job.run.setting] = _common(job)
            tidy = _sort_rows(rows.values(), [job.run.setting for job in jobs])
            text = json.dumps(_select_configs(configs, tidy), indent=1) + '\n'
            # Rows come last: a configuration without rows is ignored.
            atomic_write_text(self._configs, text)
            atomic_write_bytes(self._rows, compress_rows(tidy))

    @property
    def csv_path(self) -> pathlib.Path:
        """``<name>.csv`` beside the rows."""
        return self._rows.with_name(self._rows.name.replace('.jsonl.gz', '.csv'))

    def write_csv(self) -> None:
        """Writes all rows to :attr:`csv_path`, if there are any."""
        _, rows = self._read()
        if rows:
            tidy = [row for of_run in rows.values() for row in of_run]
            atomic_write_text(self.csv_path, results.as_csv(tidy))

    def seeds(self) -> set[int]:
        """Returns the seeds that have results; InputError if results are unreadable."""
        _, rows = self._read()
        return {of_run[0]['seed'] for of_run in rows.values()}

    def _read(self) -> tuple[dict[str, Any], dict[str, list[Row]]]:
        """Returns setting -> configuration (of settings with rows), and run -> rows."""
        rows: dict[str, list[Row]] = collections.defaultdict(list)
        try:
            if not self._rows.exists():
                return {}, {}
            for row in read_rows(self._rows):
                rows[row['run']].append(row)
            configs = read_json(self._configs)
            firsts = [of_run[0] for of_run in rows.values()]
            return _select_configs(configs, firsts), dict(rows)
        except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                f'the results {self._rows} and {self._configs.name} cannot be read '
                f'({error!r}): mend them or choose other results'
            ) from error

    def _check_same(self, job: Job, configs: Mapping[str, Any]) -> None:
        if (saved := configs.get(job.run.setting)) is None:
            return
        may_differ = (*job.may_differ, *_OF_A_RUN, f'{_SOURCES}.')
        if differences := config_differences(saved, job.config, may_differ):
            raise InputError(
                f'run {job.name}: the results in {self._rows} came from another '
                f'config; choose other results. These keys differ:{differences}'
            )
        if _SOURCES not in saved:
            # Older versions kept no digests.
            if job.sources:
                message = 'the results in %s may be from other versions of %s'
                logging.log_first_n(
                    logging.WARNING, message, 1, self._rows, sorted(job.sources)
                )
            return
        before, now = saved[_SOURCES].items(), job.sources.items()
        if changed := sorted({file for file, _ in before ^ now}):
            raise InputError(
                f'run {job.name}: the results in {self._rows} came from other versions '
                f'of {changed}: restore what was there, or choose other results'
            )

    def _check_whole(self, job: Job, rows: dict[str, list[Row]]) -> None:
        """Drops incomplete rows; raises if the run's directory is incomplete, too."""
        if job.name not in rows or not (lacks := lacking(job, rows[job.name])):
            return
        if not is_done(dataclasses.replace(job, saved_rows=())):
            raise InputError(
                f'the results {self._rows} have {lacks} of run {job.name}, and must '
                'have one: mend them, or take its rows out to run it again'
            )
        del rows[job.name]

    @contextlib.contextmanager
    def writing(self, paths: Iterable[pathlib.Path]) -> Iterator[None]:
        """Locks the directory's files against other sweeps of the name.

        Also removes temporary files of these paths that killed sweeps left behind.
        """
        # A network file system locks only files that are open for writing.
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            remove_unfinished(self._lock.parent, {path.name for path in paths})
            yield
        finally:
            os.close(descriptor)


def _chain(job: Job, jobs: Sequence[Job]) -> list[Job]:
    """Returns all stages of the job's arm and seed, the job included."""
    whose = job.run.arm, job.run.seed
    return [other for other in jobs if (other.run.arm, other.run.seed) == whose]


def _sort_rows(of_runs: Iterable[list[Row]], settings: Sequence[str]) -> list[Row]:
    """Returns all rows by seed and setting; unknown settings come last."""
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys(settings))}

    def place(rows: list[Row]) -> tuple[int, int]:
        return rows[0]['seed'], ranks.get(_setting(rows[0]), len(ranks))

    return [row for rows in sorted(of_runs, key=place) for row in rows]


def _select_configs(configs: Mapping[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    """Returns the configurations of the rows' settings, in the order of the rows."""
    return {name: configs[name] for name in dict.fromkeys(map(_setting, rows))}


def _setting(row: Row) -> str:
    return setting_of(row['run'], arm=row['arm'], seed=row['seed'])


def _common(job: Job) -> dict[str, Any]:
    """Returns what is the same for all seeds: no :data:`_OF_A_RUN`, but sources."""
    config = job.config
    common = {name: value for name, value in config.items() if name != 'seed'}
    init = {
        name: value for name, value in config['init'].items() if name != 'checkpoint'
    }
    sources = {_SOURCES: dict(job.sources)} if job.sources else {}
    return common | {'init': init} | sources
