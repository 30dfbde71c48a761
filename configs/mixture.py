"""Mazes and Enigmata's puzzles in one run, the levels of the puzzles by weight.

Paper: Pass@k Training, which trains one model on mazes and another on Enigmata (section
``sec:passk_to_pass1``, appendix ``sec:app_exp``). This mixes them: of eight problems
two are mazes, one is an easy puzzle, three are medium and two are hard ones.

    python -m passk_jax.train --config=configs/mixture.py --workdir=/shared/mixture

One flag changes a weight. Another one draws more of the problems whose verdicts vary:

    --config.task.params.parts.mazes.weight=4 --config.train.follow_difficulty=0.9

To add a part, give a task of ``python -m passk_jax.tasks`` and its parameters. All
parts share the limits of prompt and response. A part's metrics begin with its name, as
in ``mazes/pass_at_1``. No part trains on a problem that another part tests on.

Time and result: see experiments/README.md, which says what was run and on which
hardware. The same at the size of a laptop: configs/mixture_tiny.py.
"""

from ml_collections import ConfigDict

from configs import enigmata, maze

# Part -> its weight and its level.
PUZZLES = {
    'puzzles_easy': (1, 'easy'),
    'puzzles_medium': (3, 'medium'),
    'puzzles_hard': (2, 'hard'),
}


def get_config() -> ConfigDict:
    """Returns the configuration."""
    config = enigmata.get_config('model=qwen25_7b')
    config.name = 'mixture'
    # -1 takes all devices.
    config.mesh.update(data=1, fsdp=-1, rollout=1, tensor=1)
    config.train.micro_batch_prompts = 4
    params = config.task.params.to_dict()
    mazes = maze.get_config().task.params.to_dict()
    parts = {'mazes': {'weight': 2, 'task': 'maze', 'params': mazes}}
    for name, (weight, level) in PUZZLES.items():
        of_level = params | {'levels': (level,)}
        parts[name] = {'weight': weight, 'task': 'enigmata', 'params': of_level}
    config.task.name = 'mixture'
    config.task.params = ConfigDict({'parts': parts})
    return config
