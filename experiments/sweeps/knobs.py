"""Do estimators differ, or only how far their knobs are turned?

    python -m passk_jax.sweep --config=experiments/sweeps/knobs.py:difficulty=medium

Every estimator here trades Pass@1 for Pass@32, and most have a knob that says how much:
k, beta, gamma, the easy threshold, the weight of an entropy bonus, and for Pass@1
Training the step at which it ends. So each estimator is a front of points, and one is
better than another only if its front lies above at equal Pass@1.
``python -m experiments.knobs`` compares the fronts. Runs are evaluated on the test
split every 50 steps; nothing is chosen by it.

``without_easy`` has k = 1 here: GRPO's own advantages on problems that are right in at
most the threshold's share of responses. The paper's text allows this reading of its
"without easy" and that with the curve of Pass@k Training (configs/ablations).

Expected, written before the first run and judged in experiments/pages/knobs.md; "above"
is in Pass@32 at equal Pass@1, the front of ``pass_at_k`` being that of k = 1, 2, 4, 8:

1. No point of ``rs_grpo``, ``f_grpo`` and ``maxrl`` is more than .01 above the front of
   ``pass_at_k``, and none more than .01 below it.
2. Pass@1 Training, stopped at the step with the Pass@1 of Pass@4 Training, is more than
   .01 below that front.
3. So is the entropy bonus, wherever it reaches the Pass@1 of that front.
4. ``without_easy`` with threshold .6 ends with a lower Pass@1 than Pass@1 Training and
   with a higher Pass@32, and is within .01 of the front.
5. Along each knob Pass@32 rises as Pass@1 falls (k, beta, gamma up, threshold down).
"""

from collections.abc import Mapping
from typing import Any

from configs import arguments
from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

# Difficulty -> settings, and what the title says of them.
_SETTINGS = {
    'medium': ({}, 'paths of 3 to 10 moves'),
    'hard': ({'task.params.min_path': 5}, 'paths of 5 to 10 moves'),
}
# Front -> the field of its knob, and its values from the least to the most gain.
KNOBS: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    'pass_at_k': ('advantage.k', (2, 4, 8)),
    'rs_grpo': ('advantage.beta', (1.0, 2.0, 4.0, 8.0)),
    'f_grpo': ('advantage.gamma', (0.25, 0.5, 1.0, 2.0)),
    'without_easy': ('advantage.easy_threshold', (0.8, 0.6, 0.4)),
    'entropy_bonus': ('loss.entropy_coef', (0.003, 0.01, 0.03)),
}
# The estimator of a front with another name, and the settings that a front fixes.
_ESTIMATOR = {'entropy_bonus': 'pass_at_1'}
_FIXED = {'without_easy': {'advantage.k': 1}}
# All intermediate evaluations are of the test split, so that a run can end early.
_EVALUATION = {'eval.split': 'test', 'eval.final_split': ''}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    difficulty = arguments.parse(
        argument,
        defaults={'difficulty': 'medium'},
        choices={'difficulty': tuple(_SETTINGS)},
    )['difficulty']
    settings, description = _SETTINGS[difficulty]
    settings = {**settings, **_EVALUATION}
    return Sweep(
        name=f'knobs_{difficulty}',
        title=f'5x5 mazes, {description}',
        arms=(
            _arm('pass_at_1', 'Pass@1 Training', settings),
            _arm('maxrl', 'MaxRL', settings),
            *(
                _arm(
                    name_of(front, value),
                    f'{front}, {key.rpartition(".")[2]} = {value:g}',
                    {**settings, **_FIXED.get(front, {}), key: value},
                    estimator=_ESTIMATOR.get(front, front),
                )
                for front, (key, values) in KNOBS.items()
                for value in values
            ),
        ),
        baseline='pass_at_1',
        seeds=tuple(range(60, 68)),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='test',
    )


def name_of(front: str, value: Any) -> str:
    """Names the arm of a front whose knob has this value."""
    return f'{front}_{value:g}'


def _arm(
    name: str, label: str, settings: Mapping[str, Any], estimator: str = ''
) -> Arm:
    """Makes an arm; its estimator is by default its name."""
    overrides = {'advantage.name': estimator or name, **settings}
    return Arm(name, label, 'configs/maze_tiny.py', overrides)
