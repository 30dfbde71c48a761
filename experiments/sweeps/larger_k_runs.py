"""Runs for ``experiments/larger_k.py``: a larger k at its start and at its end.

    python -m passk_jax.sweep --config=experiments/sweeps/larger_k_runs.py
    python -m experiments.larger_k --workdir=runs/larger_k_runs

Pass@1 and Pass@8 Training on the mazes of configs/maze_tiny.py, with every checkpoint
kept at which there is an evaluation. The seeds are those of
``estimators.py:variant=medium``, which has no Pass@8 Training.

Expected, written before the first run and judged in experiments/pages/larger_k.md:
after 50 steps Pass@8 Training is behind in Pass@1 and not in Pass@8 (validation split),
as with the seeds 0 to 4 of paper_ablations.py. What is expected of the gradients stands
in ``experiments/larger_k.py``.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='larger_k_runs',
        title='5x5 mazes',
        arms=(
            _arm('pass_at_1', 'Pass@1 Training', 1),
            _arm('pass_at_k', 'Pass@8 Training', 8),
        ),
        baseline='pass_at_1',
        seeds=tuple(range(11, 19)),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )


def _arm(estimator: str, label: str, k: int) -> Arm:
    """Makes the arm of an estimator, with the estimator's name."""
    checkpoints = {'checkpoint.every': 50, 'checkpoint.keep_every': 50}
    overrides = {'advantage.name': estimator, 'advantage.k': k, **checkpoints}
    return Arm(estimator, label, 'configs/maze_tiny.py', overrides)
