"""Measures adapters: merged or not while sampling, and beside full fine-tuning.

    python -m benchmarks.adapters

Adapters have rank 16 on every matrix of the layers. *Sample* is at SmolLM2-135M's shape
and vocabulary: ``merged`` merges them once and samples; ``beside``, as in training,
computes their products at every token. *Update* is a step of the learner on the model
of ``work.GROUPS``: ``full`` trains all parameters, ``adapters`` only these. All sides
are this library, in the plain loop and float32.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax

from benchmarks import ours, sides, worker
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work
from passk_jax.config import sampling_options
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.update import Update
from passk_jax.models import lora
from passk_jax.models import policy as policies
from passk_jax.models.frozen import split_weights
from passk_jax.models.lora import ALL_LINEAR, Lora
from passk_jax.models.policy import Params, Policy
from passk_jax.models.transformer import Transformer
from passk_jax.sampling import Purpose, plain_loop, step_key

LORA = Lora(rank=16, alpha=32.0, targets=(ALL_LINEAR,))

SAMPLED = dataclasses.replace(
    works.SMOLLM2, prompts=2, rollouts=8, prompt_tokens=64, response_tokens=32
)
"""Fewer and longer responses, whose weights are read more often: 16 sequences."""


def with_adapters(work: Work) -> Policy:
    """Makes the policy of a work, with adapters on a frozen base."""
    policy = ours.make_policy(work)
    arch = dataclasses.replace(policy.arch, lora=LORA)
    frozen = frozenset(Transformer.parameters(policy.arch))
    return dataclasses.replace(policy, arch=arch, frozen=frozen)


def merge(policy: Policy, params: Params) -> Params:
    """Merges the adapters; returns the weights of the base for decoding."""
    merged = lora.merge(params, policy.arch.lora, policy.arch.dtype)
    return policies.decoding_weights(policy.base, merged)


WEIGHTS: Mapping[str, Callable[[Policy, Params], Params]] = {
    'merged': merge,
    'beside': policies.decoding_weights,
}
"""Side -> the weights that it samples with."""


def sample(side: str, work: Work) -> None:
    """Samples the responses of a work once for each request."""
    policy = with_adapters(work)
    params = policies.init_params(policy, jax.random.key(0), ours.mesh())
    request = plain_loop.checked_request(
        policy,
        num_rollouts=work.rollouts,
        max_response_tokens=work.response_tokens,
        options=sampling_options(),
        stop_tokens=(),
    )
    key = step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0)
    for report in worker.repetitions({'jax': jax.__version__}):
        weights = WEIGHTS[side](policy, params)
        rollouts = plain_loop.sample(
            policy, weights, ours.make_prompts(work), key, request
        )
        report['tokens'] = int(jax.block_until_ready(rollouts).lengths.sum())


def update(side: str, work: Work) -> None:
    """Makes a step of the learner on random responses for each request."""
    policy = ours.make_policy(work) if side == 'full' else with_adapters(work)
    optimizer = optimizers.make_optimizer(ours.OPTIMIZER)
    mesh = ours.mesh()
    learner = Update(
        loss=BatchLoss(policy, 1.0, ours.LOSS),
        optimizer=optimizer,
        mesh=mesh,
        num_updates=1,
        num_micro_batches=4,
    )
    params = policies.init_params(policy, jax.random.key(0), mesh)
    weights = split_weights(policy, params)
    state = states.init_state(policy, optimizer, weights.trained, mesh)
    rollouts, advantages = ours.draw_rollouts(work)
    for report in worker.repetitions({'jax': jax.__version__}):
        state, metrics = learner(state, rollouts, advantages, None, weights.frozen)
        jax.block_until_ready(metrics)
        report['tokens'] = work.new_tokens
        # Parameters, optimizer, and a gradient as large as the trained parameters.
        arrays = jax.tree.leaves((weights.frozen, state, state.params))
        report['state'] = sum(x.nbytes for x in arrays)


JOBS: Mapping[str, tuple[Callable[[str, Work], None], tuple[str, ...], Work]] = {
    'sample': (sample, tuple(WEIGHTS), SAMPLED),
    'update': (update, ('full', 'adapters'), works.GROUPS),
}
"""Job -> what a side does, the sides, and the work."""


def compare(job: str, work: Work, args: argparse.Namespace) -> list[list[str]]:
    """Alternates the sides of a job; returns rows of the table."""
    _, names, _ = JOBS[job]
    options = ['--job', job, '--work', work.to_json()]
    all_sides = [
        Side(name, 'benchmarks.adapters', '--side', name, *options) for name in names
    ]
    with sides.started(all_sides, core=args.core):
        answers: Any = sides.alternate(all_sides, repetitions=args.repetitions)
    for name, reports in answers.items():
        if 'state' in reports[0]:
            size = reports[0]['state'] / 1e6
            print(f'{name}: {size:.1f} MB of weights, moments and gradient')
    return sides.rows(job, answers, base=names[0])


def main() -> None:
    """Reads the command line; compares the sides, or runs one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    parser.add_argument('--job', choices=JOBS, help='this one alone')
    parser.add_argument('--side', help='run this side of the job alone, with:')
    parser.add_argument('--work', help='JSON of a work')
    args = parser.parse_args()
    if args.side:
        JOBS[args.job][0](args.side, Work.from_json(args.work))
        return
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    for job in [args.job] if args.job else JOBS:
        work = works.small(JOBS[job][2]) if args.small else JOBS[job][2]
        print(sides.table([sides.HEAD, *compare(job, work, args)]), flush=True)


if __name__ == '__main__':
    main()
