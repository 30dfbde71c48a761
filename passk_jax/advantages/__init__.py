"""Advantage estimation: curves, estimators, and the table of their names."""

from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.estimators import (
    ESTIMATORS,
    estimator_parameters,
    make_estimator,
)

__all__ = [
    'ESTIMATORS',
    'estimator_parameters',
    'make_estimator',
    'sum_abs_advantage',
]
