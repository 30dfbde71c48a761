"""Pass@k Training against Pass@1 Training, paired over seeds, at laptop size.

    python -m passk_jax.sweep --config=experiments/sweeps/passk_vs_pass1.py

A seed decides the warm start, the batches and the draws of both of its runs, so the two
differ in the estimator alone.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep


def get_sweep() -> Sweep:
    """Returns what is compared."""
    return Sweep(
        name='passk_vs_pass1',
        title='5x5 mazes',
        arms=(
            _arm('pass_at_1', 'Pass@1 Training'),
            _arm('pass_at_k', 'Pass@4 Training'),
        ),
        baseline='pass_at_1',
        seeds=(0, 1, 2, 3, 4, 5, 6, 7),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )


def _arm(estimator: str, label: str) -> Arm:
    """The arm of an estimator, which names it."""
    overrides = {'advantage.name': estimator}
    return Arm(estimator, label, 'configs/maze_tiny.py', overrides)
