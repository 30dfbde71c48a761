"""Advantage estimation: curves, estimators, and the table of their names."""

from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.declarations import INPUTS, Estimator, Parameter
from passk_jax.advantages.estimators import ESTIMATORS
from passk_jax.advantages.make import (
    AdvantageFn,
    all_parameters,
    estimator_of_config,
    estimator_parameters,
    make_estimator,
)
from passk_jax.advantages.tabulation import tabulated_curve

__all__ = [
    'ESTIMATORS',
    'INPUTS',
    'AdvantageFn',
    'Estimator',
    'Parameter',
    'all_parameters',
    'estimator_of_config',
    'estimator_parameters',
    'make_estimator',
    'sum_abs_advantage',
    'tabulated_curve',
]
