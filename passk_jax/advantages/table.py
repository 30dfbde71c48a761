"""The table of estimators: :data:`ESTIMATORS`.

To add one, write a function in ``estimators.py``, or in a module of curves, and a row
here that declares its inputs and parameters. Config, checks, tables and report follow
from the row. A new kind of memory also needs a start in ``AdvantageFn.begin_memory``
and an update in ``history.py``.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from passk_jax.advantages import (
    baselines,
    curves,
    estimators,
    history,
    objective_curves,
    set_level,
)
from passk_jax.advantages.declarations import Estimator, Objective, Parameter


def _from_curve(
    curve: Callable[..., curves.Curve], *parameters: Parameter, **declared: Any
) -> Estimator:
    compute = functools.partial(estimators.along_curve, curve=curve)
    compute.__doc__ = curve.__doc__
    return Estimator(compute, ('correct',), parameters, **declared)


# The paper gives the k of its maze runs by numbers of groups alone: full sampling makes
# as many of 128 rollouts as bootstrap sampling draws of 32, which is 32.
_K = Parameter(
    'k',
    4,
    "size of a group; 4 by the paper's numbers of groups "
    '(sec:passk_w_bootstrap_sampling), and of 4, 8 and 16 its most efficient '
    '(sec:robustness)',
    low=1,
    high='N',
    required=True,
)
_SCATTER = (
    'Groups are drawn at random, so the advantages of a step scatter around these '
    'means.'
)
_POOLED = (
    'Sigma is that of all responses of a step; here, all shares of right responses are '
    'equally frequent.'
)


def _pass_at(k: int, p: np.ndarray) -> np.ndarray:
    return 1 - (1 - p) ** k


_OF_P = Objective(lambda p, N: p)
_PASS_AT_K = Objective(lambda p, N, *, k: _pass_at(k, p))
_ARCSIN = Objective(lambda p, N: 2 * np.arcsin(np.sqrt(p)), at_infinity=True)
_ARCSIN_OF_K = Objective(
    lambda p, N, *, k: 2 / k * np.arcsin(np.sqrt(_pass_at(k, p))), at_infinity=True
)

# Names that users may try -> what to choose instead.
OTHER_NAMES = {
    'grpo': 'GRPO is pass_at_1',
    'dapo': 'the estimator of DAPO, as of GRPO, is pass_at_1',
    'ppo': 'all have the clipped loss of PPO, and none has a critic; GRPO is pass_at_1',
    'reinforce': 'with the mean of the other responses as its baseline it is rloo',
    'reinforce++': 'it is reinforce_plus_plus',
    'drgrpo': 'it is dr_grpo',
    'grpo_passk': 'a multiple of it is leave_one_out_max',
    'maxpo': 'its curve is canonical_k',
}

ESTIMATORS: dict[str, Estimator] = {
    'pass_at_1': Estimator(estimators.pass_at_1, ('rewards',), objective=_ARCSIN),
    'full_sampling': Estimator(
        estimators.full_sampling,
        ('correct',),
        (_K,),
        _SCATTER,
        exchangeable=False,
        follows_verdicts=False,
    ),
    'bootstrap_sampling': Estimator(
        estimators.bootstrap_sampling,
        ('correct', 'key'),
        (
            _K,
            Parameter(
                'num_groups',
                0,
                'groups drawn for each problem; 0: as many as rollouts, as in the '
                "paper's runs (sec:passk_w_bootstrap_sampling)",
                low=0,
                # Their mean is then the analytical advantage to about a percent.
                high=100_000,
            ),
            Parameter(
                'aggregation',
                'sum',
                "sum over a response's groups, as printed "
                '(eq:bootstrap_sampling_group_to_response), or their mean',
                choices=('sum', 'mean'),
            ),
        ),
        _SCATTER,
        exchangeable=False,
        follows_verdicts=False,
    ),
    'pass_at_k': _from_curve(curves.pass_at_k, _K, objective=_ARCSIN_OF_K),
    'pass_at_k_real': Estimator(
        estimators.pass_at_k_real, ('rewards',), (_K,), objective=_ARCSIN_OF_K
    ),
    'without_easy': _from_curve(
        curves.without_easy,
        _K,
        Parameter(
            'easy_threshold',
            0.6,
            'largest accuracy that is trained on; not in the paper, which calls '
            'problems above 60 % "relatively easy" (sec:difference_pass1_passk)',
            low=0,
            high=1,
        ),
    ),
    'piecewise': _from_curve(
        curves.piecewise,
        _K,
        Parameter(
            'switch_threshold',
            0.5,
            'largest accuracy at which Pass@1 is used; not in the paper',
            low=0,
            high=1,
        ),
    ),
    'exceeding': _from_curve(curves.exceeding, _K),
    'combination': _from_curve(curves.combination, _K),
    'adaptive': Estimator(
        estimators.adaptive,
        ('correct', 'mean_entropy'),
        (
            _K,
            Parameter(
                'high_entropy_fraction',
                0.5,
                'share of problems called high-exploration: the top half by entropy '
                '(sec:adaptive_training)',
                low=0,
                high=1,
            ),
        ),
        'Problems of high entropy follow the curve of pass_at_1, the others that of '
        'pass_at_k. The figure shows the mean of both.',
    ),
    'rloo': Estimator(baselines.rloo, ('rewards',), objective=_OF_P),
    'dr_grpo': Estimator(
        baselines.dr_grpo,
        ('rewards',),
        objective=Objective(lambda p, N: (N - 1) / N * p),
    ),
    'opo': Estimator(baselines.opo, ('rewards', 'lengths')),
    'reinforce_plus_plus': Estimator(
        baselines.reinforce_plus_plus,
        ('rewards',),
        note=_POOLED,
        pools_problems=True,
        centered=False,
    ),
    'reinforce_plus_plus_baseline': Estimator(
        baselines.reinforce_plus_plus_baseline,
        ('rewards',),
        note=_POOLED,
        pools_problems=True,
    ),
    'canonical_k': _from_curve(
        objective_curves.canonical_k,
        _K,
        fits=objective_curves.check_canonical,
        objective=_PASS_AT_K,
    ),
    'mixture': _from_curve(
        objective_curves.mixture,
        Parameter(
            'pass_weights',
            (0.5, 0.5),
            'weights of pass@1, pass@2, ... in the objective, fewer than N',
        ),
        fits=objective_curves.check_mixture,
        objective=Objective(
            lambda p, N, *, pass_weights: sum(
                weight * _pass_at(k, p) for k, weight in enumerate(pass_weights, 1)
            )
        ),
    ),
    'set_level': Estimator(
        set_level.set_level,
        ('rewards', 'answers'),
        (
            _K,
            Parameter(
                'set_value',
                'mean_distinct',
                'value of k responses: the highest reward, or the mean reward times '
                'the share of distinct answers',
                choices=('max', 'mean_distinct'),
            ),
        ),
        fits=set_level.check_set_level,
    ),
    # Without a baseline, wrong responses beside a right one are encouraged too.
    'pkpo': _from_curve(
        objective_curves.pkpo,
        _K,
        centered=False,
        follows_verdicts=False,
        objective=_PASS_AT_K,
    ),
    'pkpo_loo': _from_curve(
        objective_curves.pkpo_loo, _K, centered=False, objective=_PASS_AT_K
    ),
    'leave_one_out_max': _from_curve(
        objective_curves.leave_one_out_max,
        note='It never discourages a wrong response.',
        centered=False,
        objective=Objective(lambda p, N: _pass_at(N, p) / N),
    ),
    'maxrl': _from_curve(
        objective_curves.maxrl,
        objective=Objective(
            lambda p, N: sum(_pass_at(j, p) / j for j in range(1, N)),
        ),
    ),
    'maclaurin': _from_curve(
        objective_curves.maclaurin,
        Parameter(
            'order',
            4,
            'terms of the series of log p; 4 only because that is the default k',
            low=1,
            high='N',
        ),
        centered=False,
        objective=Objective(
            lambda p, N, *, order: sum(_pass_at(j, p) / j for j in range(1, order + 1))
        ),
    ),
    'rs_grpo': _from_curve(
        objective_curves.rs_grpo,
        Parameter(
            'beta',
            2.0,
            'risk seeking; the code of RS-GRPO recommends 2',
            above=0,
        ),
        objective=Objective(
            lambda p, N, *, beta: np.log1p(np.expm1(beta) * p) / beta, at_infinity=True
        ),
    ),
    'f_grpo': _from_curve(
        objective_curves.f_grpo,
        Parameter(
            'gamma',
            0.5,
            'strength of the focal weight; 0: GRPO; 0.5 follows 2 sqrt(p) as N grows',
            low=0,
        ),
        objective=Objective(
            lambda p, N, *, gamma: (
                special.beta(0.5, gamma + 0.5) * special.betainc(0.5, gamma + 0.5, p)
            ),
            at_infinity=True,
        ),
    ),
    'nsr': _from_curve(objective_curves.nsr, centered=False, objective=_OF_P),
    'w_reinforce': _from_curve(
        objective_curves.w_reinforce,
        Parameter(
            'weight',
            0.1,
            'advantage of a right response; 0.1 in arXiv:2506.01347',
            low=0,
        ),
        centered=False,
        objective=Objective(lambda p, N, *, weight: (1 + weight) * p),
    ),
    'unlikeliness': Estimator(
        estimators.unlikeliness,
        ('correct', 'lengths', 'log_probs'),
        (
            Parameter(
                'rank_penalty',
                0.25,
                'share of its reward that the likeliest response loses; 0: GRPO; 0.25 '
                'in the script of arXiv:2506.02355',
                low=0,
                high=1,
            ),
        ),
        'Where all responses are right, they get advantages if some are likelier.',
    ),
    'differential_smoothing': Estimator(
        estimators.differential_smoothing,
        ('correct', 'lengths', 'log_probs'),
        (
            Parameter(
                'smoothing_correct',
                0.05,
                'advantage that right responses gain per nat of their mean token; 0.05 '
                "in MaxRL's code",
                low=0,
            ),
            Parameter(
                'smoothing_wrong',
                0.05,
                'advantage that wrong responses lose per nat; 0.05 in the same code',
                low=0,
            ),
        ),
        centered=False,
    ),
    'curverl': Estimator(
        history.curverl,
        ('correct', 'history'),
        (
            Parameter(
                'window',
                10,
                "steps whose pass rates weigh a problem; 10 in CurveRL's script",
                low=1,
                high=10_000,
            ),
        ),
        'In a run it changes with the pass rates of earlier steps. Here all pass rates '
        'are equally frequent, which gives the curve of maxrl over N.',
    ),
}
