"""Measures the peaks of a device, and how long our programs take on it.

1. :func:`matmul_flops` and :func:`copy_bandwidth` measure the ceilings, in the same
   call as the figures that are divided by them.
2. :func:`timed` compiles, then returns the median of repetitions, each waited for.
3. :class:`Model` measures decoding, prefill, log-probabilities, the gradient, the train
   step and the sampler.

Bytes and FLOPs are the least that the mathematics needs: the weights once a step, the
keys and values of a prompt once for its rollouts, causal attention by its pairs,
nothing for recomputation.
"""

import collections
import dataclasses
import functools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp

from benchmarks.ours import LOSS, OPTIMIZER
from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Params, Policy
from passk_jax.models.token_costs import token_flops
from passk_jax.models.transformer import Cache, Prefix
from passk_jax.planning import flops
from passk_jax.sampling import Purpose, keys, sample, step_key
from passk_jax.sampling.distribution import choose, traced_options
from passk_jax.types import Prompts, Rollouts

DECODE_STEPS = 64
"""Tokens of each rollout that are timed in one call."""

PASS_TOKENS = 8192
"""The approximate number of tokens in a pass of the train step."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of one call.

    Attributes:
        seconds: the median.
        compile_seconds: seconds to compile its program.
        result: the result of the last call.
        kernels: rows of :func:`longest_kernels` from one more call; empty without a
            profile.
    """

    seconds: float
    compile_seconds: float
    result: Any
    kernels: Sequence[tuple[str, float, int]] = ()


def timed(
    fn: Callable[..., Any],
    *args: Any,
    repetitions: int,
    donate: tuple[int, ...] = (),
    profile: bool = False,
) -> Timing:
    """Compiles ``fn``, runs it once, then times it.

    Args:
        fn: a function that is not jitted.
        args: its arguments.
        repetitions: how often it is timed.
        donate: positions of donated arguments. The function returns a tuple of as many
            results, which replace them in the next call.
        profile: whether one more call is profiled.
    """
    start = time.perf_counter()
    compiled = jax.jit(fn, donate_argnums=donate).lower(*args).compile()
    compile_seconds = time.perf_counter() - start
    seconds, args = [], list(args)
    for _ in range(1 + repetitions):
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*args))
        seconds.append(time.perf_counter() - start)
        for position, value in zip(donate, result if donate else (), strict=False):
            args[position] = value
    kernels = longest_kernels(lambda: compiled(*args)) if profile else ()
    return Timing(statistics.median(seconds[1:]), compile_seconds, result, kernels)


def longest_kernels(
    call: Callable[[], Any], *, most: int = 24
) -> list[tuple[str, float, int]]:
    """Profiles a call.

    Returns:
        Rows of a name, milliseconds and a number of kernels: the time from the first to
        the last kernel, the sum over all kernels, then the kernels with the longest
        sums. Only on GPUs; empty elsewhere.
    """
    with tempfile.TemporaryDirectory() as directory:
        with jax.profiler.trace(directory):
            jax.block_until_ready(call())
        (path,) = pathlib.Path(directory).rglob('*.xplane.pb')
        planes = list(jax.profiler.ProfileData.from_file(str(path)).planes)
        spans = [
            (event.name, event.start_ns, event.duration_ns)
            for plane in planes
            if plane.name.startswith('/device:')
            for line in plane.lines
            if line.name.startswith('Stream')
            for event in line.events
        ]
    if not spans:
        return []
    milliseconds: collections.Counter[str] = collections.Counter()
    counts = collections.Counter(name for name, *_ in spans)
    for name, _, duration in spans:
        milliseconds[name] += duration / 1e6
    first, last = min(s for _, s, _ in spans), max(s + d for _, s, d in spans)
    return [
        ('from first to last', (last - first) / 1e6, len(spans)),
        ('all kernels', milliseconds.total(), len(spans)),
        *((n, ms, counts[n]) for n, ms in milliseconds.most_common(most)),
    ]


def matmul_flops(size: int, *, repetitions: int) -> float:
    """Measures the FLOP/s of the product of two bfloat16 matrices of this size."""
    # The spectral norm is near 1, so that products stay finite.
    x = jax.random.normal(jax.random.key(0), (size, size)) / (2 * size**0.5)
    x = x.astype(jnp.bfloat16)

    def many(x: jax.Array) -> jax.Array:
        # Each product needs the one before, so that XLA removes none.
        return jax.lax.fori_loop(0, 8, lambda _, y: x @ y, x)

    return 8 * 2 * size**3 / timed(many, x, repetitions=repetitions).seconds


def copy_bandwidth(size: int, *, repetitions: int) -> float:
    """Measures the bytes/s, read and written, of a copy of ``size`` bytes."""
    x = jnp.zeros(size // 4, jnp.uint32)
    # Each call makes eight copies in place, in the donated argument.
    many = functools.partial(
        jax.lax.fori_loop, 0, 8, lambda _, y: jax.lax.optimization_barrier(y + 1)
    )
    timing = timed(lambda x: (many(x),), x, repetitions=repetitions, donate=(0,))
    return 8 * 2 * x.nbytes / timing.seconds


@dataclasses.dataclass(frozen=True)
class Batch:
    """The sizes of a batch: P, N, S and T."""

    prompts: int
    rollouts: int
    prompt_tokens: int
    response_tokens: int

    @property
    def sequences(self) -> int:
        """The number of responses."""
        return self.prompts * self.rollouts


@dataclasses.dataclass(frozen=True)
class Model:
    """A policy with random weights, whose programs are timed ``repetitions`` times.

    With ``profile``, decoding and the train step are profiled once more.
    """

    policy: Policy
    params: Params
    repetitions: int
    profile: bool = False

    def decode(self, batch: Batch) -> tuple[Timing, float, float]:
        """Times ``DECODE_STEPS`` sampled tokens of every rollout, after T tokens.

        Returns:
            The time of all steps, and the bytes and FLOPs that one step needs.
        """
        policy, arch = self.policy, self.policy.arch
        prepare = functools.partial(policies.prepare_decoding, policy)
        weights = jax.jit(prepare)(self.params)
        prefix = _prefix(policy, batch)
        cache = policies.empty_cache(
            policy,
            num_prompts=batch.prompts,
            num_rollouts=batch.rollouts,
            num_tokens=batch.response_tokens + DECODE_STEPS,
        )
        settings = traced_options(sampling_options(), vocab_size=arch.vocab_size)
        key = step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0)

        def run(weights: Params, prefix: Prefix, layers: Any, tokens: jax.Array) -> Any:
            rows = keys.rollout_keys(
                key, jnp.arange(batch.prompts), num_rollouts=batch.rollouts
            )

            def step(_: int, carry: tuple[jax.Array, Cache]) -> Any:
                tokens, cache = carry
                hidden, cache = policies.decode(policy, weights, tokens, prefix, cache)
                choice = choose(
                    policies.logits(policy, weights, hidden),
                    keys.position_uniforms(rows, cache.index),
                    settings,
                    greedy=False,
                    truncate=False,
                )
                return choice.tokens, cache

            cache = Cache(
                layers=layers,
                index=jnp.int32(batch.response_tokens),
                lengths=jnp.full(tokens.shape, batch.response_tokens, jnp.int32),
            )
            tokens, cache = jax.lax.fori_loop(0, DECODE_STEPS, step, (tokens, cache))
            return cache.layers, tokens

        tokens = jnp.zeros((batch.prompts, batch.rollouts), jnp.int32)
        timing = timed(
            run,
            *(weights, prefix, cache.layers, tokens),
            repetitions=self.repetitions,
            donate=(2, 3),
            profile=self.profile,
        )
        length = batch.response_tokens + DECODE_STEPS / 2
        slots = batch.prompts * batch.prompt_tokens + batch.sequences * length
        size = jnp.dtype(arch.dtype).itemsize
        bytes_read = size * (
            token_flops(arch) // 2
            + arch.vocab_size * arch.embed_dim
            + 2 * arch.num_layers * arch.num_kv_heads * arch.head_dim * slots
        )
        needed = flops.decode_flops(
            arch, sequences=batch.sequences, context_tokens=batch.prompt_tokens + length
        )
        return timing, bytes_read, needed

    def prefill(self, batch: Batch) -> tuple[Timing, float]:
        """Times the prompts and the logits at their ends; returns needed FLOPs too."""
        policy = self.policy

        def run(params: Params, prompts: Prompts) -> Any:
            hidden, prefix = policies.prefill(policy, params, prompts)
            return policies.logits(policy, params, hidden), prefix

        timing = timed(run, self.params, _prompts(batch), repetitions=self.repetitions)
        return timing, self._flops(batch, response_tokens=0)

    def log_probs(self, batch: Batch) -> tuple[Timing, float]:
        """Returns time and FLOPs of log-probabilities and entropies of responses."""
        timing = timed(
            self._log_probs,
            *(self.params, _rollouts(batch)),
            repetitions=self.repetitions,
        )
        return timing, self._flops(batch)

    def gradient(self, batch: Batch) -> tuple[Timing, float]:
        """Returns time and FLOPs of forward and backward passes, without optimizer."""

        def loss(params: Params, rollouts: Rollouts) -> jax.Array:
            return self._log_probs(params, rollouts)[0].mean()

        timing = timed(
            jax.grad(loss),
            *(self.params, _rollouts(batch)),
            repetitions=self.repetitions,
        )
        return timing, 3 * self._flops(batch)

    def train_step(self, batch: Batch) -> tuple[Timing, float]:
        """Times the learner's step with AdamW; returns FLOPs too."""
        tokens = batch.prompts * batch.prompt_tokens
        tokens += batch.sequences * batch.response_tokens
        passes = max(1, min(batch.prompts, round(tokens / PASS_TOKENS)))
        mesh = sharding.one_device_mesh(jax.devices()[0])
        optimizer = optimizers.make_optimizer(OPTIMIZER)
        update = Update(
            loss=BatchLoss(self.policy, 1.0, LOSS),
            optimizer=optimizer,
            mesh=mesh,
            num_updates=1,
            num_micro_batches=passes,
        )
        params = jax.tree.map(jnp.copy, self.params)
        state = states.init_state(self.policy, optimizer, params, mesh)
        rollouts = _rollouts(batch)
        advantages = jnp.ones((batch.prompts, batch.rollouts))
        start = time.perf_counter()
        state, metrics = jax.block_until_ready(update(state, rollouts, advantages))
        compile_seconds = time.perf_counter() - start
        seconds = []
        for _ in range(self.repetitions):
            start = time.perf_counter()
            state, metrics = update(state, rollouts, advantages)
            jax.block_until_ready((state, metrics))
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds)
        kernels: Sequence[Any] = ()
        if self.profile:
            kernels = longest_kernels(lambda: update(state, rollouts, advantages))
        timing = Timing(median, compile_seconds - median, metrics, kernels)
        return timing, 3 * self._flops(batch)

    def generate(self, batch: Batch) -> tuple[Timing, dict[str, float]]:
        """Times the sampler, and compares its log-probabilities with the learner's.

        Returns:
            The time, and the mean and the largest difference of a token.
        """
        prompts = _prompts(batch)
        seconds = []
        for step in range(1 + self.repetitions):
            start = time.perf_counter()
            rollouts = sample(
                self.policy,
                self.params,
                prompts,
                key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=step),
                num_rollouts=batch.rollouts,
                max_response_tokens=batch.response_tokens,
                options=sampling_options(),
                stop_tokens=(),
            )
            jax.block_until_ready(rollouts)
            seconds.append(time.perf_counter() - start)
        log_probs, *_ = jax.jit(self._log_probs)(self.params, rollouts)
        gap = jnp.abs(log_probs - rollouts.untruncated_log_probs)
        median = statistics.median(seconds[1:])
        timing = Timing(median, seconds[0] - median, rollouts)
        return timing, {'gap_mean': float(gap.mean()), 'gap_max': float(gap.max())}

    def _log_probs(self, params: Params, rollouts: Rollouts) -> Any:
        return policies.token_log_probs(
            self.policy, params, rollouts.prompts, rollouts.tokens, temperature=1.0
        )

    def _flops(self, batch: Batch, response_tokens: int | None = None) -> float:
        length = batch.response_tokens if response_tokens is None else response_tokens
        return flops.model_flops(
            self.policy.arch,
            num_prompts=batch.prompts,
            num_rollouts=batch.rollouts,
            prompt_tokens=batch.prompt_tokens,
            response_tokens=length,
        )


def _prompts(batch: Batch) -> Prompts:
    shape = (batch.prompts, batch.prompt_tokens)
    return Prompts(
        tokens=jax.random.randint(jax.random.key(1), shape, 1, 32),
        lengths=jnp.full(batch.prompts, batch.prompt_tokens, jnp.int32),
        problem_ids=jnp.arange(batch.prompts, dtype=jnp.int32),
    )


def _rollouts(batch: Batch) -> Rollouts:
    shape = (batch.prompts, batch.rollouts, batch.response_tokens)
    zeros = jnp.zeros(shape, jnp.float32)
    return Rollouts(
        prompts=_prompts(batch),
        tokens=jax.random.randint(jax.random.key(2), shape, 1, 32),
        lengths=jnp.full(shape[:2], batch.response_tokens, jnp.int32),
        stopped=jnp.zeros(shape[:2], bool),
        sampler_log_probs=zeros,
        untruncated_log_probs=zeros,
        entropies=zeros,
    )


def _prefix(policy: Policy, batch: Batch) -> Prefix:
    """Makes keys and values of zeros, as only their size matters."""
    arch = policy.arch
    lead = (batch.prompts, arch.num_kv_heads)
    dtype = jnp.dtype(arch.dtype)
    layers = tuple(
        KeyValues(
            keys=jnp.zeros((*lead, arch.head_dim, batch.prompt_tokens), dtype),
            values=jnp.zeros((*lead, batch.prompt_tokens, arch.head_dim), dtype),
        )
        for _ in range(arch.num_layers)
    )
    lengths = jnp.full(batch.prompts, batch.prompt_tokens, jnp.int32)
    return Prefix(layers=layers, lengths=lengths)
