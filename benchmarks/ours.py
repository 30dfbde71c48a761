"""Runs our side of a comparison: ``python -m benchmarks.ours JOB --work=...``.

It calls the library's functions as the training loop does:

* ``model`` writes the weights that all sides read, and ends.
* ``generate`` samples the responses to the prompts.
* ``step`` is one step of RL: sample, bring the tokens to the host as text, verify,
  estimate, update.
* ``learn`` is the update of a step alone, on random responses. ``repeated`` is the same
  with each prompt repeated for each of its rollouts, as in a trainer without shared
  prompts.
* ``matmul`` is one large product of matrices, the ceiling of the core.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jax import numpy as jnp

from benchmarks import work as works
from benchmarks import worker
from benchmarks.work import Work
from passk_jax import sharding
from passk_jax.advantages import make_estimator
from passk_jax.config import LossConfig, OptimizerConfig, sampling_options
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.optimizer import Optimizer
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.arch import Arch, Layer
from passk_jax.models.families.qwen2 import FAMILY
from passk_jax.models.hf import config, weights
from passk_jax.models.hf import save as hf_save
from passk_jax.models.policy import Params, Policy
from passk_jax.models.rope import Rope
from passk_jax.sampling import Purpose, sample, step_key
from passk_jax.types import Prompts, Rollouts

LOSS = LossConfig(
    clip_low=0.2,
    clip_high=0.2,
    aggregation='sequence',
    entropy_coef=0.0,
    kl_coef=0.0,
    kl_estimator='k3',
    mask_truncated=False,
    sampler_weight_cap=0.0,
    router_aux_coef=0.0,
)
OPTIMIZER = OptimizerConfig(
    name='adamw',
    learning_rate=1e-6,
    warmup_updates=0,
    schedule='constant',
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    weight_decay=0.0,
    max_grad_norm=0.0,
)
"""The optimizer of every side."""

MATMUL = 2048
"""Rows and columns of the matrices whose product is the ceiling."""


def make_policy(work: Work) -> Policy:
    """Makes the policy of a work."""
    arch = Arch(
        vocab_size=work.vocab,
        num_layers=work.layers,
        embed_dim=work.embed,
        num_heads=work.heads,
        num_kv_heads=work.kv_heads,
        head_dim=work.head_dim,
        mlp_dim=work.mlp,
        layers=(Layer(Rope(kind='default', theta=10_000.0)),),
        norm_eps=1e-6,
        tie_embeddings=True,
        qkv_bias=True,
        qk_norm=False,
        param_dtype='float32',
        dtype='float32',
        remat='none',
        attention='plain',
    )
    return Policy(arch=arch, head_chunk_tokens=4096)


def make_prompts(work: Work) -> Prompts:
    """Makes the prompts of a work."""
    return Prompts(
        tokens=jnp.asarray(works.prompt_tokens(work)),
        lengths=jnp.full(work.prompts, work.prompt_tokens, jnp.int32),
        problem_ids=jnp.arange(work.prompts, dtype=jnp.int32),
    )


def write_model(work: Work, directory: pathlib.Path) -> None:
    """Writes random weights and their ``config.json``."""
    policy = make_policy(work)
    params = policies.init_params(policy, jax.random.key(0), mesh())
    directory.mkdir(parents=True)
    hf_save.write_params(
        policy, params, directory, dtype='float32', max_shard_bytes=1 << 30
    )
    fields = config.hf_config_fields(
        policy.arch,
        FAMILY,
        dtype='float32',
        # transformers warns if a batch only just fits.
        max_positions=2 * (work.prompt_tokens + work.response_tokens),
        eos_token_ids=[],
        pad_token_id=None,
    )
    (directory / 'config.json').write_text(json.dumps(fields))


def check(policy: Policy, params: Params, work: Work) -> list[float]:
    """Computes log-probabilities of ``works.check_tokens``, summed over a response."""
    tokens = jnp.asarray(works.check_tokens(work))[:, None]
    log_probs, *_ = policies.token_log_probs(
        policy, params, make_prompts(work), tokens, temperature=1.0
    )
    return log_probs.sum((1, 2)).tolist()


@dataclasses.dataclass
class Ours:
    """The policy, its weights and the settings of the jobs."""

    work: Work
    policy: Policy
    params: Params
    micro_batches: int
    gradient: str

    def sample(self, params: Params, step: int) -> Rollouts:
        """Samples the responses to the prompts."""
        return sample(
            self.policy,
            params,
            make_prompts(self.work),
            key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=step),
            num_rollouts=self.work.rollouts,
            max_response_tokens=self.work.response_tokens,
            options=sampling_options(),
            stop_tokens=(),
        )

    def update(self, optimizer: Optimizer) -> Update:
        """Makes the verb *update*, with one update a step."""
        return Update(
            loss=BatchLoss(self.policy, 1.0, LOSS),
            optimizer=optimizer,
            mesh=mesh(),
            num_updates=1,
            num_micro_batches=self.micro_batches,
        )

    def verify(self, rollouts: Rollouts) -> np.ndarray:
        """Computes rewards ``[P, N]`` of the responses, from their text on the host."""
        tokens, lengths = jax.device_get((rollouts.tokens, rollouts.lengths))
        texts = [
            [works.to_text(row[:length]) for row, length in zip(*pair, strict=True)]
            for pair in zip(tokens, lengths, strict=True)
        ]
        return np.array([[works.reward(text) for text in row] for row in texts])


def generate(ours: Ours, ready: dict[str, Any]) -> None:
    """Samples once a repetition."""
    for step, report in enumerate(worker.repetitions(ready)):
        rollouts = jax.block_until_ready(ours.sample(ours.params, step))
        report['tokens'] = int(rollouts.lengths.sum())


def rl_step(ours: Ours, ready: dict[str, Any]) -> None:
    """Makes one step of RL per repetition, with GRPO's group-normalized advantage."""
    optimizer = optimizers.make_optimizer(OPTIMIZER)
    update = ours.update(optimizer)
    state = states.init_state(ours.policy, optimizer, ours.params, mesh())
    estimate = jax.jit(make_estimator('pass_at_1', num_rollouts=ours.work.rollouts))
    for step, report in enumerate(worker.repetitions(ready)):
        start = worker.cpu_seconds()
        rollouts = jax.block_until_ready(ours.sample(state.params, step))
        report['rollout'] = worker.cpu_seconds() - start
        rewards = ours.verify(rollouts)
        advantages = estimate(rewards, rewards > 0)
        state, metrics = update(state, rollouts, advantages)
        report['loss'] = float(jax.block_until_ready(metrics)['loss'])
        report['tokens'] = int(rollouts.lengths.sum())


def repeat_prompts(rollouts: Rollouts) -> Rollouts:
    """Repeats the prompt for each response: ``P * N`` groups of one."""
    rows = rollouts.tokens.shape[0] * rollouts.tokens.shape[1]
    prompts = jax.tree.map(
        lambda x: jnp.repeat(x, rollouts.tokens.shape[1], axis=0), rollouts.prompts
    )
    apart = dataclasses.replace(rollouts, prompts=None)
    apart = jax.tree.map(lambda x: x.reshape(rows, 1, *x.shape[2:]), apart)
    return dataclasses.replace(apart, prompts=prompts)


def learn(ours: Ours, ready: dict[str, Any], *, repeated: bool) -> None:
    """Updates once per repetition; first writes the gradient to ``ours.gradient``."""
    rollouts, advantages = draw_rollouts(ours.work)
    if repeated:
        rollouts = repeat_prompts(rollouts)
        advantages = advantages.reshape(-1, 1)
    if ours.gradient:
        np.savez(ours.gradient, **_gradient(ours, rollouts, advantages))
    optimizer = optimizers.make_optimizer(OPTIMIZER)
    update = ours.update(optimizer)
    state = states.init_state(ours.policy, optimizer, ours.params, mesh())
    for report in worker.repetitions(ready):
        state, metrics = update(state, rollouts, advantages)
        report['loss'] = float(jax.block_until_ready(metrics)['loss'])


def draw_rollouts(work: Work) -> tuple[Rollouts, jax.Array]:
    """Draws random responses and advantages."""
    draw = np.random.default_rng(2)
    shape = (work.prompts, work.rollouts, work.response_tokens)
    zeros = jnp.zeros(shape, jnp.float32)
    rollouts = Rollouts(
        prompts=make_prompts(work),
        tokens=jnp.asarray(draw.integers(1, work.vocab, shape, dtype=np.int32)),
        lengths=jnp.full(shape[:2], work.response_tokens, jnp.int32),
        stopped=jnp.zeros(shape[:2], bool),
        sampler_log_probs=zeros,
        untruncated_log_probs=zeros,
        entropies=zeros,
    )
    return rollouts, jnp.asarray(draw.normal(size=shape[:2]).astype(np.float32))


def _gradient(
    ours: Ours, rollouts: Rollouts, advantages: jax.Array
) -> dict[str, np.ndarray]:
    """Reads the gradient of the train step from the step itself."""
    # A trace without decay keeps the gradient in the optimizer's state.
    keep = optax.chain(optax.trace(decay=0.0), optax.scale(0.0))
    params = jax.tree.map(jnp.copy, ours.params)
    state = states.init_state(ours.policy, keep, params, mesh())
    state, _ = ours.update(keep)(state, rollouts, advantages)
    return jax.device_get(state.opt_state[0].trace)


def matmul(ready: dict[str, Any]) -> None:
    """Multiplies two float32 matrices four times; reports the GFLOPs as ``gflop``."""
    x = jax.random.normal(jax.random.key(0), (MATMUL, MATMUL))
    multiply = jax.jit(jnp.matmul)
    for report in worker.repetitions(ready):
        for _ in range(4):
            jax.block_until_ready(multiply(x, x))
        report['gflop'] = 4 * 2 * MATMUL**3 / 1e9


@functools.cache
def mesh() -> jax.sharding.Mesh:
    """Makes the mesh of one device."""
    return sharding.one_device_mesh(jax.devices()[0])


JOBS: dict[str, Callable[[Ours, dict[str, Any]], None]] = {
    'generate': generate,
    'step': rl_step,
    'learn': functools.partial(learn, repeated=False),
    'repeated': functools.partial(learn, repeated=True),
}


def main() -> None:
    """Reads the command line and does the job."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('job', choices=['model', 'matmul', *JOBS])
    parser.add_argument('--work', help='JSON of a work')
    parser.add_argument('--model', help='directory of the weights')
    parser.add_argument('--micro_batches', type=int, default=1, help='of an update')
    parser.add_argument('--gradient', default='', help='file for the gradient')
    args = parser.parse_args()
    ready = {'jax': jax.__version__}
    if args.job == 'matmul':
        matmul(ready)
        return
    work = Work.from_json(args.work)
    if args.job == 'model':
        write_model(work, pathlib.Path(args.model))
        return
    policy = make_policy(work)
    params = weights.load_params(policy, args.model, mesh())
    ready['check'] = check(policy, params, work)
    ours = Ours(work, policy, params, args.micro_batches, args.gradient)
    JOBS[args.job](ours, ready)


if __name__ == '__main__':
    main()
