"""Which learning rate for experiments/sweeps/smollm2.py? Judged on validation alone.

    python -m passk_jax.sweep --config=experiments/sweeps/smollm2_rates.py --jobs=1

Both trainings of that sweep at each of the same rates, with a seed that is used for
nothing else and a fifth of the steps: more would have cost as much as a run of the
sweep. The rule, written before the first run: Pass@1 Training takes the rate with the
highest Pass@1 on the validation split at the end, and Pass@4 Training that with the
highest Pass@4. This prints them as experiments/sweeps/smollm2.py takes them:

    python -m experiments.sweeps.smollm2_rates experiments/results
"""

import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from configs import arguments
from experiments.sweeps.smollm2 import SOURCE
from passk_jax.sweeps import MEASURES, Arm, Sweep
from passk_jax.sweeps.rows import read_rows

RATES = (1e-5, 3e-5)
# Estimator -> what decides between its rates.
_RULE = {'pass_at_1': 'pass_at_1', 'pass_at_k': 'pass_at_4'}
_HORIZON = {
    'train.steps': 20,
    'eval.every': 20,
    'eval.final_split': '',
    'checkpoint.every': 10,
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    source = arguments.parse(argument, defaults={'source': SOURCE})['source']
    return Sweep(
        name='smollm2_rates',
        title='SmolLM2-135M-Instruct, learning rates',
        arms=tuple(
            _arm(estimator, rate, source) for rate in RATES for estimator in _RULE
        ),
        baseline=f'pass_at_1_{RATES[0]:g}',
        seeds=(100,),
        measures=MEASURES,
        split='validation',
        curves='validation',
    )


def _arm(estimator: str, rate: float, source: str) -> Arm:
    return Arm(
        f'{estimator}_{rate:g}',
        f'{estimator}, rate {rate:g}',
        f'configs/smollm2.py:source={source}',
        {
            'advantage.name': estimator,
            'optimizer.learning_rate': rate,
            # As in the committed runs.
            'model.remat': 'none',
            **_HORIZON,
        },
    )


def chosen(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Chooses each estimator's rate by the rule, from the evaluations at the end."""
    last = {row['arm']: row for row in rows if row['step'] == _HORIZON['train.steps']}

    def reached(estimator: str, rate: float) -> float:
        return last[f'{estimator}_{rate:g}'][_RULE[estimator]]

    # If two rates are equally good, this takes the lower one.
    return {
        estimator: max(RATES, key=lambda rate: reached(estimator, rate))
        for estimator in _RULE
    }


if __name__ == '__main__':
    rates = chosen(read_rows(pathlib.Path(sys.argv[1], 'smollm2_rates.jsonl.gz')))
    print(f'rate_1={rates["pass_at_1"]:g},rate_k={rates["pass_at_k"]:g}')
