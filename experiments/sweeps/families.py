"""Does the result hold for other kinds of puzzle, where no answer is safe?

    pip install '.[reasoning-gym]'
    python -m passk_jax.sweep --config=experiments/sweeps/families.py

Three of the five puzzles of experiments/sweeps/puzzles.py have an answer that is right
for many problems, and one of the five makes most of the gain. Here are fifteen families
in which no answer is right for more than a tenth of the problems; one policy learns all
of them (configs/families_tiny.py). ``python -m experiments.families`` compares the
families, with family and seed as random effects.

Expected, written before the first run and judged in experiments/pages/families.md:

1. Over all families Pass@4 Training ends with a higher Pass@32 than Pass@1 Training, by
   more than .02, and with a lower Pass@1, by less than .03. The intervals are for a new
   family and a new seed.
2. At least ten of the fifteen families gain in Pass@32, as means over seeds, and none
   loses significantly.
3. No family makes more than a third of the gain of all.
4. Families differ more in the gain in Pass@32 than seeds do: the standard deviation of
   families is above that of seeds.
"""

from configs import arguments
from configs.families_tiny import FAMILIES
from passk_jax.sweeps import (
    MEASURES,
    TRAININGS,
    Sweep,
    category_measures,
    estimator_arms,
)


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    arguments.parse(argument, defaults={})
    return Sweep(
        name='families',
        title=f'{len(FAMILIES)} families of puzzles',
        arms=estimator_arms(TRAININGS, 'configs/families_tiny.py'),
        baseline='pass_at_1',
        seeds=(80, 81, 82, 83, 84),
        measures={**MEASURES, **category_measures(FAMILIES)},
        split='test',
        curves='validation',
    )
