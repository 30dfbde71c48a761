"""Measures how long a problem of each puzzle takes to make, by level.

    python -m benchmarks.puzzles --count=20

It prints a Markdown table with CPU milliseconds a problem: the mean over the first
``count`` problems of a stream, after one that does not count. Discarded draws within a
problem count; problems that a split leaves out as repeats do not.
"""

import argparse
import time

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import LEVELS, Puzzle
from passk_jax.tasks.enigmata.table import PUZZLES


def milliseconds(puzzle: Puzzle, level: int, *, count: int) -> float:
    """Measures the CPU milliseconds of this process a problem."""
    # The warm-up computes what problems share, such as a table of positions.
    puzzle.generate(Draws('warm-up', level, 0), level)
    start = time.process_time()
    for index in range(count):
        puzzle.generate(Draws('benchmark', level, index), level)
    return 1000 * (time.process_time() - start) / count


def table(*, count: int) -> str:
    """Writes a row for each puzzle, the slowest at the hardest level first."""
    rows = {
        name: [milliseconds(puzzle, i, count=count) for i in range(len(LEVELS))]
        for name, puzzle in PUZZLES.items()
    }
    lines = [f'| puzzle | {" | ".join(LEVELS)} |', '|---|' + '---|' * len(LEVELS)]
    for name in sorted(rows, key=lambda name: -rows[name][-1]):
        lines.append(f'| {name} | {" | ".join(f"{ms:.2g}" for ms in rows[name])} |')
    return '\n'.join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=20)
    print(table(count=parser.parse_args().count))


if __name__ == '__main__':
    main()
