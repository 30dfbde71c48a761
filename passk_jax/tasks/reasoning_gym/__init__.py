"""Allowed sets of reasoning-gym, a package of problem generators."""
