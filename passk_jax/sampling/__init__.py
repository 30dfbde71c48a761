"""Sampling: addressed keys, the distribution of a token, and the decode loop."""

from passk_jax.sampling.keys import Purpose as Purpose
from passk_jax.sampling.keys import RunKeys as RunKeys
from passk_jax.sampling.keys import problem_keys as problem_keys
from passk_jax.sampling.keys import step_key as step_key
from passk_jax.sampling.sampler import sample as sample
from passk_jax.sampling.scheduled.hand_over import Ended as Ended
