"""Compares an update that runs a prompt once with one that repeats it for each rollout.

    python -m benchmarks.group_learner

Both are our train step, on the model and the work of ``work.GROUPS`` (100 + 64 tokens,
32 rollouts a prompt), then with real vocabularies. One gets P groups of N rollouts, the
other P * N groups of one, as in a trainer without shared prompts. The gradients are
compared parameter by parameter: the norm of the difference over the norm.
"""

import argparse
import pathlib
import tempfile

import numpy as np

from benchmarks import sides
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work

TARGET = 2.0
"""Least CPU seconds of the repeated form over those of the group."""

TARGET_GRADIENT = 1e-5
"""Largest difference of a parameter's gradient, relative to its norm."""


def gradient_gap(group: pathlib.Path, repeated: pathlib.Path) -> tuple[float, str]:
    """Returns the largest relative difference of a gradient, and its parameter."""
    with np.load(group) as a, np.load(repeated) as b:
        gaps = {
            name: float(np.linalg.norm(a[name] - b[name]) / np.linalg.norm(b[name]))
            for name in a.files
        }
    name = max(gaps, key=gaps.__getitem__)
    return gaps[name], name


def measure(name: str, work: Work, args: argparse.Namespace) -> list[list[str]]:
    """Alternates both forms; returns rows of the table."""
    with tempfile.TemporaryDirectory() as directory:
        model = sides.write_model(work, directory)
        of_both = ['--work', work.to_json(), '--model', model]
        files = [pathlib.Path(directory) / f'{name}.npz' for name in 'ab']

        def side(name: str, job: str, count: int, file: pathlib.Path) -> Side:
            options = ['--micro_batches', str(count), '--gradient', str(file)]
            return Side(name, 'benchmarks.ours', job, *of_both, *options)

        both = [
            side('group', 'learn', args.micro_batches, files[0]),
            side('repeated', 'repeated', args.repeated_micro_batches, files[1]),
        ]
        with sides.started(both, core=args.core):
            answers = sides.alternate(both, repetitions=args.repetitions)
        gap, parameter = gradient_gap(*files)
    print(f'gradients differ by at most {gap:.1e} of their norm ({parameter})')
    for reports in answers.values():
        for answer in reports:
            answer['tokens'] = work.new_tokens
    return sides.rows(f'update{name}', answers, base='repeated')


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    parser.add_argument('--micro_batches', type=int, default=4, help='of the group')
    parser.add_argument(
        '--repeated_micro_batches', type=int, default=8, help='of the repeated form'
    )
    args = parser.parse_args()
    work = works.small(works.GROUPS) if args.small else works.GROUPS
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    for name, variant in works.with_vocabularies(work):
        print(sides.table([sides.HEAD, *measure(name, variant, args)]), flush=True)
    print(
        f'targets: at least {TARGET} x, gradients equal to {TARGET_GRADIENT} of their '
        'norm'
    )


if __name__ == '__main__':
    main()
