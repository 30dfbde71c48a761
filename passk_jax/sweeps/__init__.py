"""Sweeps: several runs side by side, and the tables and the figure made of them."""

from passk_jax.sweeps.declarations import DIVERSITY, MEASURES, Arm, Stage, Sweep
