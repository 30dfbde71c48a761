"""The frame around every command: its flags, its errors and its exit status."""

from passk_jax.cli.command import EXIT_ERROR, run
