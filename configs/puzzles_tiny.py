"""Pass@k Training on five Enigmata puzzles on two CPU cores.

Paper: Pass@k Training, section ``sec:passk_to_pass1`` (Enigmata), at the size of a
laptop: five puzzles whose answers are short, at the easiest level, and a warm start in
place of a language model's pre-training. It tests whether the results of
configs/maze_tiny.py hold beyond mazes.

    python -m passk_jax.train --config=configs/puzzles_tiny.py \\
        --workdir=runs/puzzles_tiny

Pass@1 Training, for comparison, in its own workdir:

    python -m passk_jax.train --config=configs/puzzles_tiny.py \\
        --config.advantage.name=pass_at_1 --workdir=runs/puzzles_tiny_pass_at_1

Time: ten minutes of a core. Result: see experiments/README.md.

One policy learns all five: a 4 x 4 sudoku, four numbers that make 24, and three puzzles
of moving tiles, of which two shift rows and columns. A sudoku has one or few right
answers, the others have many.
"""

from ml_collections import ConfigDict

from configs import maze_tiny

PUZZLES = ('sudoku2', 'game24', 'nine_puzzle', 'sixteen_puzzle', 'eight_puzzle')


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = maze_tiny.get_config()
    config.name = 'puzzles_tiny'

    config.task.name = 'enigmata'
    config.task.params = ConfigDict(
        {
            'puzzles': PUZZLES,
            'levels': ('easy',),
            # The problems of each puzzle; nine_puzzle has 1,300 in all.
            'train_count': 1_000,
            'validation_count': 32,
            'test_count': 64,
            'seed': 0,
            'prompt': 'bare',
        }
    )
    config.data.max_prompt_tokens = 56
    config.sampling.max_response_tokens = 46
    config.train.steps = 200
    config.train.pack_sizes = 0

    config.init.warm_start.steps = 400
    config.init.warm_start.demonstrations = 'solution'
    return config
