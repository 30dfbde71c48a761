"""Compares generation and a step of RL with google-tunix.

    python -m benchmarks.tunix

The model and the work are those of ``work.GENERATION`` and ``work.STEP``: 4.33 M
parameters, 32 + 64 tokens, 8 rollouts a prompt, float32; then with real vocabularies,
and those of ``work.SMOLLM2``.
tunix runs in its own environment, with a cache of exactly the tokens that it needs.
Both sides read the same weights, use one core, one thread, AdamW and one update a step,
and verify within the step. The run prints how far their log-probabilities of the same
responses differ.

Each side has the number of micro-batches with which it is fastest here.
"""

import argparse
import re

from benchmarks import environments, sides
from benchmarks import work as works

TARGET_GENERATION = 3.0
"""Least tokens a CPU second, ours over tunix's."""

TARGET_STEP = 0.40
"""Most CPU seconds a step, ours over tunix's."""


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_peer_arguments(parser, packages='google-tunix')
    args = parser.parse_args()
    python = environments.python_of('tunix', args.python)
    shrink = works.small if args.small else lambda work: work
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    for job, start in (('generate', works.GENERATION), ('step', works.STEP)):
        variants = [*works.with_vocabularies(shrink(start))]
        variants.append((', SmolLM2-135M', shrink(works.SMOLLM2)))
        for name, work in variants:
            if not re.match(args.jobs, job + name):
                continue
            rows, lines = sides.beside(
                'tunix',
                'benchmarks.tunix_peer',
                job,
                work,
                python=python,
                args=args,
                name=job + name,
            )
            print('\n'.join([*lines, sides.table([sides.HEAD, *rows])]), flush=True)
    print(
        f'targets: generate at least {TARGET_GENERATION} x the tokens a CPU second, '
        f'step at most {TARGET_STEP} x the CPU seconds'
    )


if __name__ == '__main__':
    main()
