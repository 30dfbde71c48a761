"""What every command shares: flags, error messages and exit statuses."""

from passk_jax.cli.command import EXIT_ERROR, run
