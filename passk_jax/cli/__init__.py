"""The frame around every command: flags, exit statuses, and whose an error is."""

from passk_jax.cli.command import EXIT_ERROR as EXIT_ERROR
from passk_jax.cli.command import WORKDIR as WORKDIR
from passk_jax.cli.command import run as run
