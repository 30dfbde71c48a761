"""Pass@k Training with groups of 4, 8 and 16 out of 32 responses, paired over seeds.

    python -m passk_jax.sweep --config=experiments/sweeps/group_sizes.py

The paper's ``fig:sec3.4`` at the size of a laptop, with its 32 rollouts: of the 16 that
other sweeps have, a group of 16 has no advantage. All arms have one learning rate. A
seed decides the warm start, the batches and the draws of every arm.

Expected, written before the first run and judged in experiments/pages/group_sizes.md:

1. k changes little, as the paper says: k = 8 and 16 end within .03 of k = 4 in Pass@8.
2. The larger k, the lower is Pass@1 at the end and the higher is Pass@32.
3. k = 16 learns more slowly: its Pass@8 after 50 steps is below that of k = 4.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

_KS = (4, 8, 16)


def get_sweep() -> Sweep:
    """Returns the sweep."""
    groups = tuple(
        _arm(f'analytical.py:k={k},size=tiny', f'Pass@{k} Training', k) for k in _KS
    )
    return Sweep(
        name='group_sizes',
        title='5x5 mazes, N = 32',
        arms=(_arm('pass_at_1.py:size=tiny', 'Pass@1 Training', 1), *groups),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
        contrasts=(('pass_at_8', 'pass_at_4'), ('pass_at_16', 'pass_at_4')),
    )


def _arm(file: str, label: str, k: int) -> Arm:
    """Makes the arm of an ablation's file, with twice the rollouts of ``size=tiny``."""
    overrides = {'sampling.num_rollouts': 32}
    return Arm(f'pass_at_{k}', label, f'configs/ablations/{file}', overrides)
