"""Advantage estimation: curves, estimators, and the table of their names."""

from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.declarations import (
    INPUTS,
    AdvantageFn,
    Estimator,
    Inputs,
    Parameter,
)
from passk_jax.advantages.history import Memory, remember
from passk_jax.advantages.make import (
    all_parameters,
    estimator_of_config,
    estimator_parameters,
    estimator_row,
    make_estimator,
    select_parameters,
)
from passk_jax.advantages.table import ESTIMATORS
from passk_jax.advantages.tabulation import (
    effective_weight,
    implied_objective,
    matching_scale,
    tabulated_curve,
)
