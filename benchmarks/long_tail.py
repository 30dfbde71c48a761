"""Sampling of responses with a long tail: the schedule beside waiting for the longest.

    python -m benchmarks.long_tail

The model and the prompts are those of ``work.GROUPS`` (3.2 M parameters, prompts of 100
tokens), 8 prompts x 32 rollouts. The lengths are forced and the same for both sides,
and so are the tokens, which is checked:

* ``log-normal``: mean 57, median 39, cut at 256;
* ``geometric``: 5 % reach the limit of 256;
* ``equal``: all reach 128, where there is nothing to gain.

Both sides are our library: ``plain`` is the readable loop of plain_loop.py, in which
every row goes on until the last has ended; ``schedule`` is what training uses. *Rows a
token* are the rows that were run, live or not, over the tokens that were asked for: 1
is the least there can be.
"""

import argparse
import dataclasses
import tempfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks import lengths, ours, sides, worker
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work
from passk_jax.config import sampling_options
from passk_jax.models.hf import weights
from passk_jax.sampling import Purpose, plain_loop, sampler, step_key
from passk_jax.sampling.scheduled import host

TARGET = 1.25
"""Rows a token of log-normal lengths, at most."""

LENGTHS: Mapping[str, tuple[Callable[[jax.Array], jax.Array], int]] = {
    'log-normal': (lengths.log_normal, 256),
    'geometric': (lengths.geometric, 256),
    'equal': (lengths.never, 128),
}
"""Name -> quantile function and limit."""

SAMPLERS: Mapping[str, Callable[..., Any]] = {
    'plain': plain_loop.sample,
    'schedule': sampler.sample,
}


def act(args: argparse.Namespace) -> None:
    """One side: samples the same responses once for each request."""
    work = Work.from_json(args.work)
    quantile, limit = LENGTHS[args.lengths]
    policy = ours.make_policy(work)
    params = weights.load_params(policy, args.model, ours.mesh())
    more = {'max_cache_bytes': args.max_cache_bytes} if args.max_cache_bytes else {}
    rows: list[int] = []
    finish = host.Decoding.finish

    def counted(decoding: host.Decoding, *arguments: Any) -> None:
        finish(decoding, *arguments)
        rows.append(decoding.row_steps)

    watch = mock.patch.object(host.Decoding, 'finish', counted)
    with lengths.forced(quantile), watch:
        for report in worker.repetitions({'jax': jax.__version__}):
            found = SAMPLERS[args.side](
                policy,
                params,
                ours.make_prompts(work),
                key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0),
                num_rollouts=work.rollouts,
                max_response_tokens=min(limit, work.response_tokens),
                options=sampling_options(),
                stop_tokens=(lengths.STOP,),
                **(more if args.side == 'schedule' else {}),
            )
            tokens, ends = jax.device_get((found.tokens, found.lengths))
            waited = work.sequences * int(ends.max())
            report['rows'] = rows.pop() if args.side == 'schedule' else waited
            report['tokens'] = int(ends.sum())
            report['digest'] = zlib.crc32(np.ascontiguousarray(tokens).tobytes())


def compare(name: str, work: Work, args: argparse.Namespace) -> list[list[str]]:
    """Rows of the table."""
    with tempfile.TemporaryDirectory() as directory:
        options = ['--work', work.to_json(), '--lengths', name]
        options += ['--model', sides.write_model(work, directory)]
        options += ['--max_cache_bytes', str(args.max_cache_bytes)]
        both = [
            Side(side, 'benchmarks.long_tail', '--side', side, *options)
            for side in SAMPLERS
        ]
        with sides.started(both, core=args.core):
            answers = sides.alternate(both, repetitions=args.repetitions)
    if len({answer['digest'] for found in answers.values() for answer in found}) > 1:
        raise RuntimeError(f'the sides sampled different tokens of {name} lengths')
    table = sides.rows(name, answers, base='plain')
    for row, found in zip(table, answers.values(), strict=True):
        row.append(f'{sides.median(found, "rows") / sides.median(found, "tokens"):.2f}')
    return table


def main() -> None:
    """Reads the command line; compares, or is a side of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    parser.add_argument(
        '--lengths', nargs='+', choices=LENGTHS, default=list(LENGTHS), help='of which'
    )
    parser.add_argument(
        '--max_cache_bytes', type=int, default=0, help="the schedule's; 0: no limit"
    )
    parser.add_argument('--side', choices=SAMPLERS, help='be this side, with:')
    parser.add_argument('--work', help='JSON of a work')
    parser.add_argument('--model', help='directory of the weights')
    args = parser.parse_args()
    if args.side:
        (args.lengths,) = args.lengths
        act(args)
        return
    work = works.small(works.GROUPS) if args.small else works.GROUPS
    longest = 40 if args.small else 256
    work = dataclasses.replace(work, prompts=8, response_tokens=longest)
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    rows = [row for name in args.lengths for row in compare(name, work, args)]
    print(sides.table([[*sides.HEAD, 'rows a token'], *rows]))
    print(f'target: at most {TARGET} rows a token of log-normal lengths')


if __name__ == '__main__':
    main()
