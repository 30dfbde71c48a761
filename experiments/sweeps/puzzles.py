"""Does what mazes show hold on other puzzles?

    python -m passk_jax.sweep --config=experiments/sweeps/puzzles.py

One policy is warm-started on five Enigmata puzzles and trained on all of them (see
configs/puzzles_tiny.py), paired over seeds. Written down before the first run:

1. Over all puzzles Pass@4 Training ends with a higher Pass@32, and a higher entropy,
   than Pass@1 Training, as on mazes.
2. Over all puzzles it ends with a lower Pass@1, as on mazes.
3. No single puzzle has a significant difference in Pass@32 of the other sign.

Later came the seeds 5 to 9, and for them three arms more, which
``puzzles.py:variant=estimators`` compares. On mazes MaxRL seemed to keep most of Pass@1
and most of the gain in Pass@32, and RS-GRPO all of Pass@1 that shows
(experiments/pages/puzzles.md). Written down before the first run of what they are
about:

4. Over all puzzles ``maxrl`` ends less than .01 below Pass@4 Training in Pass@32, and
   above it in Pass@1.
5. Over all puzzles ``canonical_k`` ends within .01 of Pass@4 Training in Pass@32, and
   below it in Pass@1.
6. Over all puzzles ``rs_grpo`` ends less than .01 below ``pass_at_1`` in Pass@1, and
   above it in Pass@32.

``puzzles.py:variant=designs`` has the designs that the paper runs on puzzles, its
figures fig:sec4.2.2 and fig:sec4.2.3, and two estimators that had run on mazes alone.
Its seeds, 20 to 24, are its own, so that all arms of a seed begin with one policy:
another machine makes another of the same seed. Written down before its first run:

7. Over all puzzles ``combination`` does not end above Pass@4 Training in Pass@8, as on
   mazes and unlike in the paper; in Pass@1 the two end within .01.
8. Over all puzzles ``adaptive`` ends below Pass@4 Training in Pass@8, as on mazes and
   unlike in the paper, and not above ``pass_at_1`` in Pass@1.
9. Over all puzzles ``f_grpo`` ends as ``rs_grpo`` did: within .01 of ``pass_at_1`` in
   Pass@1, and without a gain in Pass@32.
10. Over all puzzles ``curverl`` ends above ``pass_at_1`` in Pass@32 and below it in
    Pass@1.
"""

from configs import arguments
from configs.puzzles_tiny import PUZZLES
from passk_jax.sweeps import (
    MEASURES,
    TRAININGS,
    Sweep,
    category_measures,
    estimator_arms,
)

_ESTIMATORS = {
    'canonical_k': 'canonical, k = 4',
    'maxrl': 'MaxRL',
    'rs_grpo': 'RS-GRPO, beta = 2',
}
_DESIGNS = {
    'combination': 'combination',
    'adaptive': 'adaptive',
    'f_grpo': 'F-GRPO, gamma = .5',
    'curverl': 'CurveRL',
}
# Name -> the further arms, the seeds, and the pairs that are compared besides.
_VARIANTS = {
    'two': ({}, range(10), ()),
    'estimators': (
        _ESTIMATORS,
        range(5, 10),
        (('canonical_k', 'pass_at_k'), ('maxrl', 'pass_at_k')),
    ),
    'designs': (
        _DESIGNS,
        range(20, 25),
        (('combination', 'pass_at_k'), ('adaptive', 'pass_at_k')),
    ),
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    variants = {'variant': tuple(_VARIANTS)}
    values = arguments.parse(argument, defaults={'variant': 'two'}, choices=variants)
    variant = values['variant']
    more, seeds, contrasts = _VARIANTS[variant]
    return Sweep(
        name='puzzles' if variant == 'two' else f'puzzles_{variant}',
        title='five puzzles',
        arms=estimator_arms({**TRAININGS, **more}, 'configs/puzzles_tiny.py'),
        baseline='pass_at_1',
        seeds=tuple(seeds),
        measures={**MEASURES, **category_measures(PUZZLES)},
        split='test',
        curves='validation',
        contrasts=contrasts,
    )
