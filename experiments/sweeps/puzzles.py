"""Does what mazes show hold on other puzzles?

    python -m passk_jax.sweep --config=experiments/sweeps/puzzles.py

One policy is warm-started on five Enigmata puzzles and trained on all of them (see
configs/puzzles_tiny.py), paired over seeds. Written down before the first run:

1. Over all puzzles Pass@4 Training ends with a higher Pass@32, and a higher entropy,
   than Pass@1 Training, as on mazes.
2. Over all puzzles it ends with a lower Pass@1, as on mazes.
3. No single puzzle has a significant difference in Pass@32 of the other sign.

Later came the seeds 5 to 9, and for them three arms more, which
``puzzles.py:variant=estimators`` compares. On mazes MaxRL keeps most of Pass@1 and most
of the gain in Pass@32, and RS-GRPO all of Pass@1 that shows. Written down before the
first run of what they are about:

4. Over all puzzles ``maxrl`` ends less than .01 below Pass@4 Training in Pass@32, and
   above it in Pass@1.
5. Over all puzzles ``canonical_k`` ends within .01 of Pass@4 Training in Pass@32, and
   below it in Pass@1.
6. Over all puzzles ``rs_grpo`` ends less than .01 below ``pass_at_1`` in Pass@1, and
   above it in Pass@32.
"""

from configs import arguments
from configs.puzzles_tiny import PUZZLES
from passk_jax.sweeps import MEASURES, Arm, Sweep

_TWO = (('pass_at_1', 'Pass@1 Training'), ('pass_at_k', 'Pass@4 Training'))
_MORE = (
    ('canonical_k', 'canonical, k = 4'),
    ('maxrl', 'MaxRL'),
    ('rs_grpo', 'RS-GRPO, beta = 2'),
)


def get_sweep(argument: str = '') -> Sweep:
    """Returns what is compared."""
    variants = {'variant': ('two', 'estimators')}
    values = arguments.parse(argument, defaults={'variant': 'two'}, choices=variants)
    more = values['variant'] == 'estimators'
    return Sweep(
        name='puzzles_estimators' if more else 'puzzles',
        title='five puzzles',
        arms=tuple(_arm(*each) for each in (_TWO + _MORE if more else _TWO)),
        baseline='pass_at_1',
        seeds=tuple(range(5 if more else 0, 10)),
        measures={
            **MEASURES,
            **{
                f'{puzzle}/pass_at_{k}': f'{puzzle}, Pass@{k}'
                for k in (1, 32)
                for puzzle in PUZZLES
            },
        },
        split='test',
        curves='validation',
        contrasts=(
            (('canonical_k', 'pass_at_k'), ('maxrl', 'pass_at_k')) if more else ()
        ),
    )


def _arm(estimator: str, label: str) -> Arm:
    """The arm of an estimator, which names it."""
    overrides = {'advantage.name': estimator}
    return Arm(estimator, label, 'configs/puzzles_tiny.py', overrides)
