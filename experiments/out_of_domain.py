"""Do policies of the language model solve sets that they were never trained on?

    python -m passk_jax.sweep --workdir=runs/stages --results=runs/results \\
        --config=experiments/sweeps/smollm2.py:variant=stages,on=gpu --jobs=8
    for run in runs/stages/*_seed?; do
        python -m passk_jax.evaluate --workdir=$run --split=test \\
            --task=configs/smollm2.py:source=models/smollm2,sets=out_of_domain
    done
    python -m experiments.out_of_domain --workdir=runs/stages
    python -m experiments.out_of_domain

The paper's table of generalization (``tab:generalization``) with the policies after 200
steps. The third command collects the evaluations of the second into
``results/smollm2_out_of_domain.jsonl.gz`` and makes the table; the fourth makes it from
these rows alone. The expectation is the eleventh of experiments/sweeps/smollm2.py.

Directories ``before_seed<n>`` have the policy before RL: runs of one step at a rate of
1e-12, whose command is in experiments/pages/smollm2_stages.md.
"""

import pathlib
import re
from collections.abc import Sequence

import numpy as np

from configs.smollm2 import OUT_OF_DOMAIN
from experiments.sweeps.smollm2 import get_sweep
from passk_jax import cli
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, atomic_write_text, read_json
from passk_jax.report.arms import difference, format_difference, markdown_table
from passk_jax.report.run_data import Row
from passk_jax.sweeps import category_measures
from passk_jax.sweeps.rows import compress_rows, read_rows

NAME = 'smollm2_out_of_domain'
RESULTS = pathlib.Path('experiments/results')
BEFORE = 'before'
_SWEEP = get_sweep('variant=stages')
BASELINE = _SWEEP.baseline
ARMS = {arm.name: arm.label for arm in _SWEEP.arms}
MEASURES = {
    **{f'pass_at_{k}': f'Pass@{k}' for k in (1, 4, 8, 32)},
    'maj_at_32': 'maj@32',
    **category_measures(OUT_OF_DOMAIN),
}
_RUN = re.compile(rf'({"|".join([BEFORE, *ARMS])})_seed(\d+)')


def main(*, workdir: str | None = None, results: str = str(RESULTS)) -> None:
    """Collects evaluations, if ``workdir`` is set; writes the table."""
    path = pathlib.Path(results) / f'{NAME}.jsonl.gz'
    if workdir is not None:
        rows = read_evaluations(pathlib.Path(workdir))
        atomic_write_bytes(path, compress_rows(rows))
    text = table(read_rows(path))
    atomic_write_text(path.with_name(f'{NAME}.md'), text)
    print(text, end='')


def read_evaluations(workdir: pathlib.Path) -> list[Row]:
    """Returns a row for each run's evaluation on the sets of ``OUT_OF_DOMAIN``."""
    rows = {}
    for directory in sorted(workdir.iterdir()):
        if not (match := _RUN.fullmatch(directory.name)):
            continue
        for path in sorted(directory.glob('evaluation/by_command/*.json')):
            record = read_json(path)
            if record['task']['params'].get('sets', {}).keys() != OUT_OF_DOMAIN.keys():
                continue
            if directory in rows:
                raise InputError(f'{directory} has two such evaluations: remove {path}')
            if lacking := MEASURES.keys() - record['metrics'].keys():
                raise InputError(f'{path} lacks {sorted(lacking)}')
            rows[directory] = {
                **{'arm': match[1], 'seed': int(match[2])},
                **{name: record[name] for name in ('split', 'step')},
                **{x: float(f'{record["metrics"][x]:.6g}') for x in MEASURES},
            }
    if not rows:
        raise InputError(f'no run in {workdir} was evaluated on these sets')
    return [*rows.values()]


def table(rows: Sequence[Row]) -> str:
    """Returns a line for each measure and a column for each arm.

    ``before`` is the mean over the seeds that it has. The others have all seeds of the
    baseline, and differ from it seed by seed.

    Raises:
        InputError: ``before`` or the baseline is absent, or an arm has other seeds or
            another step than the baseline.
    """
    runs = {
        arm: sorted((row['seed'], row['step']) for row in rows if row['arm'] == arm)
        for arm in (BEFORE, *ARMS)
    }
    for arm in (BEFORE, BASELINE):
        if not runs[arm]:
            raise InputError(f'no run of {arm!r} was evaluated on these sets')
    arms = [arm for arm in ARMS if runs[arm]]
    for arm in arms:
        if runs[arm] != runs[BASELINE]:
            raise InputError(
                f'{arm} has the (seed, step) {runs[arm]}, and {BASELINE} '
                f'{runs[BASELINE]}: they cannot be paired'
            )
    lines = []
    for measure, label in MEASURES.items():
        base = _values(rows, BASELINE, measure)
        cells = [f'{_values(rows, BEFORE, measure).mean():.3f}', f'{base.mean():.3f}']
        for arm in arms[1:]:
            values = _values(rows, arm, measure)
            interval = format_difference(difference(values, base))
            cells.append(f'{values.mean():.3f}, {interval}')
        lines.append([label, *cells])
    head = ['sets never trained on', 'before RL', *(ARMS[arm] for arm in arms)]
    return '\n'.join(markdown_table(head, lines)) + '\n'


def _values(rows: Sequence[Row], arm: str, measure: str) -> np.ndarray:
    """Returns ``[S]``, in the order of the seeds."""
    of_arm = sorted((row['seed'], row[measure]) for row in rows if row['arm'] == arm)
    return np.array([value for _, value in of_arm])


if __name__ == '__main__':
    cli.run(main)
