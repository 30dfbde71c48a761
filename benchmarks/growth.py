"""Measures speed and memory of our sampler and learner as one size grows.

    python -m benchmarks.growth

The start is ``work.GROUPS`` at a quarter of its rollouts (4 prompts x 8 rollouts, 100 +
64 tokens, 4 layers). One of these grows: rollouts a prompt, tokens of a response,
tokens of a prompt, prompts, layers, vocabulary. Each row is a process on one core:
response tokens a CPU second, and its peak resident memory minus that of the smallest
work (which Python, JAX and the compiler take).
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import sides
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work

START = dataclasses.replace(works.GROUPS, rollouts=8)

GROWTH: Mapping[str, Sequence[int]] = {
    'rollouts': (1, 32, 128),
    'response_tokens': (16, 256, 1024),
    'prompt_tokens': (25, 400, 1600),
    'prompts': (1, 16),
    'layers': (2, 8),
    'vocab': tuple(works.VOCABULARIES.values()),
}

JOBS = ('generate', 'learn')


def works_to_measure(
    start: Work, axes: Sequence[str], *, sizes: int
) -> Iterator[tuple[str, Work]]:
    """Yields the name and the work of every row; an axis has ``sizes`` rows."""
    yield 'nothing', start
    for axis in axes:
        for size in GROWTH[axis][:sizes]:
            yield f'{axis} {size}', dataclasses.replace(start, **{axis: size})


def measure(work: Work, args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Runs each job on a work; returns its answers by job."""
    answers = {}
    with tempfile.TemporaryDirectory() as directory:
        model = sides.write_model(work, directory)
        for job in JOBS:
            # A micro-batch is one prompt, as where memory is short.
            options = ['--work', work.to_json(), '--model', model]
            options += ['--micro_batches', str(work.prompts)]
            side = Side(job, 'benchmarks.ours', job, *options)
            with sides.started([side], core=args.core):
                answers |= sides.alternate([side], repetitions=args.repetitions)
    return answers


def row(
    name: str,
    work: Work,
    answers: Mapping[str, Sequence[Mapping[str, float]]],
    least: Mapping[str, float],
) -> list[str]:
    """Makes a row of the table."""
    cells = [name, f'{work.new_tokens:,}']
    for job in JOBS:
        rate = work.new_tokens / sides.median(answers[job])
        memory = sides.median(answers[job], 'peak_megabytes') - least[job]
        cells += [f'{rate:,.0f}', f'{memory:,.0f}']
    return cells


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    parser.add_argument(
        '--axes', nargs='+', choices=GROWTH, default=list(GROWTH), help='what grows'
    )
    args = parser.parse_args()
    start = works.small(START) if args.small else START
    print(f'{sides.machine()}; {args.repetitions} repetitions')
    print(f'from {start}')
    empty = measure(works.small(START), args)
    least = {job: sides.median(empty[job], 'peak_megabytes') for job in JOBS}
    rows = [['grows', 'tokens', 'generate: tokens / CPU s', 'MB', 'learn', 'MB']]
    sizes = 1 if args.small else 3
    for name, work in works_to_measure(start, args.axes, sizes=sizes):
        rows.append(row(name, work, measure(work, args), least))
        print(' '.join(rows[-1]), flush=True)
    print(sides.table(rows))


if __name__ == '__main__':
    main()
