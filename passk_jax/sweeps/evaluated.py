"""What the evaluations of runs must be, so that a table can pair them.

A run has exactly one evaluation of each split before its first step and after its last.
Runs of one seed that begin with the same warm start have the same evaluations before
the first step: draws are addressed, so equal policies give equal figures.
"""

from collections.abc import Iterable, Mapping, Sequence

from passk_jax.errors import InputError
from passk_jax.report.run_data import Row
from passk_jax.sweeps.opening import Job


def lacking(job: Job, rows: Iterable[Row]) -> str:
    """Says which evaluation of a run is not there exactly once; ``''``: none."""
    places = [(row.get('split'), row.get('step')) for row in rows]
    for split in job.splits:
        for step in (0, job.steps):
            if (count := places.count((split, step))) != 1:
                return f'{count} evaluations of split {split!r} at step {step}'
    return ''


def check_same_start(job: Job, rows: Mapping[str, Sequence[Row]], jobs: Sequence[Job]):
    """Checks that a run began with the policy of the other runs of its seed.

    The same seed makes another warm start on another machine: its processor rounds
    otherwise. Arms that begin with different policies are not paired.

    Args:
        job: the run.
        rows: run -> its evaluations, those of ``job`` included.
        jobs: the runs of the sweep.

    Raises:
        InputError: another run of the seed with the same warm start has other figures
            before its first step.
    """
    for other in jobs:
        same = job.warm_start and other.warm_start == job.warm_start
        same = same and other.config['eval'] == job.config['eval']
        if not same or other.name not in rows or other.name == job.name:
            continue
        for split in job.splits:
            values, other_values = (_first(rows[x.name], split) for x in (job, other))
            if values != other_values:
                name = next(
                    metric
                    for metric in values
                    if values[metric] != other_values.get(metric)
                )
                raise InputError(
                    f'run {job.name} begins with {name}={values[name]:.4f} on split '
                    f'{split!r}, and {other.name} with '
                    f'{other_values.get(name, 0.0):.4f}: they do not have one warm '
                    'start, so they are not paired. Another machine makes another one '
                    'of the same seed: run all arms of a seed on one machine, or '
                    'others with --seeds'
                )


def _first(rows: Iterable[Row], split: str) -> Mapping[str, float]:
    """The pass@k of the evaluation before the first step."""
    for row in rows:
        if (row.get('split'), row.get('step')) == (split, 0):
            return {name: row[name] for name in row if name.startswith('pass_at_')}
    return {}
