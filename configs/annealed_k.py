"""Pass@k Training whose k is halved from part to part, until it is Pass@1 Training.

configs/maze_tiny.py, beginning with k = ``first``, or 8. Not in the paper: its parts
are two at most (section ``sec:passk_to_pass1``), and its values of k stay (section
``sec:robustness``).

    python -m passk_jax.train --config=configs/annealed_k.py --workdir=runs/annealed_k
    python -m passk_jax.train --config=configs/annealed_k.py:first=4 \\
        --workdir=runs/annealed_k_4

Each part draws its problems anew, and all are equally long. The optimizer goes on.

Expected: a higher Pass@32 at the end than under Pass@1 Training, and no lower Pass@1.
Time: minutes of a core. Result: see experiments/README.md, which says what was run.
"""

from ml_collections import ConfigDict

from configs import arguments, maze_tiny
from passk_jax.errors import InputError


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    first = arguments.parse(argument, defaults={'first': 8})['first']
    config = maze_tiny.get_config()
    N, steps = config.sampling.num_rollouts, config.train.steps
    if not 2 <= first < N:
        raise InputError(
            f'first={first} must lie in [2, {N - 1}]: with 1 nothing falls, and with '
            f'sampling.num_rollouts={N} every advantage is 0'
        )
    ks = [first >> part for part in range(first.bit_length())]
    config.name = 'annealed_k'
    config.advantage.name, config.advantage.k = 'pass_at_k', first
    config.stages = {
        f'part_{part + 1}_k_{k}': {
            'start': steps * part // len(ks),
            'reset_optimizer': False,
            'advantage': {'k': k},
        }
        for part, k in enumerate(ks)
        if part
    }
    return config
