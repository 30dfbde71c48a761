"""Sweeps: several runs side by side, and the tables and the figure made of them."""

from passk_jax.sweeps.declarations import Arm, Stage, Sweep
