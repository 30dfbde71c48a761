"""Pass@k Training of a policy that reads mazes from pictures, on a laptop.

The mazes and the verdict of configs/maze_tiny.py, and the policy of
configs/visual_counting.py: a picture has a patch for each of 5 x 5 cells.

    python -m passk_jax.train --config=configs/visual_maze.py --workdir=runs/visual_maze

The same with black pictures, to see what is right without sight:

    python -m passk_jax.train --config=configs/visual_maze.py:sight=blind \\
        --workdir=runs/visual_maze_blind

Time: four minutes of one core. Result of five seeds with ``experts=8``
(experiments/pages/visual_maze.md): test Pass@1 .202 and Pass@32 .762 before, .385 and
.813 after 300 steps; blind .015 and .198.
"""

from ml_collections import ConfigDict

from configs import maze_tiny, visual_counting


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration; the arguments are those of visual_counting.py."""
    config = maze_tiny.get_config()
    config.name = 'visual_maze'
    visual_counting.add_tower(config, argument)
    config.model.arch.vision.table_size = 5
    config.task.name = 'visual_maze'
    # The size of a patch of the tower.
    config.task.params.cell_pixels = 4
    # 25 patches, two marks and a line break.
    config.data.max_prompt_tokens = 30
    return config
