"""Groups made of few rollouts, of the same ones again, or of four times as many.

    python -m passk_jax.sweep --config=experiments/sweeps/rollouts.py

The paper's figure ``fig:sec2.3`` on the mazes of configs/maze_tiny.py, with its ratio
of four: full sampling makes 4 groups of 16 rollouts, and 16 groups of 64; bootstrap
sampling makes 16 groups of 16. A seed decides the warm start and the problems of every
arm, and the draws of those with 16 rollouts.

Expected, written before the first run and judged in experiments/pages/rollouts.md:

1. Four times the rollouts help full sampling: 64 end above 16 in Pass@4.
2. At the same number of groups bootstrap sampling (16 rollouts) ends less than .02
   below full sampling (64 rollouts) in Pass@4, for a quarter of the rollouts.
3. At the same number of rollouts bootstrap sampling ends above full sampling in Pass@4.
4. Full sampling with 64 rollouts ends above Pass@1 Training with 16 in Pass@4. With 16
   rollouts it does not (experiments/sweeps/paper_ablations.py).
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

_FULL = 'configs/ablations/full_sampling.py:num_rollouts'
_BOOTSTRAP = 'configs/ablations/bootstrap_sampling.py:aggregation=sum,size=tiny'


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='rollouts',
        title='5x5 mazes, groups of 4',
        arms=(
            Arm(
                'pass_at_1',
                'Pass@1 Training, N = 16',
                'configs/ablations/pass_at_1.py:size=tiny',
            ),
            Arm('full_16', 'full sampling, N = 16', f'{_FULL}=16,size=tiny'),
            Arm('bootstrap_16', 'bootstrap, N = 16', _BOOTSTRAP),
            Arm('full_64', 'full sampling, N = 64', f'{_FULL}=64,size=tiny'),
        ),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
        contrasts=(
            ('full_64', 'full_16'),
            ('bootstrap_16', 'full_64'),
            ('bootstrap_16', 'full_16'),
        ),
    )
