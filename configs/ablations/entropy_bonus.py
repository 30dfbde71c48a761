"""Entropy regularisation: Pass@1 Training with a bonus for entropy in the loss.

Paper: section ``sec:noise_entropy``, with coefficients .001, .003 and .005.

    python -m passk_jax.train \\
        --config=configs/ablations/entropy_bonus.py:coef=0.003,size=tiny

Expected: .005 may make the policy collapse. Smaller coefficients do not, but stay below
Pass@k Training, further so with more steps.
"""

from ml_collections import ConfigDict

from configs.ablations import sizes


def get_config(argument: str = '') -> ConfigDict:
    """Returns the configuration."""
    config, values = sizes.start('entropy_bonus', argument, defaults={'coef': 0.001})
    config.advantage.name = 'pass_at_1'
    config.loss.entropy_coef = values['coef']
    return config
