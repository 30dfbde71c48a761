"""The maze testbed of MaxRL at the size of a laptop: mazes of 9x9 with one solution.

Source: MaxRL (arXiv 2602.02710), whose testbed configs/maze17.py has at its own size.
Pass@k Training, section ``sec:passk_w_analytical_derivation`` of the paper.

    python -m passk_jax.train --config=configs/maze9.py --workdir=runs/maze9

Unlike the mazes of configs/maze_tiny.py, which have open places and short paths, these
are trees: one path leads from corner to corner, and a wrong turn ends in a dead end.

Time and result: see experiments/README.md, which says what was run and on which
hardware.
"""

from ml_collections import ConfigDict

from configs import maze_tiny


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = maze_tiny.get_config()
    config.name = 'maze9'
    config.task.params = {
        'generator': 'wilson',
        # Only percolation uses this.
        'wall_probability': 0.0,
        'min_path': 0,
        # A path leaves at most 15 of the 16 rooms, by two moves each.
        'max_path': 30,
        # 100,352 perfect mazes of this size exist.
        'train_sizes': (9,),
        'train_counts': (20_000,),
        'validation_sizes': (9,),
        'validation_counts': (256,),
        'test_sizes': (9,),
        'test_counts': (512,),
        'seed': 0,
        'prompt': 'bare',
    }
    # Nine rows of nine cells and a line break. Thirty moves, a stop, one to spare.
    config.data.max_prompt_tokens = 90
    config.sampling.max_response_tokens = 32
    config.init.warm_start.steps = 600
    return config
