"""The frame around every command: its flags, its errors and its exit status."""

from passk_jax.cli.command import EXIT_ERROR as EXIT_ERROR
from passk_jax.cli.command import run as run
