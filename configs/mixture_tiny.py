"""Pass@k Training on mazes and two Enigmata puzzles on two CPU cores.

Paper: Pass@k Training, sections ``sec:passk_w_analytical_derivation`` (mazes) and
``sec:passk_to_pass1`` (Enigmata), at the size of a laptop: configs/mixture.py with the
policy of configs/maze_tiny.py. Of four problems two are mazes, one is a 4 x 4 sudoku,
and one has tiles to move.

    python -m passk_jax.train --config=configs/mixture_tiny.py \\
        --workdir=runs/mixture_tiny

The same with problems drawn by how much the verdicts on them vary, in its own workdir:

    python -m passk_jax.train --config=configs/mixture_tiny.py \\
        --config.train.follow_difficulty=0.9 --workdir=runs/mixture_tiny_by_difficulty

Time: minutes of a core. Result: see experiments/README.md, which says what was run.
"""

from ml_collections import ConfigDict

from configs import maze_tiny, puzzles_tiny

PUZZLES = ('sudoku2', 'eight_puzzle')


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = puzzles_tiny.get_config()
    config.name = 'mixture_tiny'
    mazes = maze_tiny.get_config().task.params.to_dict()
    # As many mazes to evaluate as problems of both puzzles.
    mazes |= {'validation_counts': (64,), 'test_counts': (128,)}
    parts = {'mazes': {'weight': 2, 'task': 'maze', 'params': mazes}}
    for name in PUZZLES:
        params = config.task.params.to_dict() | {'puzzles': (name,)}
        parts[name] = {'weight': 1, 'task': 'enigmata', 'params': params}
    config.task.name = 'mixture'
    config.task.params = ConfigDict({'parts': parts})
    # A sudoku's prompt; others of configs/puzzles_tiny.py are longer.
    config.data.max_prompt_tokens = 42
    return config
