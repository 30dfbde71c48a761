"""Compares verdicts on arrays with the host's, puzzle by puzzle.

    python -m benchmarks.array_verdicts

A puzzle has 128 problems of three levels with 32 responses each: half are the solution,
a quarter the solution with two items swapped, an eighth the solution of another
problem, an eighth half of the solution. Both sides judge the same batch, in turns. The
table has medians of the process's CPU seconds over all threads. The first call, which
compiles, is not in them but in the column ``first``. ``reading`` is the share of the
host's seconds for finding and reading answers, which both sides must do. The run fails
if a verdict differs.
"""

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.on_arrays.batch import verify
from passk_jax.tasks.enigmata.on_arrays.table import RULES
from passk_jax.tasks.enigmata.puzzle import LEVELS, Puzzle
from passk_jax.tasks.enigmata.table import PUZZLES
from passk_jax.verifiers.answers import Wrong

PROBLEMS, RESPONSES = 128, 32

_ITEM = re.compile(r'"[^"]*"|-?[0-9]+|[UDLR.*]')


def make_batch(puzzle: Puzzle, count: int) -> tuple[list[dict], list[str]]:
    """Makes the responses; returns the problem of each, and the responses."""
    rng = random.Random(0)
    problems = [
        puzzle.generate(Draws(i), i % len(LEVELS)) for i in range(count // RESPONSES)
    ]
    pairs = []
    for data in problems:
        right = data['answer']
        for i in range(RESPONSES):
            kinds = (
                *(right,) * 4,
                *(swapped(right, rng),) * 2,
                rng.choice(problems)['answer'],
                right[: len(right) // 2],
            )
            pairs.append((data, puzzle.response(kinds[i % len(kinds)])))
    return [data for data, _ in pairs], [response for _, response in pairs]


def swapped(answer: str, rng: random.Random) -> str:
    """Swaps two of an answer's numbers, moves or symbols."""
    items = list(_ITEM.finditer(answer))
    if len(items) < 2:
        return answer
    a, b = sorted(rng.sample(items, 2), key=lambda item: item.start())
    between = answer[a.end() : b.start()]
    return answer[: a.start()] + b[0] + between + a[0] + answer[b.end() :]


def measure(name: str, *, count: int, repetitions: int) -> str:
    """Judges one batch on both sides; returns a row of the table."""
    puzzle, rule = PUZZLES[name], RULES[name]
    problems, responses = make_batch(puzzle, count)
    pairs = list(zip(problems, responses, strict=True))

    def on_host() -> np.ndarray:
        judge = puzzle.verdict
        return np.array([judge(d, r, official=False).correct for d, r in pairs])

    def read() -> None:
        for data, response in pairs:
            answer = puzzle.find(response)
            try:
                rule.answer(data, answer)
            except Wrong:
                continue

    sides: Sequence[Callable] = (
        on_host,
        lambda: verify(puzzle, rule, problems, responses)[0],
        read,
    )
    first, verdicts = zip(*(timed(side) for side in sides), strict=True)
    if not np.array_equal(verdicts[0], verdicts[1]):
        raise SystemExit(
            f'{name}: the verdicts on arrays differ from those of the host'
        )
    rounds = [[timed(side)[0] for side in sides] for _ in range(repetitions)]
    host, arrays, reading = (
        statistics.median(times) for times in zip(*rounds, strict=True)
    )
    return (
        f'| {name} | {verdicts[0].mean():.2f} | {host:.3f} | {arrays:.3f} | '
        f'{arrays / host:.2f} | {reading / host:.2f} | {first[1]:.1f} |'
    )


def timed(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Runs a function; returns its CPU seconds and its result."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--puzzles', nargs='+', default=list(RULES), choices=RULES)
    parser.add_argument('--responses', type=int, default=PROBLEMS * RESPONSES)
    parser.add_argument('--repetitions', type=int, default=3)
    flags = parser.parse_args()
    print('| puzzle | right | host, s | arrays, s | arrays / host | reading | first |')
    print('|---|---|---|---|---|---|---|')
    for name in flags.puzzles:
        row = measure(name, count=flags.responses, repetitions=flags.repetitions)
        print(row, flush=True)


if __name__ == '__main__':
    main()
