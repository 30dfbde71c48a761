"""Compares the learner's packed rows with a row a response, in CPU seconds of a step.

    python -m benchmarks.packed_rows

The policy has the shape of SmolLM2-135M and random weights. A step has 8 prompts of 100
tokens with 16 responses, whose lengths are log-normal with half of the limit as mean,
so half of the positions of a row a response are pads. All advantages differ from 0;
``--zeros`` makes those of so many problems 0, which need no backward pass. Both sides
are this library: ``train.packing`` is ``prompts`` and ``rows``. The first step, which
compiles, is not measured. ``--layers`` measures a shallower policy in less time.
"""

import argparse
import dataclasses
import time

import jax
import numpy as np

from benchmarks import ours
from passk_jax import sharding
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.models.policy import Policy
from passk_jax.planning import lengths
from passk_jax.types import Prompts, Rollouts

MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct'
P, N, S = 8, 16, 100
LOSS = dataclasses.replace(ours.LOSS, clip_high=0.28, aggregation='token')
OPTIMIZER = dataclasses.replace(ours.OPTIMIZER, max_grad_norm=1.0)


def main() -> None:
    """Prints the CPU seconds of a step of both sides and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--layers', type=int, default=30)
    parser.add_argument('--limit', type=int, default=256, help='tokens of a response')
    parser.add_argument('--zeros', type=int, default=0, help='problems without signal')
    parser.add_argument('--steps', type=int, default=1, help='measured steps')
    args = parser.parse_args()
    seconds = {}
    for side in ('prompts', 'rows'):
        seconds[side], padding = measure(side, args)
        print(f'{side:<8} {seconds[side]:8.2f} CPU s, {padding:.0%} pads', flush=True)
    print(f'ratio    {seconds["rows"] / seconds["prompts"]:8.2f}')


def measure(side: str, args: argparse.Namespace) -> tuple[float, float]:
    """Returns the CPU seconds of a step, and the share of pads."""
    policy = make_policy(args.layers)
    mesh = sharding.one_device_mesh(jax.devices()[0])
    update = Update(
        loss=BatchLoss(policy, 1.0, LOSS),
        optimizer=optimizers.make_optimizer(OPTIMIZER),
        mesh=mesh,
        num_updates=1,
        # A prompt with its responses fills a core.
        num_micro_batches=P,
        deals=side == 'rows',
    )
    with jax.set_mesh(mesh):
        params = policies.init_params(policy, jax.random.key(0), mesh)
        state = states.init_state(policy, update.optimizer, params, mesh)
        rollouts, advantages = make_rollouts(args)
        seconds = 0.0
        for step in range(1 + args.steps):
            begun = time.process_time()
            state, metrics = update(state, rollouts, advantages)
            jax.block_until_ready((state, metrics))
            seconds += (time.process_time() - begun) if step else 0.0
    return seconds / args.steps, float(metrics['padding'])


def make_policy(num_layers: int) -> Policy:
    """Makes a policy of the published shape."""
    arch = hf_config.arch_from_hf(
        PUBLISHED[MODEL],
        param_dtype='float32',
        compute_dtype='float32',
        remat='none',
        attention='plain',
    )
    arch = dataclasses.replace(arch, num_layers=num_layers)
    return Policy(arch, head_chunk_tokens=256)


def make_rollouts(args: argparse.Namespace) -> tuple[Rollouts, np.ndarray]:
    """Makes random rollouts and their advantages."""
    rng = np.random.default_rng(0)
    drawn = lengths.read(f'lognormal:{args.limit / 2}', limit=args.limit).draw(P, N)
    zeros = np.zeros((P, N, args.limit), np.float32)
    tokens = rng.integers(0, 49152, (P, N, args.limit)).astype(np.int32)
    advantages = rng.normal(size=(P, N)).astype(np.float32)
    advantages[: args.zeros] = 0
    prompts = Prompts(
        tokens=rng.integers(0, 49152, (P, S)).astype(np.int32),
        lengths=np.full(P, S, np.int32),
        problem_ids=np.arange(P, dtype=np.int32),
    )
    rollouts = Rollouts(
        prompts=prompts,
        tokens=np.where(np.arange(args.limit) < drawn[..., None], tokens, 0),
        lengths=drawn.astype(np.int32),
        stopped=drawn < args.limit,
        sampler_log_probs=zeros,
        untruncated_log_probs=zeros,
        entropies=zeros,
    )
    return rollouts, advantages


if __name__ == '__main__':
    main()
