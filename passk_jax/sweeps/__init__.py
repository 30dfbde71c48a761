"""Sweeps: runs several arms with several seeds, and compares them."""

from passk_jax.sweeps.declarations import (
    DIVERSITY,
    MEASURES,
    TRAININGS,
    Arm,
    Stage,
    Sweep,
    estimator_arms,
)
