"""Pass@k Training against Pass@1 Training on mazes that have one solution.

    python -m passk_jax.sweep --config=experiments/sweeps/perfect_mazes.py

The mazes of configs/maze9.py are trees of corridors, as in MaxRL's testbed. Only one
path leads to the exit without detours, so there are hardly other right answers to keep:
what Pass@k Training can preserve is doubt at each fork. A seed decides the warm start,
the batches and the draws of both of its runs. The first policy of seed 0 has a Pass@1
of .60 and a Pass@32 of .93 on the validation split, with an entropy of .09 nats a
token.

Expected, written before the first run and judged in experiments/pages/perfect_mazes.md:

1. Pass@32 ends higher under Pass@4 Training, as on mazes with several solutions.
2. Pass@1 ends lower under Pass@4 Training, for most problems are easy here and the
   estimator hardly weighs those.
3. The lead in Pass@32 is smaller than the .10 of experiments/sweeps/passk_vs_pass1.py,
   because the first policy already solves nearly every maze in 32 attempts.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, TRAININGS, Sweep, estimator_arms


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='perfect_mazes',
        title='9x9 mazes with one solution',
        arms=estimator_arms(TRAININGS, 'configs/maze9.py'),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )
