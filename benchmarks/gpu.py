"""Measures our programs on an accelerator, as fractions of its measured peaks.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --models Qwen/Qwen2.5-0.5B-Instruct --json out.json
    python -m benchmarks.gpu --rows='0.5B.*decode 128 x 1|train_step' --profile
    JAX_PLATFORMS=cpu python -m benchmarks.gpu --small

First it measures the ceilings: a large bfloat16 product and a large copy. Then, for
each model with random weights in bfloat16:

* decoding: the time that the bytes and FLOPs of a step need at the ceilings over its
  time, and its bandwidth over that of the copy;
* prefill, log-probabilities and the gradient: their FLOP/s over those of the product,
  for a group with its prompt shared and repeated too;
* the sampler, with the distance of its log-probabilities to the learner's.

The learner's step has float32 parameters and AdamW's moments, which fit one device only
for the smaller models. That of Qwen3-0.6B has 16,384 tokens and recomputes everything,
as in a figure that prime-rl publishes. ``--rows`` selects rows by the expression that
it finds in model, what, P x N and S + T. The last line is everything as JSON.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from benchmarks import sides
from benchmarks.accelerator import (
    DECODE_STEPS,
    Batch,
    Model,
    Timing,
    copy_bandwidth,
    matmul_flops,
)
from passk_jax import sharding
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.models.attention_kernels import choose_implementation
from passk_jax.models.hf import config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.models.policy import Policy
from passk_jax.planning.chips import chip_of

Fields = dict[str, Any]

MODELS = (
    'Qwen/Qwen2.5-0.5B-Instruct',
    'Qwen/Qwen3-0.6B',
    'Qwen/Qwen2.5-7B-Instruct',
)

# The context is the prompt and about a hundred tokens of the response.
DECODING = (
    Batch(1, 1, 448, 32),
    Batch(32, 1, 896, 96),
    Batch(128, 1, 896, 96),
    Batch(256, 1, 896, 96),
    # A group of 32 with the prompt stored once, and stored 32 times.
    Batch(4, 32, 2048, 96),
    Batch(128, 1, 2048, 96),
)
PREFILL = Batch(8, 1, 1024, 1)
TRAINING = (
    Batch(8, 1, 128, 896),
    # A group of 16, and the same with repeated prompts: ideally 1.88 times as long.
    Batch(1, 16, 512, 512),
    Batch(16, 1, 512, 512),
)
STEP = Batch(4, 16, 256, 512)
# Model -> what its learner's step recomputes, and its batches.
STEPS = {
    MODELS[0]: ('attention', (*TRAINING, STEP)),
    # "Qwen3-0.6B, RL, one H100, full recompute, 16,384 tokens a step: 11,896 tokens a
    # second", says prime-rl.
    MODELS[1]: ('full', (Batch(8, 1, 1024, 1024),)),
}

SMALL = Batch(2, 2, 6, 4)


@dataclasses.dataclass(frozen=True)
class Ceilings:
    """The measured peaks of the device: FLOP/s, and bytes/s read and written."""

    flops: float
    bandwidth: float


def tiny_fields() -> Fields:
    """Returns a ``config.json`` for ``--small``."""
    sizes = {
        'hidden_size': 32,
        'intermediate_size': 48,
        'num_attention_heads': 4,
        'num_hidden_layers': 2,
        'num_key_value_heads': 2,
        'vocab_size': 64,
    }
    return {**PUBLISHED[MODELS[0]], **sizes}


def make_model(
    fields: Any, *, masters: str, remat: str, args: argparse.Namespace
) -> Model:
    """Draws random weights of the model that a ``config.json`` describes."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / 'config.json'
        path.write_text(json.dumps(dict(fields)))
        arch = config.arch_from_hf(
            directory,
            param_dtype=masters,
            compute_dtype='bfloat16',
            remat=remat,
            attention='plain',
        )
    attention = choose_implementation(
        'auto',
        platform=jax.default_backend(),
        dtype='bfloat16',
        head_dim=arch.head_dim,
    )
    arch = dataclasses.replace(arch, attention=attention)
    policy = Policy(arch=arch, head_chunk_tokens=2048)
    mesh = sharding.one_device_mesh(jax.devices()[0])
    params = policies.init_params(policy, jax.random.key(0), mesh)
    return Model(policy, params, args.repetitions, args.profile)


def decode_row(model: Model, batch: Batch, ceilings: Ceilings) -> Fields:
    """Makes a row of decoding."""
    timing, bytes_read, needed = model.decode(batch)
    seconds = timing.seconds / DECODE_STEPS
    floor = max(bytes_read / ceilings.bandwidth, needed / ceilings.flops)
    return {
        'what': 'decode',
        **dataclasses.asdict(batch),
        'ms': 1e3 * seconds,
        'tokens_per_second': batch.sequences / seconds,
        'gigabytes_counted': bytes_read / 1e9,
        'of_copy_bandwidth': bytes_read / seconds / ceilings.bandwidth,
        'of_floor': floor / seconds,
        **_common_fields(timing),
    }


def compute_row(
    what: str, batch: Batch, measured: tuple[Timing, float], ceilings: Ceilings
) -> Fields:
    """Makes a row of a program that FLOPs bound."""
    timing, needed = measured
    tokens = batch.prompts * batch.prompt_tokens
    if what != 'prefill':
        tokens += batch.sequences * batch.response_tokens
    return {
        'what': what,
        **dataclasses.asdict(batch),
        'ms': 1e3 * timing.seconds,
        'tokens_per_second': tokens / timing.seconds,
        'teraflops': needed / timing.seconds / 1e12,
        'of_matmul': needed / timing.seconds / ceilings.flops,
        **_common_fields(timing),
    }


def sampler_row(model: Model, batch: Batch) -> Fields:
    """Makes the row of the sampler."""
    timing, gaps = model.generate(batch)
    return {
        'what': 'generate',
        **dataclasses.asdict(batch),
        'ms': 1e3 * timing.seconds,
        'tokens_per_second': batch.sequences * batch.response_tokens / timing.seconds,
        **gaps,
        **_common_fields(timing),
    }


def _common_fields(timing: Timing) -> Fields:
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get('peak_bytes_in_use', 0) / 2**30
    fields = {'compile_seconds': timing.compile_seconds, 'peak_gib_so_far': peak}
    return {**fields, 'kernels': timing.kernels} if timing.kernels else fields


def rows_of(
    name: str, fields: Any, ceilings: Ceilings, args: argparse.Namespace
) -> Iterator[Fields]:
    """Yields the rows of a model that ``--rows`` selects."""
    decoding, prefill, training, step = DECODING, PREFILL, TRAINING, STEP
    remat, steps = STEPS.get(name, ('', ()))
    if args.small:
        decoding, prefill, training, step = (SMALL,), SMALL, (SMALL,), SMALL
        remat, steps = 'attention', (SMALL,)

    def selected(what: str, batches: Sequence[Batch]) -> list[Batch]:
        label = f'{name} {what} '
        return [b for b in batches if args.rows.search(label + _sizes(b))]

    model = make_model(fields, masters='bfloat16', remat='full', args=args)
    for batch in selected('decode', decoding):
        yield decode_row(model, batch, ceilings)
    for batch in selected('prefill', [prefill]):
        yield compute_row('prefill', batch, model.prefill(batch), ceilings)
    for batch in selected('log_probs', training):
        yield compute_row('log_probs', batch, model.log_probs(batch), ceilings)
    for batch in selected('gradient', training):
        yield compute_row('gradient', batch, model.gradient(batch), ceilings)
    for batch in selected('generate', [step]):
        yield sampler_row(model, batch)
    if steps := selected('train_step', steps):
        del model
        model = make_model(fields, masters='float32', remat=remat, args=args)
    for batch in steps:
        yield compute_row('train_step', batch, model.train_step(batch), ceilings)


def _sizes(batch: Batch) -> str:
    return (
        f'{batch.prompts} x {batch.rollouts} '
        f'{batch.prompt_tokens} + {batch.response_tokens}'
    )


def published_peaks() -> dict[str, float]:
    """Returns the published FLOP/s and bytes/s of the device, if known."""
    chip = chip_of(jax.devices()[0].device_kind)
    return {'flops': chip.flops, 'bandwidth': chip.memory_bandwidth} if chip else {}


def measure(args: argparse.Namespace) -> Fields:
    """Measures everything and prints each row; returns all as JSON values."""
    size, copied = (256, 1 << 20) if args.small else (8192, 1 << 30)
    ceilings = Ceilings(
        matmul_flops(size, repetitions=args.repetitions),
        copy_bandwidth(copied, repetitions=args.repetitions),
    )
    print(
        f'{jax.devices()[0].device_kind}, jax {jax.__version__}: matmul '
        f'{ceilings.flops / 1e12:.4g} TFLOP/s, copy {ceilings.bandwidth / 1e12:.4g} '
        f'TB/s (published: {published_peaks() or "unknown"})'
    )
    models = (
        {'tiny': tiny_fields()}
        if args.small
        else {name: PUBLISHED[name] for name in args.models}
    )
    rows: list[Fields] = []
    record = {
        'device': jax.devices()[0].device_kind,
        'jax': jax.__version__,
        'flags': os.environ.get('XLA_FLAGS', ''),
        'convention': 'causal attention by its pairs, a prompt once for its rollouts',
        'measured': dataclasses.asdict(ceilings),
        'published': published_peaks(),
        'rows': rows,
    }
    for name, fields in models.items():
        for row in rows_of(name, fields, ceilings, args):
            rows.append({'model': name, **row})
            print(json.dumps(rows[-1]), flush=True)
            if args.json:
                atomic_write_text(args.json, json.dumps(record) + '\n')
    if not rows:
        raise SystemExit(f'--rows={args.rows.pattern} is found in no row')
    return record


def table(rows: Sequence[Fields]) -> str:
    """Formats the rows as a table."""
    head = ['model', 'what', 'P x N', 'S + T', 'ms', 'tokens/s', 'of matmul', 'of copy']
    lines = [[*head, 'of floor']]
    for row in rows:
        shares = [
            row.get(key) for key in ('of_matmul', 'of_copy_bandwidth', 'of_floor')
        ]
        lines.append(
            [
                row['model'].rpartition('/')[2],
                row['what'],
                f'{row["prompts"]} x {row["rollouts"]}',
                f'{row["prompt_tokens"]} + {row["response_tokens"]}',
                f'{row["ms"]:.2f}',
                f'{row["tokens_per_second"]:,.0f}',
                *('' if share is None else f'{share:.0%}' for share in shares),
            ]
        )
    return sides.table(lines)


def main() -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--models', nargs='+', choices=PUBLISHED, default=MODELS)
    parser.add_argument('--repetitions', type=int, default=5, help='of each program')
    parser.add_argument(
        '--rows', default='', type=re.compile, help='of these alone: an expression'
    )
    parser.add_argument('--profile', action='store_true', help='the longest kernels')
    parser.add_argument('--json', default='', help='file for the last line too')
    parser.add_argument('--small', action='store_true', help='only see that it runs')
    args = parser.parse_args()
    record = measure(args)
    print(table(record['rows']))
    print(json.dumps(record))


if __name__ == '__main__':
    main()
