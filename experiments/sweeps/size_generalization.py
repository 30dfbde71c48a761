"""Trained on small mazes, tested on larger ones: does Pass@k Training carry further?

    python -m passk_jax.sweep --config=experiments/sweeps/size_generalization.py

The policy of configs/maze_tiny.py, its warm start and its training see mazes of 4x4 and
5x5 only; the test split has 5x5, 6x6 and 7x7, all with shortest paths of 3 to 10 moves.
The paper's question (``tab:generalization``) asked of sizes in place of tasks. A seed
decides the warm start, the batches and the draws of every arm.

Expected, written before the first run and judged in
experiments/pages/size_generalization.md: both kinds of training lose with size; Pass@4
Training keeps its lead in Pass@32 at every size, and the difference in Pass@1 shrinks
with size or turns in its favour.
"""

from passk_jax.sweeps import TRAININGS, Sweep, category_measures, estimator_arms

_TEST_SIZES = (5, 6, 7)
_MAZES = {
    'task.params.train_sizes': (4, 5),
    'task.params.train_counts': (4_000, 16_000),
    'task.params.test_sizes': _TEST_SIZES,
    'task.params.test_counts': (512, 512, 512),
    # Seven rows of seven cells and a line break.
    'data.max_prompt_tokens': 56,
}


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='size_generalization',
        title='trained on mazes up to 5x5',
        arms=estimator_arms(TRAININGS, 'configs/maze_tiny.py', _MAZES),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures=category_measures(f'{size}x{size}' for size in _TEST_SIZES),
        split='test',
        curves='test',
    )
