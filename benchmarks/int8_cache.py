"""Measures what keys and values in int8 change, beside those in the working dtype.

    python -m benchmarks.int8_cache --workdir=runs/maze_tiny
    python -m benchmarks.int8_cache --model=models/smollm2 --task=configs/smollm2.py
    python -m benchmarks.int8_cache --attention

The policy is that of a run, or a published one on a task. Each row is a sampler: the
dtype of its products, and that of its keys and values (``sampling.cache_dtype``).

* *error*: how far the log-probabilities of the same tokens are from those of the first
  row, in absolute value, and *changed*: the share of these tokens at which another
  token is the most probable one. The tokens are draws of the first row.
* *ratio*, *capped*, *ESS*: of tokens that the sampler itself draws, the importance
  weight of ``loss.sampler_weight_cap``: the learner's probability, in products of the
  same dtype, over the sampler's. ESS is the effective sample size of the weights under
  the cap, as a share of the tokens; of *responses*, that of the products of the ratios
  of a response, without a cap.
* *CPU s*: of sampling, with compiled programs.

``--outlier=16`` makes two channels of the keys 16 times larger, and those of the
queries as much smaller, in every head. This changes no attention, and published models
may have such channels. They have most of an int8 key's range.

``--attention`` times attention of a layer of SmolLM2-135M instead, in its plain form:
the newest tokens of 2 prompts of 512 tokens x 16 rollouts of 2,048.
"""

import argparse
import dataclasses
import functools
import pathlib
import time
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import ExperimentConfig, sampling_options
from passk_jax.errors import InputError
from passk_jax.learning.losses import sampler_weights
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.decode_attention import attend_newest, newest_seen
from passk_jax.models.hf import weights
from passk_jax.models.policy import Params, Policy
from passk_jax.models.quantized import quantize
from passk_jax.runs.checkpoints import find_step, restore_params
from passk_jax.runs.saved_config import run_config
from passk_jax.sampling import Purpose, sample, step_key
from passk_jax.setup.published import published_config
from passk_jax.setup.setup import Setup, make_setup
from passk_jax.types import Prompts, Rollouts

CAP = 2.0
_HEADS = (
    *('products', 'keys', 'error', 'largest', 'changed', 'ratio', 'largest'),
    *('capped', 'ESS', 'responses', 'CPU s'),
)


def main() -> None:
    """Prints a row for each side."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--workdir', help='a run')
    parser.add_argument('--model', help='a directory of Hugging Face, or a hub name')
    parser.add_argument('--task', help='task or config file of --model')
    parser.add_argument('--prompts', type=int, default=8)
    parser.add_argument('--rollouts', type=int, default=8)
    parser.add_argument('--tokens', type=int, default=0, help="0: the config's limit")
    parser.add_argument('--outlier', type=float, default=1.0)
    parser.add_argument('--products', default='float32,bfloat16')
    parser.add_argument('--attention', action='store_true')
    args = parser.parse_args()
    if args.attention:
        for dtype in args.products.split(','):
            full, half = time_attention(dtype)
            ratio = half / full
            print(f'{dtype}: {full:.1f} CPU ms, int8 {half:.1f}, ratio {ratio:.2f}')
        return
    setup = make_setup(_configured(args))
    params = _read_params(setup, args)
    show(_HEADS)
    print('|' + f'{"-" * 10}:|' * len(_HEADS))
    with jax.set_mesh(setup.mesh):
        for row in measure(setup, params, args):
            show(row)


def show(cells: Sequence[str]) -> None:
    """Prints a row of the table."""
    print('| ' + ' | '.join(f'{cell:>9}' for cell in cells) + ' |', flush=True)


def _configured(args: argparse.Namespace) -> ExperimentConfig:
    """Returns the configuration of the run, or of the model on its task."""
    if args.workdir:
        config = run_config(pathlib.Path(args.workdir))
    elif args.model and args.task:
        config = published_config(args.model, args.task)
    else:
        raise InputError('name --workdir=RUN, or --model=DIRECTORY with --task=TASK')
    evaluation = dataclasses.replace(config.eval, batch_size=args.prompts)
    model = dataclasses.replace(config.model, compute_dtype='float32')
    return dataclasses.replace(config, eval=evaluation, model=model)


def _read_params(setup: Setup, args: argparse.Namespace) -> Params:
    """Reads the parameters, with larger channels of keys if ``--outlier`` says so."""
    if args.workdir:
        path = pathlib.Path(args.workdir)
        shapes = policies.param_shapes(setup.policy, setup.mesh)
        params = restore_params(path, shapes, step=find_step(path))[0]
    else:
        params = weights.load_params(setup.policy, args.model, setup.mesh)
    return with_outliers(params, setup.policy.arch.head_dim, args.outlier)


def with_outliers(params: Params, head_dim: int, size: float) -> Params:
    """Makes two channels of the keys larger, and those of the queries smaller."""
    half, params = head_dim // 2, dict(params)
    # The two that a rotation mixes.
    factors = jnp.ones(head_dim).at[jnp.array([0, half])].set(size)
    for name, factor in (('key', factors), ('query', 1 / factors)):
        for kind in ('kernel', 'bias'):
            if (full := f'layers.attention.{name}.{kind}') in params:
                params[full] = params[full] * factor
    return params


def measure(
    setup: Setup, params: Params, args: argparse.Namespace
) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each side's row."""
    problems = setup.problems('test')[: args.prompts]
    ((batch, _),) = setup.evaluation_batches('test', problems)
    prompts = sharding.place(setup.mesh, batch.prompts)
    reference, followed = None, None
    dtypes = args.products.split(',')
    for dtype, cache_dtype in ((x, y) for x in dtypes for y in (x, 'int8')):
        arch = dataclasses.replace(setup.policy.arch, dtype=dtype)
        quantizes = cache_dtype == 'int8'
        policy = dataclasses.replace(setup.policy, arch=arch, quantizes_cache=quantizes)
        rollouts, seconds = _draw(setup, policy, params, prompts, args)
        reference = reference or rollouts
        decoding = policies.decoding_weights(policy, params)
        log_probs, best = _follow(policy, decoding, prompts, reference.tokens)
        followed = followed or (log_probs, best)
        seen = _mask(reference)
        error = np.abs(log_probs - followed[0])[seen]
        yield (
            dtype,
            cache_dtype,
            f'{error.mean():.2e}',
            f'{error.max():.2e}',
            f'{(best != followed[1])[seen].mean():.2%}',
            *_weigh(policy, params, rollouts),
            f'{seconds:.1f}',
        )


def _draw(
    setup: Setup,
    policy: Policy,
    params: Params,
    prompts: Prompts,
    args: argparse.Namespace,
) -> tuple[Rollouts, float]:
    """Samples twice; returns the rollouts, and the CPU seconds of the second time."""
    draw = functools.partial(
        sample,
        policy,
        params,
        prompts,
        key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0),
        num_rollouts=args.rollouts,
        max_response_tokens=args.tokens or setup.config.sampling.max_response_tokens,
        options=sampling_options(),
        stop_tokens=setup.stop_tokens,
    )
    jax.block_until_ready(draw())
    start = time.process_time()
    rollouts = jax.block_until_ready(draw())
    return jax.device_get(rollouts), time.process_time() - start


@functools.partial(jax.jit, static_argnums=0)
def _follow(
    policy: Policy, params: Params, prompts: Prompts, tokens: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Decodes along tokens; returns their log-probabilities and the most probable."""
    P, N, T = tokens.shape
    hidden, prefix = policies.prefill(policy, params, prompts)
    hidden = jnp.broadcast_to(hidden[:, None], (P, N, hidden.shape[-1]))
    sizes = {'num_prompts': P, 'num_rollouts': N, 'num_tokens': T}

    def step(carry, token):
        hidden, cache = carry
        logits = policies.logits(policy, params, hidden)
        chosen = jnp.take_along_axis(logits, token[..., None], -1)[..., 0]
        outputs = chosen - jax.nn.logsumexp(logits, axis=-1), logits.argmax(axis=-1)
        return policies.decode(policy, params, token, prefix, cache), outputs

    begin = hidden, policies.empty_cache(policy, **sizes)
    _, outputs = jax.lax.scan(step, begin, jnp.moveaxis(tokens, 2, 0))
    log_probs, best = (jnp.moveaxis(x, 0, 2) for x in outputs)
    return log_probs, best


def _weigh(policy: Policy, params: Params, rollouts: Rollouts) -> tuple[str, ...]:
    """Returns the cells about the weights of a sampler's draws."""
    score = jax.jit(policies.token_log_probs, static_argnums=0)
    learned = score(
        policy, params, rollouts.prompts, rollouts.tokens, temperature=1.0
    ).log_probs
    mask = _mask(rollouts)
    drawn = rollouts.sampler_log_probs
    capped_weights, capped = sampler_weights(learned, drawn, mask, cap=CAP)
    logs = np.where(mask, np.asarray(learned) - drawn, 0).astype(np.float64)
    ratios = np.exp(logs[mask])
    return (
        f'{ratios.mean():.5f}',
        f'{ratios.max():.3f}',
        f'{np.asarray(capped)[mask].mean():.3%}',
        f'{effective_size(np.asarray(capped_weights)[mask]):.5f}',
        f'{effective_size(np.exp(logs.sum(axis=-1)).ravel()):.4f}',
    )


def time_attention(dtype: str, *, repetitions: int = 15) -> tuple[float, float]:
    """Returns the CPU milliseconds of attention, without and with int8; medians."""
    P, N, J, C, H, R, S = 2, 16, 9, 3, 64, 2048, 512
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape), dtype)

    query = draw(P, N, 1, J, H)
    cache = KeyValues(draw(P, C, N, H, R), draw(P, C, N, R, H))
    prefix = KeyValues(draw(P, C, H, S), draw(P, C, S, H))
    before = jnp.full(P, S), jnp.full((P, N), R - 1), jnp.int32(7)
    seen_prefix, seen = newest_seen(*before, ring=R, window=0)
    attend = jax.jit(functools.partial(attend_newest, 'plain'))
    sides = [(cache, prefix), tuple(map(jax.jit(quantize), (cache, prefix)))]
    seconds: list[list[float]] = [[], []]
    for _ in range(repetitions + 1):
        for (keys, prompts), times in zip(sides, seconds, strict=True):
            start = time.process_time()
            jax.block_until_ready(attend(query, keys, seen, prompts, seen_prefix))
            times.append(time.process_time() - start)
    # The first compiles.
    without, with_int8 = (1e3 * float(np.median(times[1:])) for times in seconds)
    return without, with_int8


def effective_size(values: np.ndarray) -> float:
    """Returns ``(sum w)^2 / (n sum w^2)``: 1 if all n weights are equal."""
    values = values.astype(np.float64)
    return float(values.sum() ** 2 / (values.size * np.square(values).sum()))


def _mask(rollouts: Rollouts) -> np.ndarray:
    """Marks the tokens of the responses."""
    return np.arange(rollouts.tokens.shape[-1]) < rollouts.lengths[..., None]


if __name__ == '__main__':
    main()
