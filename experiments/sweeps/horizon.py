"""Does the result hold at each estimator's best rate, and after four times the steps?

    python -m passk_jax.sweep --config=experiments/sweeps/horizon.py:variant=rates
    python -m passk_jax.sweep --config=experiments/sweeps/horizon.py

Most other sweeps have one learning rate and end after 300 steps or fewer. Here medium
mazes train for 1,200 steps. ``variant=rates`` runs each arm at each of three rates with
a seed that is used for nothing else. The rule, written before its first run: an arm
takes the rate with the highest Pass@1 on the validation split at the end. Then the arms
run at these rates, and ``python -m experiments.horizon`` compares them.

Controls are Pass@1 Training with an entropy bonus, and Pass@1 Training stopped early:
at the first step whose Pass@1 on the validation split is within .01 of the highest.

Expected, written before the first run and judged in experiments/pages/horizon.md:

1. At 1,200 steps Pass@4 Training ends with a higher Pass@32 than Pass@1 Training, and
   the difference is larger than after 300 steps.
2. It ends with a lower Pass@1, by less than .05.
3. Under Pass@1 Training Pass@32 falls from step 300 to 1,200. Under Pass@4 Training it
   falls by less.
4. Pass@1 Training stopped early has a lower Pass@32 than Pass@4 Training stopped by the
   same rule.
5. Pass@1 Training with an entropy bonus ends with a lower Pass@32 than Pass@4 Training.
6. ``maxrl`` ends within .02 of Pass@4 Training in Pass@1 and in Pass@32.
7. More steps help: each arm has a higher Pass@1 at 1,200 steps than at 300 (the paper's
   fig:sec3.4 says so of Pass@k Training).
"""

from collections.abc import Mapping
from typing import Any

from configs import arguments
from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

RATES = (1e-4, 2e-4, 4e-4)
STEPS = 1_200
ARMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    'pass_at_1': ('Pass@1 Training', {}),
    'pass_at_k': ('Pass@4 Training', {}),
    'maxrl': ('MaxRL', {}),
    'rs_grpo': ('RS-GRPO, beta = 2', {}),
    'entropy_bonus': (
        'entropy bonus .003',
        {'advantage.name': 'pass_at_1', 'loss.entropy_coef': 0.003},
    ),
}
# Arm -> its rate, as the rule chooses it (python -m experiments.horizon --rates).
CHOSEN: Mapping[str, float] = {
    'pass_at_1': 2e-4,
    'pass_at_k': 4e-4,
    'maxrl': 2e-4,
    'rs_grpo': 2e-4,
    'entropy_bonus': 2e-4,
}
_LONG = {'train.steps': STEPS, 'eval.every': 100}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    variant = arguments.parse(
        argument, defaults={'variant': 'main'}, choices={'variant': ('main', 'rates')}
    )['variant']
    main = variant == 'main'
    arms = [
        _arm(name, rate, main=main)
        for name in ARMS
        for rate in ((CHOSEN[name],) if main else RATES)
    ]
    return Sweep(
        name='horizon' if main else 'horizon_rates',
        title=f'5x5 mazes, {STEPS} steps',
        arms=tuple(arms),
        baseline=arms[0].name,
        seeds=(71, 72, 73, 74, 75) if main else (70,),
        measures={**MEASURES, **DIVERSITY},
        split='test' if main else 'validation',
        curves='validation',
    )


def _arm(name: str, rate: float, *, main: bool) -> Arm:
    """Makes an arm at a rate; its name includes the rate unless ``main``."""
    label, settings = ARMS[name]
    overrides = {
        'advantage.name': name,
        **settings,
        **_LONG,
        'optimizer.learning_rate': rate,
    }
    if main:
        return Arm(name, label, 'configs/maze_tiny.py', overrides)
    overrides['eval.final_split'] = ''
    name, label = f'{name}_{rate:g}', f'{label}, rate {rate:g}'
    return Arm(name, label, 'configs/maze_tiny.py', overrides)
