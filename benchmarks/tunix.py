"""Generation and a step of RL beside google-tunix, on two cores' worth of work.

    python -m benchmarks.tunix

The model and the work are those of ``work.GENERATION`` and ``work.STEP``: 4.33 M
parameters, 32 + 64 tokens, 8 rollouts a prompt, float32. tunix runs in an environment
of its own, with a cache of exactly the tokens that it needs. Both sides read the same
weights, give the same log-probabilities of the same responses (the check), run on one
core with one thread, use AdamW and one update a step, and the verifier is in the step.

Each side is given the number of micro-batches an update that serves it best here.
"""

import argparse
import tempfile

from benchmarks import environments, sides
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work

TARGET_GENERATION = 3.0
"""Tokens a CPU second, ours over tunix's, at least."""

TARGET_STEP = 0.45
"""CPU seconds a step, ours over tunix's, at most."""


def measure(
    job: str, work: Work, *, python: str, args: argparse.Namespace
) -> list[list[str]]:
    """Alternates the sides on one job; rows of the table, ours first."""
    with tempfile.TemporaryDirectory() as directory:
        model = sides.write_model(work, directory)
        of_job = [job, '--work', work.to_json(), '--model', model, '--micro_batches']
        ours = Side('passk_jax', 'benchmarks.ours', *of_job, str(args.micro_batches))
        peer = Side(
            'tunix',
            'benchmarks.tunix_peer',
            *of_job,
            str(args.peer_micro_batches),
            python=python,
        )
        with sides.started([ours, peer], core=args.core) as ready:
            answers = sides.alternate([ours, peer], repetitions=args.repetitions)
    found = sides.gap(ready['passk_jax']['check'], ready['tunix']['check'])
    print(f'{job}: sides agree on log-probabilities of responses to {found:.1e}')
    return sides.rows(job, answers, base='tunix')


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    parser.add_argument('--python', default='', help='one that has google-tunix')
    parser.add_argument('--micro_batches', type=int, default=8, help='ours')
    parser.add_argument('--peer_micro_batches', type=int, default=4, help="tunix's")
    args = parser.parse_args()
    python = environments.python_of('tunix', args.python)
    shrink = works.small if args.small else lambda work: work
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    for job, work in (('generate', works.GENERATION), ('step', works.STEP)):
        rows = measure(job, shrink(work), python=python, args=args)
        print(sides.table([sides.HEAD, *rows]), flush=True)
    print(
        f'targets: generate at least {TARGET_GENERATION} x the tokens a CPU second, '
        f'step at most {TARGET_STEP} x the CPU seconds'
    )


if __name__ == '__main__':
    main()
