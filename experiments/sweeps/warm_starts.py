"""Does what Pass@k Training gains and costs follow how good the first policy is?

    python -m passk_jax.sweep --config=experiments/sweeps/warm_starts.py:steps=100

The medium mazes of configs/maze_tiny.py after warm starts of 100, 200, 400 and 800
supervised steps: one sweep each. ``python -m experiments.warm_starts`` compares them.

Pass@k Training takes weight from problems that are mostly solved. So its price in
Pass@1 should follow the share of problems that the first policy solves in at least 60 %
of its responses. Expected, written before the first run and judged in
experiments/pages/warm_starts.md:

1. Pass@4 Training ends with a higher Pass@32 than Pass@1 Training after each warm
   start.
2. The price in Pass@1 follows that share: over the four warm starts its slope is
   negative.
3. The price after 800 steps is larger than after 100.
4. The gain in Pass@32 shrinks with that share: its slope is negative.
"""

from configs import arguments
from passk_jax.sweeps import DIVERSITY, MEASURES, TRAININGS, Sweep, estimator_arms

STEPS = (100, 200, 400, 800)


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    steps = arguments.parse(
        argument, defaults={'steps': STEPS[0]}, choices={'steps': STEPS}
    )['steps']
    return Sweep(
        name=f'warm_starts_{steps}',
        title=f'5x5 mazes, a warm start of {steps} steps',
        arms=estimator_arms(
            TRAININGS, 'configs/maze_tiny.py', {'init.warm_start.steps': steps}
        ),
        baseline='pass_at_1',
        seeds=(40, 41, 42, 43, 44),
        measures={**MEASURES, **DIVERSITY, 'cover_at_0.6': 'solved in 60 %'},
        split='test',
        curves='validation',
    )
