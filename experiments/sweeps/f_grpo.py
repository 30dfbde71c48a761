"""Is F-GRPO ahead of Pass@k Training at equal Pass@1? Fresh seeds.

    python -m passk_jax.sweep --config=experiments/sweeps/f_grpo.py:difficulty=hard

On the fronts of ``knobs.py`` F-GRPO with gamma = 1 had the Pass@1 of Pass@2 Training,
and with gamma = 2 that of Pass@4 Training, both with a higher Pass@32. The pairs were
chosen when the results had been seen, so these runs are the same arms with eight other
seeds.

Expected on either difficulty, written before the first run and judged in
experiments/pages/knobs.md:

1. Pass@32 is higher: of gamma = 1 than of k = 2, and of gamma = 2 than of k = 4.
2. Pass@1 is the same within .02: the interval of either difference lies between -.02
   and .02.
"""

import dataclasses

from experiments.sweeps import knobs
from passk_jax.sweeps import Sweep

PAIRS = (('f_grpo_1', 'pass_at_k_2'), ('f_grpo_2', 'pass_at_k_4'))


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    fronts = knobs.get_sweep(argument)
    arms = {arm.name: arm for arm in fronts.arms}
    return dataclasses.replace(
        fronts,
        name=fronts.name.replace('knobs', 'f_grpo'),
        arms=tuple(arms[name] for pair in PAIRS for name in reversed(pair)),
        baseline='pass_at_k_2',
        seeds=tuple(range(110, 118)),
        contrasts=PAIRS[1:],
    )
