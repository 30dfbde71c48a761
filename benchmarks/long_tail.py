"""What the schedule of sampling gains over waiting for the longest response.

    python -m benchmarks.long_tail

One process on one core, the plain loop and the schedule in turns, medians of process
CPU seconds, which a busy machine changes least. The policy is that of
benchmarks/README.md: 3.2 million parameters in float32, prompts of 100 tokens, a
vocabulary of 64. Lengths are forced, and are the same for both; so are the tokens.
"""

import dataclasses
import os
import statistics
import sys
import time
from unittest import mock

import jax
import numpy as np

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.arch import Arch
from passk_jax.models.rope import Rope
from passk_jax.sampling import Purpose, sampler, schedule, step_key
from passk_jax.types import Prompts
from tests.sampling import lengths

_PROMPT_TOKENS = 100
# Name -> quantile function of the lengths, problems, rollouts, limit.
WORK = {
    'equal': (lengths.never, 8, 32, 128),
    'log-normal': (lengths.log_normal, 8, 32, 256),
    'geometric': (lengths.geometric, 8, 32, 256),
    '4 x 32 x 64': (lengths.never, 4, 32, 64),
}


def make_policy(seed: int) -> policies.Policy:
    """The policy; another seed is another static one, which shares no program."""
    arch = Arch(
        vocab_size=64,
        num_layers=4,
        embed_dim=256,
        num_heads=4,
        num_kv_heads=2,
        head_dim=64,
        mlp_dim=768,
        rope=Rope(kind='default', theta=1e4),
        norm_eps=1e-6,
        tie_embeddings=False,
        qkv_bias=True,
        qk_norm=False,
        param_dtype='float32',
        dtype='float32',
        remat='none',
        attention='plain',
    )
    return policies.Policy(arch, head_chunk_tokens=1024 + seed)


def make_prompts(num_prompts: int) -> Prompts:
    """Random ones."""
    rng = np.random.default_rng(0)
    shape = (num_prompts, _PROMPT_TOKENS)
    return Prompts(
        tokens=rng.integers(2, 64, shape, np.int32),
        lengths=np.full(num_prompts, _PROMPT_TOKENS, np.int32),
        problem_ids=np.arange(num_prompts, dtype=np.int32),
    )


def measure(name: str, *, repeats: int, max_cache_bytes: int) -> dict[str, float]:
    """CPU seconds of both, and rows decoded a token."""
    quantile, P, N, T = WORK[name]
    policy = make_policy(list(WORK).index(name))
    mesh = sharding.one_device_mesh(jax.devices()[0])
    params = policies.init_params(policy, jax.random.key(0), mesh)
    prompts = make_prompts(P)

    def run(sample, **more):
        rollouts = sample(
            policy,
            params,
            prompts,
            key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0),
            num_rollouts=N,
            max_response_tokens=T,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            stop_tokens=(lengths.STOP,),
            **more,
        )
        return jax.device_get(dataclasses.replace(rollouts, prompts=None))

    decoded = []
    finish = schedule.Decoding.finish

    def counted(self, on_ended):
        finish(self, on_ended)
        decoded.append(self.row_steps)

    both = {
        'plain': lambda: run(sampler.sample),
        'schedule': lambda: run(schedule.sample, max_cache_bytes=max_cache_bytes),
    }
    watch = mock.patch.object(schedule.Decoding, 'finish', counted)
    with lengths.forced(quantile), watch:
        found = {name: once() for name, once in both.items()}
        np.testing.assert_array_equal(found['plain'].tokens, found['schedule'].tokens)
        seconds = {name: [] for name in both}
        for _ in range(repeats):
            for name, once in both.items():
                start = time.process_time()
                once()
                seconds[name].append(time.process_time() - start)
        rows = decoded[-1]
    tokens = int(found['plain'].lengths.sum())
    steps = int(found['plain'].lengths.max())
    return {
        'tokens': tokens,
        'plain s': statistics.median(seconds['plain']),
        'schedule s': statistics.median(seconds['schedule']),
        'plain rows / token': P * N * steps / tokens,
        'schedule rows / token': rows / tokens,
    }


def main(names: list[str]) -> None:
    """Prints the table."""
    # Before JAX starts a backend, which counts the cores.
    jax.config.update('jax_platforms', 'cpu')
    os.sched_setaffinity(0, {int(os.environ.get('BENCHMARK_CORE', '0'))})
    budget = int(os.environ.get('BENCHMARK_CACHE_BYTES', '0'))
    repeats = int(os.environ.get('BENCHMARK_REPEATS', '3'))
    for name in names or WORK:
        row = measure(name, repeats=repeats, max_cache_bytes=budget)
        row['speed-up'] = row['plain s'] / row['schedule s']
        cells = '  '.join(f'{key} {value:.4g}' for key, value in row.items())
        print(f'{name}: {cells}', flush=True)


if __name__ == '__main__':
    main(sys.argv[1:])
