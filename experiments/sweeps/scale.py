"""The scale of an advantage and its shape: AdamW hides the one, SGD does not.

    python -m passk_jax.sweep --config=experiments/sweeps/scale.py

At k = 8 and N = 16 the analytical advantage weighs a problem that succeeds with
probability .1 a fifth of what Pass@1 Training does. ``advantage.match_weight_at=0.1``
undoes that: one curve, times 5.0. The mazes are those of configs/maze_tiny.py with
paths of 5 to 10 moves. A seed decides the warm start, the batches and the draws of
every arm.

Expected, written before the first run and judged in experiments/pages/scale.md: under
AdamW the two scales end alike; under SGD the larger one learns faster, and the rest of
the difference to Pass@1 Training is what the shape does.

At the rate of SGD, .3, Pass@1 fell within 50 steps (experiments/pages/scale.md).
``scale.py:variant=slow`` has the arms of SGD again, at the rate of
``estimators.py:variant=matched``, .01, which was chosen with ``pass_at_1`` and another
seed. Expected, written before its first run:

1. The larger scale ends above the smaller one in Pass@1 and in Pass@8.
2. Less Pass@1 Training, which then differs in shape alone, it is at most .02 lower in
   Pass@1, and higher in Pass@32.
3. The smaller scale, a step of a fifth, ends within .02 in Pass@8 of where the larger
   one is after 100 of the 300 steps (validation split).

``scale.py:variant=times_four`` is one curve, half pass@1 and half pass@2, and the same
times 4. Expected, written before its first run:

1. With AdamW, four times its epsilon and four times the limit of the gradient's norm,
   training ends with the same values to the last bit, for powers of two are exact.
2. With epsilon and limit as they were it ends within .02 in Pass@1 and in Pass@8.
3. With SGD, whose gradients here stay below the limit, it ends higher in both.
"""

from collections.abc import Mapping
from typing import Any

from configs import arguments
from passk_jax.sweeps import Arm, Sweep

_OPTIMIZERS = {
    'adamw': {},
    # Without moments the gradient itself, clipped at 1, is the update.
    'sgd': {'optimizer.name': 'sgd', 'optimizer.learning_rate': 0.3},
}
_SLOW = {
    'optimizer.name': 'sgd',
    'optimizer.learning_rate': 0.01,
    # Clipping would hide the scale.
    'optimizer.max_grad_norm': 10.0,
}
_ADVANTAGES = {
    'pass_at_1': ('Pass@1 Training', {'advantage.name': 'pass_at_1'}),
    'pass_at_8': ('Pass@8 Training', {'advantage.k': 8}),
    'matched': (
        'Pass@8 Training, matched',
        {'advantage.k': 8, 'advantage.match_weight_at': 0.1},
    ),
}


_ONE = {'advantage.name': 'mixture', 'advantage.pass_weights': (0.5, 0.5)}
_FOUR = _ONE | {'advantage.pass_weights': (2.0, 2.0)}
_TIMES_FOUR = {
    'one_adamw': ('times 1, adamw', _ONE),
    'four_adamw': ('times 4, adamw', _FOUR),
    'four_adamw_epsilon': (
        'times 4, adamw, its epsilon and limit too',
        _FOUR | {'optimizer.eps': 4e-8, 'optimizer.max_grad_norm': 4.0},
    ),
    'one_sgd': ('times 1, sgd', _ONE | _SLOW),
    'four_sgd': ('times 4, sgd', _FOUR | _SLOW),
}

# Name -> label and settings.
_VARIANTS: Mapping[str, Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    'fast': {
        f'{name}_{optimizer}': (f'{label}, {optimizer}', settings | advantage)
        for optimizer, settings in _OPTIMIZERS.items()
        for name, (label, advantage) in _ADVANTAGES.items()
    },
    'slow': {
        f'{name}_sgd': (f'{label}, sgd', _SLOW | advantage)
        for name, (label, advantage) in _ADVANTAGES.items()
    },
    'times_four': _TIMES_FOUR,
}
_BASELINES = {
    'fast': 'pass_at_8_adamw',
    'slow': 'pass_at_8_sgd',
    'times_four': 'one_adamw',
}
_CONTRASTS = {
    'slow': (('matched_sgd', 'pass_at_1_sgd'),),
    'times_four': (('four_sgd', 'one_sgd'),),
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    choices = {'variant': tuple(_VARIANTS)}
    values = arguments.parse(argument, defaults={'variant': 'fast'}, choices=choices)
    variant = values['variant']
    arms = tuple(
        Arm(
            name,
            label,
            'configs/maze_tiny.py',
            {'task.params.min_path': 5, **settings},
        )
        for name, (label, settings) in _VARIANTS[variant].items()
    )
    return Sweep(
        name='scale' if variant == 'fast' else f'scale_{variant}',
        title='5x5 mazes, paths of 5 to 10 moves',
        arms=arms,
        baseline=_BASELINES[variant],
        seeds=(0, 1, 2, 3, 4),
        measures={
            'pass_at_1': 'Pass@1',
            'pass_at_8': 'Pass@8',
            'pass_at_32': 'Pass@32',
            'entropy': 'entropy (nats a token)',
        },
        split='test',
        curves='validation',
        contrasts=_CONTRASTS.get(variant, ()),
    )
