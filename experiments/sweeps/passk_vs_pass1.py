"""Pass@k Training against Pass@1 Training, paired over seeds, at laptop size.

    python -m passk_jax.sweep --config=experiments/sweeps/passk_vs_pass1.py

A seed decides the warm start, the batches and the draws of both of its runs, so the two
differ in the estimator alone.

Seeds 0 to 7 ran without expectations of this file's own. Those of 8 to 15, written when
the first eight had been seen and before the first run of these, are judged on these
eight alone, in experiments/pages/passk_vs_pass1.md:

1. Pass@32 ends higher under Pass@4 Training, by at least .05, and so do entropy and the
   diversity of wrong answers.
2. Pass@1 ends lower under Pass@4 Training, by less than .05.
3. Under Pass@1 Training Pass@32 ends below that of the first policy.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, TRAININGS, Sweep, estimator_arms


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='passk_vs_pass1',
        title='5x5 mazes',
        arms=estimator_arms(TRAININGS, 'configs/maze_tiny.py'),
        baseline='pass_at_1',
        seeds=tuple(range(16)),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )
