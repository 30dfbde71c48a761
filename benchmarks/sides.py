"""Alternates the sides of a comparison: warm processes that wait for their turn.

1. :class:`Side` starts a side under its own python. All sides are pinned to one core,
   with one thread per library.
2. :func:`alternate` asks the sides in turns, first to warm up (in a column of its own
   in the tables), then ``repetitions`` times.
3. :func:`rows` makes rows of medians and ratios, and :func:`table` formats them.

Other work on the machine falsifies wall seconds, and CPU seconds by a few per cent. So
ratios are of CPU seconds, in one run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.work import Work
from passk_jax.runtime.cores import processor

WARM_UPS = 2
"""Repetitions that do not count; tunix compiles in its second repetition too."""

ROOT = pathlib.Path(__file__).resolve().parents[1]

ONE_THREAD = {
    'JAX_PLATFORMS': 'cpu',
    'XLA_FLAGS': (
        '--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1'
    ),
    'OMP_NUM_THREADS': '1',
    'MKL_NUM_THREADS': '1',
    'OPENBLAS_NUM_THREADS': '1',
    'NPROC': '1',
    'TOKENIZERS_PARALLELISM': 'false',
    'HF_HUB_OFFLINE': '1',
}

LARGE_PAGES = ONE_THREAD | {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}
"""For sides on JAX, which allocates arrays at every call; torch is slower with it."""


class Side:
    """A process that repeats a piece of work on request; see worker.py."""

    def __init__(
        self,
        name: str,
        module: str,
        *args: str,
        python: str = sys.executable,
        environment: Mapping[str, str] = LARGE_PAGES,
    ):
        self.name = name
        self._args = (python, '-m', module, *args)
        self._environment = environment
        self._stack = contextlib.ExitStack()

    def start(self, *, core: int) -> dict[str, Any]:
        """Starts the process, pinned to a core; -1: to none.

        Returns:
            Its first answer, ``ready`` of ``worker.repetitions``.
        """
        errors = tempfile.TemporaryFile('w+')  # noqa: SIM115 - the stack closes it.
        self._errors = self._stack.enter_context(errors)
        self._process = subprocess.Popen(
            [*pinned(core), *self._args],
            cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': str(ROOT), **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        return self._answer()

    def run(self) -> dict[str, Any]:
        """Asks for one repetition; returns its report."""
        self._process.stdin.write('run\n')
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stack.close()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(
                f'{self.name} has ended without an answer: {" ".join(self._args)}\n'
                f'{self._errors.read()[-4000:]}'
            )
        return json.loads(line)


def pinned(core: int) -> list[str]:
    """Returns the front of a command line that runs on one core; -1: on any.

    Raises:
        ValueError: there is no ``taskset`` here.
    """
    if core < 0:
        return []
    if shutil.which('taskset') is None:
        raise ValueError(f'{core=} needs taskset, which is not here: use --core=-1')
    return ['taskset', '-c', str(core)]


@contextlib.contextmanager
def started(sides: Sequence[Side], *, core: int) -> Iterator[dict[str, Any]]:
    """Starts all sides, yields their first answers by name, and ends them."""
    running = []
    try:
        ready = {}
        for side in sides:
            running.append(side)
            ready[side.name] = side.start(core=core)
        yield ready
    finally:
        for side in running:
            side.close()


def alternate(
    sides: Sequence[Side], *, repetitions: int
) -> dict[str, list[dict[str, Any]]]:
    """Asks all sides in turns; the first ``WARM_UPS`` answers of each do not count."""
    answers: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for count in range(WARM_UPS + repetitions):
        for side in sides:
            answers[side.name].append(side.run())
            progress = f'{side.name} {count - WARM_UPS + 1}/{repetitions}'
            print(
                f'{progress}: {answers[side.name][-1]["cpu"]:.3f} CPU s',
                file=sys.stderr,
            )
    return answers


def median(answers: Sequence[Mapping[str, float]], field: str = 'cpu') -> float:
    """Computes the median of a field, without the warm-up."""
    return statistics.median(answer[field] for answer in answers[WARM_UPS:])


def spread(answers: Sequence[Mapping[str, float]], field: str = 'cpu') -> float:
    """Computes half of a field's range over its median, without the warm-up."""
    values = [answer[field] for answer in answers[WARM_UPS:]]
    return (max(values) - min(values)) / 2 / statistics.median(values)


def warm_up(answers: Sequence[Mapping[str, float]]) -> float:
    """Computes the extra CPU seconds of the warm-up: compilation, mostly."""
    first = sum(answer['cpu'] for answer in answers[:WARM_UPS])
    return first - WARM_UPS * median(answers)


def gap(a: Sequence[float], b: Sequence[float]) -> float:
    """Computes the largest difference of two sides' log-probabilities."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Formats rows, the first of which is the head, as a Markdown table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        '| ' + ' | '.join(map(str.ljust, row, widths)) + ' |' for row in map(list, rows)
    ]
    rule = '|' + '|'.join('-' * (width + 2) for width in widths) + '|'
    return '\n'.join([lines[0], rule, *lines[1:]])


def machine() -> str:
    """Names the processor and counts its cores."""
    return f'{os.cpu_count()} cores of {processor()}'


HEAD = [
    *('work', 'side', 'CPU s', '+-', 'wall s', 'tokens / CPU s', 'ratio', 'warm-up'),
    'peak MB',
]
"""The head of :func:`rows`."""


def rows(
    work: str, answers: Mapping[str, Sequence[Mapping[str, float]]], *, base: str
) -> list[list[str]]:
    """Makes a row per side: medians, and tokens a CPU second over those of ``base``.

    The peak is of the process's resident memory, libraries and compiler included.
    """

    def rate(name: str) -> float:
        return median(answers[name], 'tokens') / median(answers[name])

    return [
        [
            work,
            name,
            f'{median(answers[name]):.3f}',
            f'{spread(answers[name]):.0%}',
            f'{median(answers[name], "wall"):.3f}',
            f'{rate(name):,.0f}',
            f'{rate(name) / rate(base):.2f}',
            f'{warm_up(answers[name]):.1f} s',
            f'{answers[name][-1]["peak_megabytes"]:,.0f}',
        ]
        for name in answers
    ]


def write_model(work: Work, directory: str) -> str:
    """Lets our side write the weights of a work; returns their directory."""
    model = str(pathlib.Path(directory) / 'model')
    subprocess.run(
        [
            *(sys.executable, '-m', 'benchmarks.ours', 'model'),
            *('--work', work.to_json(), '--model', model),
        ],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        check=True,
    )
    return model


def beside(
    peer: str,
    module: str,
    job: str,
    work: Work,
    *,
    python: str,
    args: argparse.Namespace,
    name: str = '',
    environment: Mapping[str, str] = LARGE_PAGES,
) -> tuple[list[list[str]], list[str]]:
    """Alternates our side and a peer's on one job.

    Args:
        peer, module: the peer's name, and the module of its side.
        job, work: those of both sides.
        python, environment: the peer's interpreter and environment variables.
        args: the options of :func:`add_peer_arguments`.
        name: the job's name in the table; ``''``: ``job``.

    Returns:
        Rows of the table, ours first, and a sentence about the check.
    """
    # A micro-batch has whole prompts.
    ours, peers = (
        str(min(count, work.prompts))
        for count in (args.micro_batches, args.peer_micro_batches)
    )
    with tempfile.TemporaryDirectory() as directory:
        model = write_model(work, directory)
        of_job = [job, '--work', work.to_json(), '--model', model, '--micro_batches']
        both = [
            Side('passk_jax', 'benchmarks.ours', *of_job, ours),
            Side(peer, module, *of_job, peers, python=python, environment=environment),
        ]
        with started(both, core=args.core) as ready:
            answers = alternate(both, repetitions=args.repetitions)
    difference = gap(ready['passk_jax']['check'], ready[peer]['check'])
    name = name or job
    lines = [
        f'{name}: sides agree on log-probabilities of responses to {difference:.1e}'
    ]
    return rows(name, answers, base=peer), lines


def add_peer_arguments(parser: argparse.ArgumentParser, *, packages: str) -> None:
    """Adds the options of comparisons with a peer that needs these packages."""
    add_arguments(parser)
    parser.add_argument('--python', default='', help=f'interpreter with {packages}')
    parser.add_argument('--micro_batches', type=int, default=8, help='ours')
    parser.add_argument('--peer_micro_batches', type=int, default=4, help="the peer's")
    parser.add_argument('--jobs', default='', help='regular expression of job names')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that comparisons share."""
    parser.add_argument('--core', type=int, default=0, help='to run on; -1: any')
    parser.add_argument('--repetitions', type=int, default=5, help='of each side')
    parser.add_argument('--small', action='store_true', help='only see that it runs')
