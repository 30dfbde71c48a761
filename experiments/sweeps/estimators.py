"""Every estimator on mazes that the first policy rarely solves, paired over seeds.

    python -m passk_jax.sweep --config=experiments/sweeps/estimators.py

The mazes of configs/maze_tiny.py whose shortest path has at least five moves: the first
policy's Pass@1 is .065 and its Pass@32 .608, means of five seeds on the test split. All
arms have one learning rate, and AdamW hardly sees the scale of an advantage, so they
differ in the shape of their curve and in its noise. A seed decides the warm start, the
batches and the draws of every arm.

Its variants, ``estimators.py:variant=...``:

* ``easy``: paths of 1 to 4 moves, which the first policy often solves.
* ``matched``: plain SGD, which sees the scale; each estimator that is a curve is
  scaled to the weight of ``pass_at_1`` at p = .1, so that all begin with steps of about
  one size. The rate is that at which ``pass_at_1`` gained most on the validation split
  with seed 10: .01; .03, .1 and .2 lost Pass@32 within 100 steps. Gradients of this
  size are not clipped, for clipping would hide the scale.
* ``medium``: paths of 3 to 10 moves and seeds that no other sweep has, to test what the
  hard and the easy mazes suggest (11 to 14 below).
* ``baselines`` and ``baselines_easy``: on the hard and on the easy mazes, estimators
  that differ in what they subtract and divide by (15 and 16).
* ``matched_means``: as ``matched``, of estimators that are no curve, by the weight of
  their mean over places, draws and lengths (17 to 19). Left out are ``curverl`` and
  ``set_level``, whose weights depend on earlier steps and on the answers given, and
  ``annealed_k``, which has several.

Expected, written before the first run and judged in experiments/pages/:

1. The steeper the weight, omega(.01) / omega(.3), the higher are Pass@32 and the
   entropy at the end (rank correlation over the arms).
2. ``rloo`` and ``nsr`` have equal expectations. They end alike in Pass@1; ``nsr`` keeps
   more entropy (arXiv 2506.01347).
3. ``canonical_k`` (unbiased) ends higher than ``pass_at_k`` (normalised) in Pass@4.
4. Sampling groups costs: ``full_sampling`` ends below ``bootstrap_sampling``, and that
   below ``pass_at_k``, in Pass@4.
5. ``maxrl`` ends above ``pass_at_1`` in Pass@32 without losing Pass@1.
6. ``easy``: no estimator differs from ``pass_at_1`` by more than .02 in Pass@1, NSR,
   W-REINFORCE and the maximum aside, which hardly reward what is often right.
7. ``matched``: the order in Pass@32 is that of AdamW (rank correlation above .5).

Six arms came later, with these expectations before their first run:

8. ``dr_grpo`` is ``rloo`` times 15/16: they end alike. So do ``curverl`` and ``maxrl``.
9. ``annealed_k`` (k = 8, 4, 2, 1) ends with the Pass@1 of ``pass_at_1``, and with a
   higher Pass@32.
10. ``set_level`` and ``differential_smoothing`` end with more different wrong answers
    than ``pass_at_1``, and ``set_level`` with a lower Pass@1.

``medium`` came next, when the others had been seen, with these expectations:

11. ``maxrl`` ends above ``pass_at_k`` in Pass@1, and less than .02 below it in Pass@32.
12. ``rs_grpo`` and ``f_grpo`` end above ``pass_at_1`` in Pass@32, and within .02 of it
    in Pass@1.
13. ``curverl`` ends within .02 of ``maxrl`` in Pass@1 and in Pass@32.
14. ``canonical_k`` ends below ``pass_at_k`` in Pass@1.

The last three variants have seeds of their own, so that all arms of a seed begin with
one policy: another machine makes another of the same seed. Expected, before their first
runs, in ``baselines`` and ``baselines_easy``:

15. ``opo``, whose responses here differ little in length, ends like ``dr_grpo``, and so
    does ``reinforce_plus_plus_baseline``, which differs from it by a scale of each
    step: within .02 in Pass@1.
16. ``reinforce_plus_plus``, whose baseline is not the problem's own, ends below
    ``reinforce_plus_plus_baseline`` in Pass@1 and in Pass@4.

And in ``matched_means``:

17. Chance costs there too: ``full_sampling`` ends below ``bootstrap_sampling``, and
    that below ``pass_at_k``, in Pass@4.
18. ``opo`` and ``reinforce_plus_plus_baseline`` end within .02 of ``rloo`` in Pass@1,
    ``unlikeliness`` and ``differential_smoothing`` within .02 of ``pass_at_1``.
19. ``reinforce_plus_plus`` ends below ``pass_at_1`` in Pass@1.
"""

from collections.abc import Mapping
from typing import Any

from configs import arguments
from passk_jax.sweeps import DIVERSITY, MEASURES, Arm, Sweep

_GROUPED = (
    ('pass_at_k', 'Pass@4 Training'),
    ('full_sampling', 'full sampling, k = 4'),
    ('bootstrap_sampling', 'bootstrap sampling, k = 4'),
    ('canonical_k', 'canonical, k = 4'),
    ('pkpo', 'PKPO, k = 4'),
    ('pkpo_loo', 'PKPO loo-1, k = 4'),
)
_UNGROUPED = (
    ('rloo', 'RLOO'),
    ('dr_grpo', 'Dr. GRPO'),
    ('mixture', 'half pass@1, half pass@2'),
    ('leave_one_out_max', 'maximum, leave one out'),
    ('maxrl', 'MaxRL'),
    ('maclaurin', 'Maclaurin, order 4'),
    ('rs_grpo', 'RS-GRPO, beta = 2'),
    ('f_grpo', 'F-GRPO, gamma = .5'),
    ('nsr', 'NSR'),
    ('w_reinforce', 'W-REINFORCE, .1'),
    ('unlikeliness', 'unlikeliness'),
    ('differential_smoothing', 'differential smoothing'),
    ('curverl', 'CurveRL'),
    ('set_level', 'mean x distinct of 4'),
)
_POOLED = (
    ('opo', 'OPO'),
    ('reinforce_plus_plus', 'REINFORCE++'),
    ('reinforce_plus_plus_baseline', 'REINFORCE++, baseline'),
)
_ANNEALED = ('annealed_k', 'k = 8, 4, 2, 1')

# The pairs that expectations 2 to 4, 8, 9, 11 and 15 to 18 compare.
_CONTRASTS = (
    ('nsr', 'rloo'),
    ('canonical_k', 'pass_at_k'),
    ('bootstrap_sampling', 'pass_at_k'),
    ('full_sampling', 'bootstrap_sampling'),
    ('dr_grpo', 'rloo'),
    ('curverl', 'maxrl'),
    ('annealed_k', 'pass_at_k'),
    ('maxrl', 'pass_at_k'),
    ('opo', 'dr_grpo'),
    ('reinforce_plus_plus_baseline', 'dr_grpo'),
    ('reinforce_plus_plus', 'reinforce_plus_plus_baseline'),
    ('opo', 'rloo'),
    ('reinforce_plus_plus_baseline', 'rloo'),
)
# Their advantages depend on more than the number of right responses.
_NO_CURVES = (
    *('full_sampling', 'bootstrap_sampling', 'unlikeliness'),
    *('differential_smoothing', 'curverl', 'set_level', 'annealed_k'),
)
_EVERY = (('pass_at_1', 'Pass@1 Training'), *_GROUPED, *_UNGROUPED, _ANNEALED)
_POOLED_NAMES = tuple(name for name, _ in _POOLED)
# Variant -> the names of its arms; the others have all of _EVERY.
_CHOSEN = {
    'matched': tuple(name for name, _ in _EVERY if name not in _NO_CURVES),
    'medium': (
        *('pass_at_1', 'pass_at_k', 'canonical_k'),
        *('maxrl', 'rs_grpo', 'f_grpo', 'curverl'),
    ),
    'baselines': ('pass_at_1', 'rloo', 'dr_grpo', *_POOLED_NAMES),
    'baselines_easy': ('pass_at_1', 'rloo', 'dr_grpo', *_POOLED_NAMES),
    'matched_means': (
        *('pass_at_1', 'pass_at_k', 'full_sampling', 'bootstrap_sampling', 'rloo'),
        *('unlikeliness', 'differential_smoothing', *_POOLED_NAMES),
    ),
}
_SEEDS = {
    'medium': range(11, 19),
    'baselines': range(20, 25),
    'baselines_easy': range(20, 25),
    'matched_means': range(20, 25),
}
_HARD = {'task.params.min_path': 5}
_MATCHED = _HARD | {
    'advantage.match_weight_at': 0.1,
    'optimizer.name': 'sgd',
    'optimizer.learning_rate': 0.01,
    'optimizer.max_grad_norm': 10.0,
}
_EASY = {'task.params.min_path': 1, 'task.params.max_path': 4}
# Variant -> settings, and what the title says of them.
_SETTINGS = {
    'hard': (_HARD, 'paths of 5 to 10 moves'),
    'easy': (_EASY, 'paths of 1 to 4 moves'),
    'medium': ({}, 'paths of 3 to 10 moves'),
    'matched': (_MATCHED, 'paths of 5 to 10 moves, SGD at equal weight'),
    'baselines': (_HARD, 'paths of 5 to 10 moves'),
    'baselines_easy': (_EASY, 'paths of 1 to 4 moves'),
    'matched_means': (_MATCHED, 'paths of 5 to 10 moves, SGD at equal weight'),
}


def get_sweep(argument: str = '') -> Sweep:
    """Returns the sweep."""
    variants = {'variant': tuple(_SETTINGS)}
    values = arguments.parse(argument, defaults={'variant': 'hard'}, choices=variants)
    variant = values['variant']
    settings, description = _SETTINGS[variant]
    chosen = _CHOSEN.get(variant, tuple(name for name, _ in _EVERY))
    names = [pair for pair in (*_EVERY, *_POOLED) if pair[0] in chosen]
    return Sweep(
        name='estimators' if variant == 'hard' else f'estimators_{variant}',
        title=f'5x5 mazes, {description}',
        arms=tuple(_arm(name, label, settings) for name, label in names),
        baseline='pass_at_1',
        seeds=tuple(_SEEDS.get(variant, range(5))),
        measures={**MEASURES, **DIVERSITY},
        split='test',
        curves='validation',
        contrasts=tuple(pair for pair in _CONTRASTS if {*pair} <= {*chosen}),
    )


def _arm(estimator: str, label: str, settings: Mapping[str, Any]) -> Arm:
    """Makes the arm of an estimator, with the estimator's name."""
    if estimator == 'annealed_k':
        return Arm(estimator, label, 'configs/annealed_k.py:first=8', settings)
    overrides = {'advantage.name': estimator, 'advantage.k': 4}
    return Arm(estimator, label, 'configs/maze_tiny.py', {**overrides, **settings})
