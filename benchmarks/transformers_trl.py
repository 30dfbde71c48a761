"""Generation beside transformers' ``generate``, and a step of RL beside TRL's.

    python -m benchmarks.transformers_trl

Generation has the model and the work of ``work.GROUPS`` (3.2 M parameters, 100 + 64
tokens, 4 prompts x 32 rollouts) and of ``work.QWEN``, a step those of ``work.STEP``
and, for what prompts that are shared do, of ``work.GROUPS``; the small ones with real
vocabularies too; float32 on the CPU. The peers run in an environment of their own. Both
sides read the same weights, give the same log-probabilities of the same responses (the
check), run on one core with one thread, use AdamW and one update a step, and the
verifier is in the step.

In the same run each side multiplies two large matrices, as fast as its library can: the
ceiling. Our share of ours is the FLOPs that generation needs (the prompt once a
problem, every token but the last through all layers) over CPU seconds, over the
ceiling's.
"""

import argparse
import re
import tempfile

from benchmarks import environments, sides
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work

TARGET_GENERATION = 3.5
"""Tokens a CPU second, ours over transformers', at least."""

TARGET_QWEN = 1.8
"""The same at Qwen2.5-0.5B's shape and vocabulary."""

TARGET_SHARE = 0.55
"""Of the ceiling, at least."""

TARGET_STEP = 0.4
"""CPU seconds a step, ours over TRL's, at most."""


def needed_gflop(work: Work) -> float:
    """What generation needs: see the top of this file."""
    # Here, and not at the top: --help is for those without our requirements too.
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
    """Alternates generation and the ceilings; rows, and a sentence a side."""
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
    found = sides.gap(ready['passk_jax']['check'], ready['transformers']['check'])
    said = [f'{name}: sides agree on log-probabilities of responses to {found:.1e}']
    gflop = needed_gflop(work)
    for name, ceiling in (
        ('passk_jax', 'XLA matmul'),
        ('transformers', 'torch matmul'),
    ):
        top = answers.pop(ceiling)
        top = sides.median(top, 'gflop') / sides.median(top)
        rate = gflop / sides.median(answers[name])
        said.append(
            f'{name}: {gflop:.1f} GFLOP needed at {rate:.1f} GFLOP/s, {rate / top:.0%} '
            f'of the {top:.1f} of a {ceiling} in this run'
        )
    return sides.rows(name, answers, base='transformers'), said


def step(
    work: Work, *, name: str, python: str, args: argparse.Namespace
) -> tuple[list[list[str]], list[str]]:
    """Alternates a step of RL; rows, and the check."""
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
    jobs = [('generate, Qwen2.5-0.5B', generation, shrink(works.QWEN))]
    for job, (measure, start) in measurements.items():
        for name, work in works.with_vocabularies(shrink(start)):
            jobs.append((job + name, measure, work))
    for name, measure, work in jobs:
        if not re.match(args.jobs, name):
            continue
        rows, said = measure(work, name=name, python=python, args=args)
        print('\n'.join([*said, sides.table([sides.HEAD, *rows])]), flush=True)
    print(
        f'targets: generate at least {TARGET_GENERATION} x the tokens a CPU second '
        f'({TARGET_QWEN} x at Qwen2.5-0.5B) and {TARGET_SHARE:.0%} of the ceiling, '
        f'step at most {TARGET_STEP} x the CPU seconds'
    )


if __name__ == '__main__':
    main()
