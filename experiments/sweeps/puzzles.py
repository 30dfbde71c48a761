"""Does what mazes show hold on other puzzles?

    python -m passk_jax.sweep --config=experiments/sweeps/puzzles.py

One policy is warm-started on five Enigmata puzzles and trained on all of them (see
configs/puzzles_tiny.py), paired over seeds. Written down before the first run:

1. Over all puzzles Pass@4 Training ends with a higher Pass@32, and a higher entropy,
   than Pass@1 Training, as on mazes.
2. Over all puzzles it ends with a lower Pass@1, as on mazes.
3. No single puzzle has a significant difference in Pass@32 of the other sign.

Three arms and the seeds 5 to 9 came later. On mazes MaxRL keeps most of Pass@1 and most
of the gain in Pass@32, and RS-GRPO all of Pass@1 that shows. Of the new seeds, written
down before the first run of what they are about:

4. Over all puzzles ``maxrl`` ends less than .01 below Pass@4 Training in Pass@32, and
   above it in Pass@1.
5. Over all puzzles ``canonical_k`` ends within .01 of Pass@4 Training in Pass@32, and
   below it in Pass@1.
6. Over all puzzles ``rs_grpo`` ends less than .01 below ``pass_at_1`` in Pass@1, and
   above it in Pass@32.
"""

from configs.puzzles_tiny import PUZZLES
from passk_jax.sweeps import MEASURES, Arm, Sweep


def get_sweep() -> Sweep:
    """Returns what is compared."""
    return Sweep(
        name='puzzles',
        title='five puzzles',
        arms=(
            _arm('pass_at_1', 'Pass@1 Training'),
            _arm('pass_at_k', 'Pass@4 Training'),
            _arm('canonical_k', 'canonical, k = 4'),
            _arm('maxrl', 'MaxRL'),
            _arm('rs_grpo', 'RS-GRPO, beta = 2'),
        ),
        baseline='pass_at_1',
        seeds=tuple(range(10)),
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
        contrasts=(('canonical_k', 'pass_at_k'), ('maxrl', 'pass_at_k')),
    )


def _arm(estimator: str, label: str) -> Arm:
    """The arm of an estimator, which names it."""
    overrides = {'advantage.name': estimator}
    return Arm(estimator, label, 'configs/puzzles_tiny.py', overrides)
