"""Checks evaluations before a table pairs them.

A run must have exactly one evaluation of each split before its first step and after its
last. Runs that share seed and first policy must have equal evaluations before the first
step, because the same policy and the same random keys give the same responses.
"""

from collections.abc import Iterable, Mapping, Sequence

from passk_jax.errors import InputError
from passk_jax.report.run_data import Row
from passk_jax.sweeps.opening import Job


def lacking(job: Job, rows: Iterable[Row]) -> str:
    """Describes an evaluation that is missing or repeated; ``''`` if there is none."""
    places = [(row.get('split'), row.get('step')) for row in rows]
    for split in job.splits:
        for step in (0, job.steps):
            if (count := places.count((split, step))) != 1:
                return f'{count} evaluations of split {split!r} at step {step}'
    return ''


def check_same_start(job: Job, rows: Mapping[str, Sequence[Row]], jobs: Sequence[Job]):
    """Checks that a run began with the same policy as the other runs of its seed.

    Processors round differently, so a seed makes another warm start on another machine.
    Arms that begin with different policies cannot be paired.

    Args:
        job: the run.
        rows: run -> its evaluations, those of ``job`` included.
        jobs: the runs of the sweep.

    Raises:
        InputError: another run with the same seed and the same configured warm start
            has other metrics before its first step.
    """
    for other in jobs:
        same = job.first_policy and other.first_policy == job.first_policy
        same = same and other.config['eval'] == job.config['eval']
        if not same or other.name not in rows or other.name == job.name:
            continue
        for split in job.splits:
            values, other_values = (_first(rows[x.name], split) for x in (job, other))
            if values != other_values:
                name = next(x for x in values if values[x] != other_values.get(x))
                raise InputError(
                    f'run {job.name} begins with {name}={values[name]:.4f} on split '
                    f'{split!r}, and {other.name} with '
                    f'{other_values.get(name, 0.0):.4f}: they do not have one warm '
                    'start, so they cannot be paired. A seed makes another one on '
                    'another machine: run all arms of a seed on one machine, or '
                    'other seeds with --seeds'
                )


def _first(rows: Iterable[Row], split: str) -> Mapping[str, float]:
    """Returns pass@k of the evaluation before the first step."""
    for row in rows:
        if (row.get('split'), row.get('step')) == (split, 0):
            return {name: row[name] for name in row if name.startswith('pass_at_')}
    return {}
