"""Sweeps: runs several arms with several seeds, and compares them."""

from passk_jax.sweeps.declarations import (
    DIVERSITY,
    MEASURES,
    TRAININGS,
    Arm,
    Stage,
    Sweep,
    category_measures,
    estimator_arms,
)
