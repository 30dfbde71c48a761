"""Compares the scheduled sampler with the plain loop on responses with a long tail.

    python -m benchmarks.long_tail

The model is that of ``work.GROUPS`` (3.2 M parameters, prompts of 100 tokens). The
shapes differ in prompts x rollouts, limit, vocabulary and lengths. Lengths are forced;
both sides have the same lengths and tokens, and the run fails if they differ:

* ``log-normal``: mean 57, median 39;
* ``geometric``: 5 % are longer than 256;
* ``20 to 48``: uniform;
* ``equal``: all reach the limit, so there is nothing to gain.

Both sides are this library: ``plain`` is the readable loop of plain_loop.py, which runs
every row until the last one ends; ``schedule`` is the sampler of training. Both hand
over as in training: a thread decodes ended responses to text and verifies them, and the
measurement ends with the last verdict. *Rows a token* are the rows that ran, live or
not, over the response tokens; 1 is the minimum. At every shape the schedule may take
3 % more CPU seconds than the plain loop.
"""

import argparse
import concurrent.futures
import dataclasses
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import jax
import numpy as np

from benchmarks import lengths, ours, sides, worker
from benchmarks import work as works
from benchmarks.sides import Side
from benchmarks.work import Work
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.models.hf import weights
from passk_jax.models.policy import Params, Policy
from passk_jax.sampling import Ended, Purpose, plain_loop, sampler, step_key
from passk_jax.sampling.scheduled import host
from passk_jax.sampling.scheduled.hand_over import gather
from passk_jax.types import Prompts, Rollouts

TARGET = 1.25
"""Most rows a token at log-normal lengths."""

TARGET_RATIO = 0.97
"""Least tokens a CPU second over those of the plain loop, at every shape."""

LENGTHS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    'log-normal': lengths.log_normal,
    'geometric': lengths.geometric,
    '20 to 48': lengths.from_20_to_48,
    'equal': lengths.never,
}
"""Name -> quantile function."""


def shape(prompts: int, rollouts: int, limit: int, vocab: int = 64) -> Work:
    """Makes the work of a shape."""
    return dataclasses.replace(
        works.GROUPS,
        prompts=prompts,
        rollouts=rollouts,
        response_tokens=limit,
        vocab=vocab,
    )


SHAPES: Sequence[tuple[str, Work]] = (
    ('log-normal', shape(8, 32, 256)),
    ('geometric', shape(8, 32, 256)),
    ('equal', shape(8, 32, 128)),
    ('log-normal', shape(4, 8, 256)),
    ('equal', shape(4, 8, 256)),
    ('20 to 48', shape(2, 4, 48)),
    ('20 to 48', shape(4, 8, 48)),
    ('20 to 48', shape(16, 16, 48)),
    ('equal', shape(16, 16, 48)),
    ('log-normal', shape(1, 64, 128)),
    ('log-normal', shape(4, 8, 128, works.VOCABULARIES['32k'])),
    ('log-normal', shape(2, 4, 64, works.VOCABULARIES['152k'])),
)
"""Lengths and work of each row of the table."""


class Verdicts:
    """Receives ended responses and verifies them in a thread, as training does."""

    def __init__(self):
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._jobs: list[concurrent.futures.Future[list[float]]] = []

    def submit(self, ended: Ended) -> None:
        """Queues responses."""
        self._jobs.append(self._thread.submit(self._verify, ended))

    def wait(self) -> None:
        """Waits for all verdicts so far."""
        while self._jobs:
            self._jobs.pop(0).result()

    def _verify(self, ended: Ended) -> list[float]:
        tokens, ends = jax.device_get((ended.tokens, ended.lengths))
        rows = list(zip(tokens, ends, strict=True))[: len(ended.problems)]
        return [works.reward(works.to_text(row[:end])) for row, end in rows]


def plain(
    policy: Policy,
    params: Params,
    prompts: Prompts,
    *,
    key: jax.Array,
    on_ended: Callable[[Ended], None],
    **settings: Any,
) -> Rollouts:
    """Samples in the plain loop and hands all responses over at its end."""
    request = plain_loop.checked_request(policy, **settings)
    decoding_weights = policies.decoding_weights(policy, params)
    rollouts = plain_loop.sample(policy, decoding_weights, prompts, key, request)
    on_ended(gather(rollouts, np.ones(rollouts.lengths.shape, bool)))
    return rollouts


SAMPLERS: Mapping[str, Callable[..., Rollouts]] = {
    'plain': plain,
    'schedule': sampler.sample,
}


def act(args: argparse.Namespace) -> None:
    """Runs one side, which samples the same responses once for each request."""
    work = Work.from_json(args.work)
    policy = ours.make_policy(work)
    params = weights.load_params(policy, args.model, ours.mesh())
    more = {'max_cache_bytes': args.max_cache_bytes} if args.side != 'plain' else {}
    rows: list[int] = []
    finish = host.Decoding.finish
    verdicts = Verdicts()

    def counted(decoding: host.Decoding, *arguments: Any) -> None:
        finish(decoding, *arguments)
        rows.append(decoding.row_steps)

    watch = mock.patch.object(host.Decoding, 'finish', counted)
    with lengths.forced(LENGTHS[args.lengths]), watch:
        for report in worker.repetitions({'jax': jax.__version__}):
            rollouts = SAMPLERS[args.side](
                policy,
                params,
                ours.make_prompts(work),
                key=step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0),
                num_rollouts=work.rollouts,
                max_response_tokens=work.response_tokens,
                options=sampling_options(),
                stop_tokens=(lengths.STOP,),
                on_ended=verdicts.submit,
                **more,
            )
            verdicts.wait()
            tokens, ends = jax.device_get((rollouts.tokens, rollouts.lengths))
            # Without a schedule all rows wait for the longest response.
            waited = work.sequences * int(ends.max())
            report['rows'] = rows.pop() if rows else waited
            report['tokens'] = int(ends.sum())
            report['digest'] = zlib.crc32(np.ascontiguousarray(tokens).tobytes())


def compare(name: str, work: Work, args: argparse.Namespace) -> list[list[str]]:
    """Alternates both sides; returns the rows of the table."""
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
    if len({x['digest'] for reports in answers.values() for x in reports}) > 1:
        raise RuntimeError(f'the sides sampled different tokens of {name} lengths')
    size = f'{work.prompts} x {work.rollouts}, limit {work.response_tokens}'
    table = sides.rows(f'{name}, {size}, V {work.vocab}', answers, base='plain')
    for row, reports in zip(table, answers.values(), strict=True):
        row.append(
            f'{sides.median(reports, "rows") / sides.median(reports, "tokens"):.2f}'
        )
    return table


def main() -> None:
    """Reads the command line; compares both sides, or runs one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    sides.add_arguments(parser)
    numbers = range(len(SHAPES))
    parser.add_argument(
        '--shapes', nargs='+', type=int, choices=numbers, default=numbers, help='rows'
    )
    parser.add_argument(
        '--max_cache_bytes', type=int, default=0, help="the schedule's; 0: no limit"
    )
    parser.add_argument('--side', choices=SAMPLERS, help='run this side alone, with:')
    parser.add_argument('--lengths', choices=LENGTHS, help='of the responses')
    parser.add_argument('--work', help='JSON of a work')
    parser.add_argument('--model', help='directory of the weights')
    args = parser.parse_args()
    if args.side:
        act(args)
        return
    print(f'{sides.machine()}; {args.repetitions} alternated repetitions')
    rows = []
    for name, work in (SHAPES[number] for number in args.shapes):
        if args.small:
            work = dataclasses.replace(works.small(work), response_tokens=40)
        rows += compare(name, work, args)
        print(' '.join(rows[-1]), flush=True)
    print(sides.table([[*sides.HEAD, 'rows a token'], *rows]))
    print(
        f'targets: at most {TARGET} rows a token for log-normal lengths, 8 x 32; at '
        f'least {TARGET_RATIO} x the tokens a CPU second of plain at every shape'
    )


if __name__ == '__main__':
    main()
