"""Pass@k Training against Pass@1 Training with adapters, at laptop size.

    python -m passk_jax.sweep --config=experiments/sweeps/adapters.py --jobs=1

The comparison of experiments/sweeps/passk_vs_pass1.py, whose runs train all parameters,
with adapters of rank 8 on every matrix of the layers. The base is the warm-started
policy of the same seed, whose runs without adapters are in that sweep's results. The
rate is ten times as high as there, which "LoRA Without Regret" (Thinking Machines,
2025) finds to be best for adapters; no other was tried.

Expected, written before the first run:

1. As without adapters, Pass@32 ends higher under Pass@4 Training, by at least .05 in
   the mean of the seeds, and so does entropy.
2. As without adapters, Pass@1 ends lower under Pass@4 Training, by less than .05.
3. Under each estimator, Pass@1 and Pass@32 end within .05 of the mean without adapters
   of the same seeds: rank 8 suffices for rewards, which carry few bits.
"""

from passk_jax.sweeps import DIVERSITY, MEASURES, TRAININGS, Sweep, estimator_arms

_ADAPTERS = {
    'model.lora.rank': 8,
    'model.lora.alpha': 16.0,
    'model.lora.targets': ('all-linear',),
    'optimizer.learning_rate': 2e-3,
}


def get_sweep() -> Sweep:
    """Returns the sweep."""
    return Sweep(
        name='adapters',
        title='5x5 mazes, adapters of rank 8',
        arms=estimator_arms(TRAININGS, 'configs/maze_tiny.py', _ADAPTERS),
        baseline='pass_at_1',
        seeds=tuple(range(5)),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
    )
