"""Does the result hold for other mazes, and not only for other seeds?

    python -m passk_jax.sweep --config=experiments/sweeps/new_mazes.py:mazes=1

All other sweeps on medium mazes have one set of training and test mazes. Here five
other sets, drawn with ``task.params.seed`` 1 to 5, are crossed with five seeds of warm
start, batches and draws: one sweep for each set. ``python -m experiments.new_mazes``
compares them, with sets and seeds as random effects.

Expected, written before the first run and judged in experiments/pages/new_mazes.md:

1. Over all sets Pass@4 Training ends with a higher Pass@32 than Pass@1 Training, by at
   least .05, and with a lower Pass@1, by less than .05. The intervals are over sets.
2. Each set has the signs of 1.
3. Sets differ less in the gain in Pass@32 than seeds do: the standard deviation of sets
   is below that of seeds within a set.
"""

from configs import arguments
from passk_jax.sweeps import DIVERSITY, MEASURES, TRAININGS, Sweep, estimator_arms

SETS = (1, 2, 3, 4, 5)


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    mazes = arguments.parse(
        argument, defaults={'mazes': SETS[0]}, choices={'mazes': SETS}
    )['mazes']
    return Sweep(
        name=f'new_mazes_{mazes}',
        title=f'5x5 mazes, set {mazes}',
        arms=estimator_arms(
            TRAININGS, 'configs/maze_tiny.py', {'task.params.seed': mazes}
        ),
        baseline='pass_at_1',
        seeds=(50, 51, 52, 53, 54),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )
