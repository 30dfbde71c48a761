"""Pass@1 Training: GRPO with DAPO's clip-higher and token-level loss.

Paper: the baseline of every figure; ``tab:maze_results`` ("+ P@1 T.": 13.9 / 14.4 on
average over the sizes, where "P@k T. w/ AD" has 47.7 / 65.0).

    python -m passk_jax.train --config=configs/ablations/pass_at_1.py:size=tiny

Expected: Pass@1 rises, and Pass@k hardly more: the policy stops exploring.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, _ = sizes.start('pass_at_1', argument)
    config.advantage.name = 'pass_at_1'
    return config
