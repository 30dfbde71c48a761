"""Measures verdicts: 32 responses to each of 128 problems of mathematics.

    python -m benchmarks.verifiers --problems=math_train.jsonl

Half of the responses to a problem are right, in three wordings. Most of the others have
one of ten answers that differ from the right one in digits, and some have none. It
prints CPU seconds of this process and its workers, which depend little on the
machine's load, wall seconds, and how many answers went to math-verify. Workers start
before; the seconds for it are printed too.
"""

import argparse
import pathlib
import random
import re
import time

import psutil

from passk_jax.tasks.math.problems import read_split
from passk_jax.verifiers import mathematics
from passk_jax.verifiers.pool import Pool

PROBLEMS, RESPONSES = 128, 32


def make_batch(golds: list[str]) -> tuple[list[str], list[str]]:
    """Makes the responses; returns the right answer of each, and the responses."""
    rng = random.Random(0)
    pairs = []
    for gold in rng.sample(golds, PROBLEMS) if len(golds) > PROBLEMS else golds:
        right = (gold, rf'\displaystyle {gold}', gold.replace(r'\frac', r'\dfrac'))
        wrong = [_other_digits(gold, rng) for _ in range(10)]
        for _ in range(RESPONSES):
            answer = rng.choice(right if rng.random() < 0.5 else wrong)
            text = rf'We find that \boxed{{{answer}}}.'
            pairs.append((gold, text if rng.random() > 0.05 else 'No idea.'))
    return [gold for gold, _ in pairs], [text for _, text in pairs]


def _other_digits(gold: str, rng: random.Random) -> str:
    """Changes the digits of an answer; adds a number to one without digits."""
    other = re.sub('[0-9]', lambda _: str(rng.randint(1, 9)), gold)
    return other if other != gold else f'{gold}+{rng.randint(1, 9)}'


def cpu_seconds() -> float:
    """Counts CPU seconds of this process and of its live children."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children())]
    return sum(x.user + x.system for x in times)


def measure(golds: list[str], *, workers: int) -> str:
    """Judges one batch with a new pool; returns a line about it."""
    batch = make_batch(golds)
    start = time.perf_counter()
    with Pool(
        mathematics.EQUALITY,
        workers=workers,
        deadline_s=mathematics.DEADLINE_S,
        memory_bytes=mathematics.MEMORY_BYTES,
        tasks_per_worker=10**6,
    ) as pool:
        # Two pairs a worker, so that all workers start.
        pool.judge([('x', f'y+{i}') for i in range(2 * workers)])
        calls, wall, cpu = pool.calls, time.perf_counter(), cpu_seconds()
        verdicts = mathematics.judge(*batch, pool=pool)
        wall, cpu, ready = time.perf_counter() - wall, cpu_seconds() - cpu, wall - start
        right = sum(verdict.correct for verdict in verdicts)
        return (
            f'{len(verdicts)} responses, {right} right, {pool.calls - calls} to '
            f'math-verify in {workers} workers: {cpu:.2f} CPU s, {wall:.2f} s '
            f'(start {ready:.1f} s); {pool.failures}'
        )


def main() -> None:
    """Prints a line for each repetition."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--problems', required=True, type=pathlib.Path)
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--repetitions', type=int, default=3)
    flags = parser.parse_args()
    fields = {'problem': 'problem', 'answer': 'answer', 'ids': ()}
    golds = [p.data['answer'] for p in read_split([str(flags.problems)], **fields)]
    for _ in range(flags.repetitions):
        print(measure(golds, workers=flags.workers))


if __name__ == '__main__':
    main()
