"""Measures verdicts on mazes: 32 responses to each of 128 mazes of 10 x 10.

    python -m benchmarks.mazes

About half of the responses are the shortest path; the others have its moves in another
order. It prints CPU and wall milliseconds of each batch; the first one compiles.
"""

import argparse
import random
import tempfile
import time

import numpy as np

from passk_jax import tasks

MAZES, RESPONSES = 128, 32
PARAMS = {
    'generator': 'percolation',
    'wall_probability': 0.35,
    'min_path': 3,
    'max_path': 30,
    'train_sizes': (10,),
    'train_counts': (MAZES,),
    'validation_sizes': (),
    'validation_counts': (),
    'test_sizes': (5,),
    'test_counts': (8,),
    'seed': 0,
    'prompt': 'bare',
}


def main() -> None:
    """Prints a line for each repetition."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--repetitions', type=int, default=7)
    flags = parser.parse_args()
    task, rng = tasks.make_task('maze', PARAMS), random.Random(0)
    with tempfile.TemporaryDirectory() as directory:
        source = task.source('train', data_dir=directory)
        problems = [source[i] for i in range(MAZES)]
    responses = []
    for problem in problems:
        kind, draws = task.demonstrations[0], np.random.default_rng(0)
        path = task.demonstration(problem, kind=kind, rng=draws)
        other = [''.join(rng.sample(path, len(path))) for _ in range(RESPONSES)]
        responses.append([path if rng.random() < 0.5 else text for text in other])
    for _ in range(flags.repetitions):
        cpu, wall = time.process_time(), time.perf_counter()
        correct = task.verify(problems, responses).correct
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(
            f'{correct.size} responses, {correct.sum()} right: '
            f'{1e3 * cpu:.1f} CPU ms, {1e3 * wall:.1f} ms'
        )


if __name__ == '__main__':
    main()
