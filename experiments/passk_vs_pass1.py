"""Pass@k Training against Pass@1 Training, paired over seeds, at laptop size.

    python -m experiments.passk_vs_pass1 --seeds=0,1,2,3,4 --workdir=runs/passk_vs_pass1

Every run is ``configs/maze_tiny.py`` through the ordinary command; a seed decides the
warm start, the batches and the draws of both of its runs, so the two differ in the
estimator alone. Runs that have ended are not run again. One process a core, because
that is how two cores give the most steps.

Written to ``experiments/results/``: ``passk_vs_pass1.json`` (every number),
``passk_vs_pass1.md`` (the table) and ``passk_vs_pass1.png``.
"""

import concurrent.futures
import json
import os
import pathlib
import queue
import subprocess
import sys
from collections.abc import Sequence

import matplotlib
import numpy as np
from absl import app, flags

from passk_jax.metrics import paired_interval

matplotlib.use('Agg')
from matplotlib import pyplot as plt

_SEEDS = flags.DEFINE_list('seeds', ['0', '1', '2'], 'Seeds, each a pair of runs.')
_WORKDIR = flags.DEFINE_string('workdir', 'runs/passk_vs_pass1', 'Where runs go.')
_OVERRIDES = flags.DEFINE_list('set', [], 'More overrides: train.steps=100, ...')
_RESULTS = flags.DEFINE_string('results', 'experiments/results', 'Where results go.')

ARMS = {'Pass@1 Training': 'pass_at_1', 'Pass@4 Training': 'pass_at_k'}
COLORS = {'Pass@1 Training': '#c2410c', 'Pass@4 Training': '#1d4ed8'}
MEASURES = {
    'Pass@1': 'pass_at_1',
    'Pass@4': 'pass_at_4',
    'Pass@8': 'pass_at_8',
    'Pass@32': 'pass_at_32',
    'entropy (nats a token)': 'entropy',
    'distinct of 4 wrong answers': 'rarefied_diversity',
}


def run_all(seeds: Sequence[int], root: pathlib.Path) -> None:
    """Runs every pair that has not ended, as many at one time as there are cores."""
    cores: queue.Queue[int] = queue.Queue()
    for core in sorted(os.sched_getaffinity(0)):
        cores.put(core)

    def run(job: tuple[int, str]) -> None:
        seed, estimator = job
        workdir = root / f'{estimator}_seed{seed}'
        core = cores.get()
        command = [
            *('taskset', '-c', str(core), sys.executable, '-m', 'passk_jax.train'),
            '--config=configs/maze_tiny.py',
            f'--workdir={workdir}',
            f'--config.seed={seed}',
            f'--config.advantage.name={estimator}',
            *(f'--config.{override}' for override in _OVERRIDES.value),
        ]
        root.mkdir(parents=True, exist_ok=True)
        try:
            with (root / f'{workdir.name}.log').open('w') as log:
                subprocess.run(command, check=True, stdout=log, stderr=log)
        finally:
            cores.put(core)

    jobs = [(seed, name) for seed in seeds for name in ARMS.values()]
    todo = [
        job for job in jobs if not final_values(root / f'{job[1]}_seed{job[0]}', 'test')
    ]
    with concurrent.futures.ThreadPoolExecutor(cores.qsize()) as pool:
        for _ in pool.map(run, todo):
            pass


def lines_of(workdir: pathlib.Path, split: str) -> list[dict]:
    """The metric lines of a split, in order."""
    path = workdir / 'metrics.jsonl'
    if not path.exists():
        return []
    # At line feeds only: a string may hold other characters that end lines.
    lines = [json.loads(line) for line in path.read_text().split('\n') if line]
    return [line for line in lines if line['split'] == split]


def final_values(workdir: pathlib.Path, split: str) -> dict:
    """The last evaluation of a run that has ended, else nothing."""
    config_path = workdir / 'config.json'
    if not config_path.exists():
        return {}
    steps = json.loads(config_path.read_text())['train']['steps']
    last = [line for line in lines_of(workdir, split) if line['step'] == steps]
    return last[0] if last else {}


def table(results: dict[str, list[dict]], first: list[dict]) -> str:
    """Means over seeds, the paired difference and its 95 % interval, in Markdown."""
    arms = list(ARMS)
    rows = [
        f'| test split | before RL | {arms[0]} | {arms[1]} | difference [95 %] |',
        '|---|---|---|---|---|',
    ]
    for label, name in MEASURES.items():
        values = [np.array([run[name] for run in results[arm]]) for arm in arms]
        mean, low, high = paired_interval(values[1], values[0])
        before = np.mean([run[name] for run in first])
        cells = ' | '.join(
            f'{v.mean():.3f} ({" ".join(f"{x:.3f}" for x in v)})' for v in values
        )
        rows.append(
            f'| {label} | {before:.3f} | {cells} | '
            f'{mean:+.3f} [{low:+.3f}, {high:+.3f}] |'
        )
    before = np.array([run['pass_at_32'] for run in first])
    after = np.array([run['pass_at_32'] for run in results[arms[0]]])
    mean, low, high = paired_interval(after, before)
    rows += ['', f'Pass@32 under {arms[0]}, end less beginning: {mean:+.3f} ']
    rows[-1] += f'[{low:+.3f}, {high:+.3f}].'
    return '\n'.join(rows) + '\n'


def draw(root: pathlib.Path, seeds: Sequence[int], path: pathlib.Path) -> None:
    """Validation curves: the mean over seeds, and each seed thin."""
    names = [*MEASURES.items()]
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True)
    for axis, (label, name) in zip(axes.flat, names, strict=True):
        for arm, estimator in ARMS.items():
            runs = [
                lines_of(root / f'{estimator}_seed{s}', 'validation') for s in seeds
            ]
            steps = [line['step'] for line in runs[0]]
            values = np.array([[line[name] for line in run] for run in runs])
            axis.plot(steps, values.T, color=COLORS[arm], alpha=0.25, linewidth=0.8)
            axis.plot(steps, values.mean(0), color=COLORS[arm], linewidth=2, label=arm)
        axis.set_title(label, fontsize=10)
        axis.spines[['top', 'right']].set_visible(False)
        axis.grid(alpha=0.2)
    for axis in axes[1]:
        axis.set_xlabel('step')
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.suptitle(f'5x5 mazes, validation split, {len(seeds)} paired seeds')
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str]) -> None:
    """Runs what is missing, then writes numbers, table and figure."""
    del argv
    seeds = [int(seed) for seed in _SEEDS.value]
    root, out = pathlib.Path(_WORKDIR.value), pathlib.Path(_RESULTS.value)
    run_all(seeds, root)
    results = {
        arm: [final_values(root / f'{name}_seed{s}', 'test') for s in seeds]
        for arm, name in ARMS.items()
    }
    first = [lines_of(root / f'pass_at_1_seed{s}', 'test')[0] for s in seeds]
    out.mkdir(parents=True, exist_ok=True)
    everything = {'seeds': seeds, 'before': first, 'after': results}
    text = json.dumps(everything, indent=1) + '\n'
    (out / 'passk_vs_pass1.json').write_text(text)
    markdown = table(results, first)
    (out / 'passk_vs_pass1.md').write_text(markdown)
    draw(root, seeds, out / 'passk_vs_pass1.png')
    print(markdown)


if __name__ == '__main__':
    app.run(main)
