"""Runs tunix's side of a comparison: ``python -m benchmarks.tunix_peer JOB --work=``.

It runs under a python that has google-tunix but not our library. As tunix's examples
do, it uses tunix's Qwen2 from a Hugging Face directory, its sampler, its cluster and
its GRPO learner, on one device. The cache has exactly the tokens that it needs (the
default of 1,024 slots is five times slower here).

* ``generate`` samples the responses to the prompts, which it repeats as tunix's learner
  does.
* ``step`` is one step of the learner, and waits for its end.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from jax import numpy as jnp
from tunix.generate import sampler as samplers
from tunix.models.qwen2 import model as qwen2
from tunix.models.qwen2 import params as qwen2_params
from tunix.rl import common, rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout

from benchmarks import work as works
from benchmarks import worker
from benchmarks.work import Work


class Tokenizer:
    """The methods of a tokenizer that tunix calls; tokens are numbers."""

    def __init__(self, work: Work):
        self._end = work.end

    def encode(self, text: str, **_: Any) -> list[int]:
        return works.to_tokens(text)

    def decode(self, ids: Any, **_: Any) -> str:
        return works.to_text(ids)

    def bos_id(self) -> int:
        # tunix puts one in front of a prompt unless this is 0.
        return 0

    def eos_id(self) -> int:
        return self._end

    def pad_id(self) -> int:
        return works.PAD


def load(work: Work, source: str) -> qwen2.Qwen2:
    """Loads tunix's Qwen2 with the weights of a directory."""
    config = qwen2.ModelConfig(
        num_layers=work.layers,
        vocab_size=work.vocab,
        embed_dim=work.embed,
        hidden_dim=work.mlp,
        num_heads=work.heads,
        head_dim=work.head_dim,
        num_kv_heads=work.kv_heads,
        norm_eps=1e-6,
        rope_theta=10_000,
        use_tied_embedding=True,
    )
    return qwen2_params.create_model_from_safe_tensors(
        source, config, mesh=_mesh(), dtype=jnp.float32
    )


def check(model: qwen2.Qwen2, work: Work) -> list[float]:
    """Computes log-probabilities of ``work.check_tokens``, summed over a response."""
    graph, state = nnx.split(model)
    log_probs = common.compute_per_token_logps(
        graph,
        state,
        prompt_tokens=jnp.asarray(works.prompt_tokens(work)),
        completion_tokens=jnp.asarray(works.check_tokens(work)),
        pad_id=works.PAD,
        eos_id=work.end,
    )
    log_probs = log_probs[0] if isinstance(log_probs, tuple) else log_probs
    return log_probs.sum(1).tolist()


def prompts(work: Work) -> list[str]:
    """Returns the prompts as text."""
    return [works.to_text(row) for row in works.prompt_tokens(work)]


def generate(model: qwen2.Qwen2, work: Work, ready: dict[str, Any]) -> None:
    """Samples once a repetition."""
    cache = samplers.CacheConfig(
        cache_size=work.prompt_tokens + work.response_tokens,
        num_layers=work.layers,
        num_kv_heads=work.kv_heads,
        head_dim=work.head_dim,
    )
    sampler = samplers.Sampler(model, Tokenizer(work), cache)
    repeated = [text for text in prompts(work) for _ in range(work.rollouts)]
    for step, report in enumerate(worker.repetitions(ready)):
        output = sampler(
            repeated,
            max_generation_steps=work.response_tokens,
            max_prompt_length=work.prompt_tokens,
            temperature=1.0,
            top_p=1.0,
            seed=step,
        )
        report['tokens'] = sum(map(len, output.tokens))


def rl_step(
    model: qwen2.Qwen2, work: Work, micro_batches: int, ready: dict[str, Any]
) -> None:
    """Runs steps of tunix's GRPO learner, without a reference model."""
    written = []

    def rewards(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        written.append(sum(len(works.to_tokens(text)) for text in completions))
        return [works.reward(text) for text in completions]

    cluster = rl_cluster.RLCluster(
        actor=model,
        tokenizer=Tokenizer(work),
        cluster_config=rl_cluster.ClusterConfig(
            role_to_mesh=dict.fromkeys(rl_cluster.Role, _mesh()),
            training_config=rl_cluster.RLTrainingConfig(
                actor_optimizer=optax.adamw(1e-6, b1=0.9, b2=0.999, weight_decay=0.0),
                eval_every_n_steps=1_000_000,
                max_steps=1_000_000,
                mini_batch_size=work.prompts,
                train_micro_batch_size=work.prompts // micro_batches,
                rollout_micro_batch_size=work.prompts,
                compute_logps_micro_batch_size=work.prompts,
            ),
            rollout_config=base_rollout.RolloutConfig(
                max_tokens_to_generate=work.response_tokens,
                max_prompt_length=work.prompt_tokens,
                kv_cache_size=work.prompt_tokens + work.response_tokens,
                temperature=1.0,
                top_p=1.0,
            ),
        ),
    )
    learner = grpo_learner.GRPOLearner(
        rl_cluster=cluster,
        algo_config=grpo_learner.GRPOConfig(
            num_generations=work.rollouts, num_iterations=1, beta=0.0, epsilon=0.2
        ),
        reward_fns=rewards,
    )

    def batches() -> Iterator[dict[str, np.ndarray]]:
        # The learner asks for the next batch when it has finished the one before.
        for report in worker.repetitions(ready):
            yield {'prompts': np.array(prompts(work))}
            report['tokens'] = written.pop()

    learner.train(batches())


def _mesh() -> jax.sharding.Mesh:
    return jax.make_mesh(
        (1, 1), ('fsdp', 'tp'), axis_types=(jax.sharding.AxisType.Auto,) * 2
    )


def main() -> None:
    """Reads the command line and does the job."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('job', choices=['generate', 'step'])
    parser.add_argument('--work', required=True, help='JSON of a work')
    parser.add_argument('--model', required=True, help='directory of the weights')
    parser.add_argument('--micro_batches', type=int, default=1, help='of an update')
    args = parser.parse_args()
    # A call returns when its work is done, so a step's seconds are of that step alone.
    jax.config.update('jax_cpu_enable_async_dispatch', False)
    work = Work.from_json(args.work)
    model = load(work, args.model)
    ready = {'jax': jax.__version__, 'check': check(model, work)}
    if args.job == 'generate':
        generate(model, work, ready)
    else:
        rl_step(model, work, args.micro_batches, ready)


if __name__ == '__main__':
    main()
