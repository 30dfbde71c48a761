"""Compares generation with transformers' ``generate``, and a step of RL with TRL's.

    python -m benchmarks.transformers_trl

Generation has the model and the work of ``work.GROUPS`` (3.2 M parameters, 100 + 64
tokens, 4 prompts x 32 rollouts), of ``work.QWEN`` and of ``work.SMOLLM2``. A step has
those of ``work.STEP``, of ``work.SMOLLM2`` and of ``work.GROUPS``, where sharing
prompts counts. The small works run with real vocabularies too. All is float32 on the
CPU.

The peers run in their own environment. Both sides read the same weights, use one core,
one thread, AdamW and one update a step, and verify within the step. The run prints how
far their log-probabilities of the same responses differ.

In the same run each side multiplies two large matrices: the ceiling of its library. The
share of the ceiling is the FLOP/s that generation needs (the prompt once a problem,
every token but the last through all layers) over those of the product.
"""

import argparse
import re
import tempfile

from benchmarks import environments, sides
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work

TARGET_GENERATION = 3.5
"""Least tokens a CPU second, ours over transformers'."""

TARGET_QWEN = 1.8
"""The same at the shape and vocabulary of Qwen2.5-0.5B."""

TARGET_SMOLLM2 = 6.0
"""The same at the shape of SmolLM2-135M."""

TARGET_SHARE = 0.55
"""Least share of the ceiling."""

TARGET_STEP = 0.4
"""Most CPU seconds a step, ours over TRL's."""

TARGET_STEP_SMOLLM2 = 0.45, 12.0
"""At the shape of SmolLM2-135M: the same, and the most CPU seconds of ours."""


def needed_gflop(work: Work) -> float:
    """Counts the GFLOPs that generation needs; see the module's docstring."""
    # Imported here, so that --help works without our requirements.
    from benchmarks.ours import make_policy
    from passk_jax.planning import flops

    arch = make_policy(work).arch
    total = flops.model_flops(
        arch,
        num_prompts=work.prompts,
        num_rollouts=work.rollouts,
        prompt_tokens=work.prompt_tokens,
        response_tokens=0,
    )
    for position in range(1, work.response_tokens):
        total += flops.decode_flops(
            arch,
            sequences=work.sequences,
            context_tokens=work.prompt_tokens + position,
        )
    return total / 1e9


def generation(
    work: Work, *, name: str, python: str, args: argparse.Namespace
) -> tuple[list[list[str]], list[str]]:
    """Alternates generation and the ceilings; returns rows, and sentences."""
    with tempfile.TemporaryDirectory() as directory:
        model = sides.write_model(work, directory)
        of_job = ['generate', '--work', work.to_json(), '--model', model]
        peer = {'python': python, 'environment': sides.ONE_THREAD}
        all_sides = [
            Side('passk_jax', 'benchmarks.ours', *of_job),
            Side('transformers', 'benchmarks.torch_peer', *of_job, **peer),
            Side('XLA matmul', 'benchmarks.ours', 'matmul'),
            Side('torch matmul', 'benchmarks.torch_peer', 'matmul', **peer),
        ]
        with sides.started(all_sides, core=args.core) as ready:
            answers = sides.alternate(all_sides, repetitions=args.repetitions)
    difference = sides.gap(ready['passk_jax']['check'], ready['transformers']['check'])
    lines = [
        f'{name}: sides agree on log-probabilities of responses to {difference:.1e}'
    ]
    gflop = needed_gflop(work)
    for name, ceiling in (
        ('passk_jax', 'XLA matmul'),
        ('transformers', 'torch matmul'),
    ):
        top = answers.pop(ceiling)
        top = sides.median(top, 'gflop') / sides.median(top)
        rate = gflop / sides.median(answers[name])
        lines.append(
            f'{name}: {gflop:.1f} GFLOP needed at {rate:.1f} GFLOP/s, {rate / top:.0%} '
            f'of the {top:.1f} of a {ceiling} in this run'
        )
    return sides.rows(name, answers, base='transformers'), lines


def step(
    work: Work, *, name: str, python: str, args: argparse.Namespace
) -> tuple[list[list[str]], list[str]]:
    """Alternates a step of RL; returns rows, and a sentence about the check."""
    return sides.beside(
        'TRL',
        'benchmarks.torch_peer',
        'step',
        work,
        python=python,
        args=args,
        name=name,
        environment=sides.ONE_THREAD,
    )


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_peer_arguments(parser, packages='torch and TRL')
    args = parser.parse_args()
    python = environments.python_of('trl', args.python)
    shrink = works.small if args.small else lambda work: work
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    measurements = {
        'generate': (generation, works.GROUPS),
        'step': (step, works.STEP),
        'step of groups': (step, works.GROUPS),
    }
    jobs = [
        ('generate, Qwen2.5-0.5B', generation, shrink(works.QWEN)),
        ('generate, SmolLM2-135M', generation, shrink(works.SMOLLM2)),
        ('step, SmolLM2-135M', step, shrink(works.SMOLLM2)),
    ]
    for job, (measure, start) in measurements.items():
        for name, work in works.with_vocabularies(shrink(start)):
            jobs.append((job + name, measure, work))
    for name, measure, work in jobs:
        if not re.match(args.jobs, name):
            continue
        rows, lines = measure(work, name=name, python=python, args=args)
        print('\n'.join([*lines, sides.table([sides.HEAD, *rows])]), flush=True)
    print(
        f'targets: generate at least {TARGET_GENERATION} x the tokens a CPU second '
        f'({TARGET_QWEN} x at Qwen2.5-0.5B, {TARGET_SMOLLM2} x at SmolLM2-135M) and '
        f'{TARGET_SHARE:.0%} of the ceiling, step at most {TARGET_STEP} x the CPU '
        f'seconds ({TARGET_STEP_SMOLLM2[0]} x and {TARGET_STEP_SMOLLM2[1]} s at '
        'SmolLM2-135M)'
    )


if __name__ == '__main__':
    main()
