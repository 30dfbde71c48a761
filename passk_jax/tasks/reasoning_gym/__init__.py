"""Sets of reasoning-gym, a package of problem generators, behind an allow-list."""
