"""The scale of an advantage and its shape: AdamW hides the one, SGD does not.

    python -m passk_jax.sweep --config=experiments/sweeps/scale.py

At k = 8 and N = 16 the analytical advantage weighs a problem that succeeds with
probability .1 a fifth of what Pass@1 Training does. ``advantage.match_weight_at=0.1``
undoes that: one curve, times 5.0. The mazes are those of configs/maze_tiny.py with
paths of 5 to 10 moves. A seed decides the warm start, the batches and the draws of
every arm.

Expected, written before the first run and judged in experiments/README.md: under AdamW
the two scales end alike; under SGD the larger one learns faster, and the rest of the
difference to Pass@1 Training is what the shape does.

The rate of SGD, .3, turned out to destroy the policy. ``scale.py:variant=slow`` has the
arms of SGD again, at the rate of ``estimators.py:variant=matched``, .01, which was
chosen with ``pass_at_1`` and another seed. Expected, written before its first run:

1. The larger scale ends above the smaller one in Pass@1 and in Pass@8.
2. Less Pass@1 Training, which then differs in shape alone, it is at most .02 lower in
   Pass@1, and higher in Pass@32.
3. The smaller scale, a step of a fifth, ends within .02 in Pass@8 of where the larger
   one is after 100 of the 300 steps (validation split).
"""

from configs import arguments
from passk_jax.sweeps import Arm, Sweep

_OPTIMIZERS = {
    'adamw': {},
    # Without moments the gradient itself, clipped at 1, is the update.
    'sgd': {'optimizer.name': 'sgd', 'optimizer.learning_rate': 0.3},
}
_SLOW = {
    'sgd': {
        'optimizer.name': 'sgd',
        'optimizer.learning_rate': 0.01,
        # Clipping would hide the scale.
        'optimizer.max_grad_norm': 10.0,
    }
}
_ADVANTAGES = {
    'pass_at_1': ('Pass@1', {'advantage.name': 'pass_at_1'}),
    'pass_at_8': ('Pass@8', {'advantage.k': 8}),
    'matched': (
        'Pass@8, matched',
        {'advantage.k': 8, 'advantage.match_weight_at': 0.1},
    ),
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns what is compared."""
    values = arguments.parse(
        argument, defaults={'variant': 'fast'}, choices={'variant': ('fast', 'slow')}
    )
    slow = values['variant'] == 'slow'
    arms = tuple(
        Arm(
            f'{name}_{optimizer}',
            f'{label}, {optimizer}',
            'configs/maze_tiny.py',
            {'task.params.min_path': 5, **settings, **advantage},
        )
        for optimizer, settings in (_SLOW if slow else _OPTIMIZERS).items()
        for name, (label, advantage) in _ADVANTAGES.items()
    )
    return Sweep(
        name='scale_slow' if slow else 'scale',
        title=f'5x5 mazes, paths of 5 to 10 moves{", SGD at .01" if slow else ""}',
        arms=arms,
        baseline='pass_at_8_sgd' if slow else 'pass_at_8_adamw',
        seeds=(0, 1, 2, 3, 4),
        measures={
            'pass_at_1': 'Pass@1',
            'pass_at_8': 'Pass@8',
            'pass_at_32': 'Pass@32',
            'entropy': 'entropy (nats a token)',
        },
        split='test',
        curves='validation',
        contrasts=(('matched_sgd', 'pass_at_1_sgd'),) if slow else (),
    )
