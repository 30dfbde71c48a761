"""Pass@k Training whose k halves from stage to stage, down to Pass@1 Training.

Each value of k is a stage (``config.stages``), starting with k = ``first``. It is not
in the paper, whose runs have at most two parts (section ``sec:passk_to_pass1``) and a
constant k (section ``sec:robustness``).

    python -m passk_jax.train --config=configs/annealed_k.py --workdir=runs/annealed_k
    python -m passk_jax.train --config=configs/annealed_k.py:first=4 \\
        --workdir=runs/annealed_k_4
    python -m passk_jax.train --config=configs/annealed_k.py:size=full \\
        --workdir=/shared/annealed_k

The sizes are those of configs/ablations, but ``tiny`` is the default. All stages have
the same length and draw new problems. The optimizer's state continues.

We expected a higher Pass@32 at the end than with Pass@1 Training, and no lower Pass@1.
On easy mazes Pass@32 is higher, +.033 [+.018, +.049]; on hard ones that is unclear,
+.018 [-.026, +.061], as is Pass@1 on both (five seeds, experiments/README.md).
"""

from ml_collections import ConfigDict

from configs import arguments
from configs.ablations.sizes import SIZES
from passk_jax.errors import InputError


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    values = arguments.parse(
        argument, defaults={'first': 8, 'size': 'tiny'}, choices={'size': SIZES}
    )
    first, size = values['first'], values['size']
    config = SIZES[size]()
    N, steps = config.sampling.num_rollouts, config.train.steps
    if not 2 <= first < N:
        raise InputError(
            f'first={first} must lie in [2, {N - 1}]: with 1 nothing falls, and with '
            f'sampling.num_rollouts={N} every advantage is 0'
        )
    ks = [first >> part for part in range(first.bit_length())]
    config.name = 'annealed_k' if size == 'tiny' else f'annealed_k_{size}'
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
