"""The estimator of a run: the one that its configuration names, scaled as it says."""

import dataclasses
from typing import Any

import jax

from passk_jax import sharding
from passk_jax.advantages import make, tabulation
from passk_jax.advantages.declarations import AdvantageFn
from passk_jax.config import AdvantageConfig
from passk_jax.errors import prefixed


def configured_estimator(
    advantage: AdvantageConfig, *, num_rollouts: int
) -> AdvantageFn:
    """Makes the estimator of a section ``advantage``; only a scale uses a device.

    Args:
        advantage: the section, whose parameters are checked.
        num_rollouts: N.

    Raises:
        ValueError: an unknown estimator, a parameter that it does not accept, or a
            weight that cannot be matched.
    """
    estimator = unscaled_estimator(advantage, num_rollouts=num_rollouts)
    if not advantage.match_weight_at:
        return estimator
    # Every process computes it alone, whatever mesh it shares.
    mesh = sharding.one_device_mesh(jax.local_devices()[0])
    with jax.set_mesh(mesh), prefixed('advantage.match_weight_at'):
        scale = tabulation.matching_scale(
            advantage.name,
            num_rollouts=num_rollouts,
            p=advantage.match_weight_at,
            **_own_parameters(advantage),
        )
    return dataclasses.replace(estimator, scale=scale)


def unscaled_estimator(advantage: AdvantageConfig, *, num_rollouts: int) -> AdvantageFn:
    """The estimator of a section ``advantage`` without its scale; uses no device.

    Raises:
        ValueError: an unknown estimator, or a parameter that it does not accept.
    """
    return make.estimator_of_config(
        advantage.name, _all_parameters(advantage), num_rollouts=num_rollouts
    )


def check_signal(advantage: AdvantageConfig, *, num_rollouts: int) -> None:
    """Checks that the advantages are not always 0 and can be scaled; uses a device.

    Raises:
        ValueError: no response could ever get another advantage, or
            ``advantage.match_weight_at`` cannot be matched.
    """
    parameters = _own_parameters(advantage)
    tabulation.check_signal(advantage.name, num_rollouts=num_rollouts, **parameters)
    configured_estimator(advantage, num_rollouts=num_rollouts)


def _own_parameters(advantage: AdvantageConfig) -> dict[str, Any]:
    """The parameters that the estimator reads."""
    return make.own_parameters(advantage.name, _all_parameters(advantage))


def _all_parameters(advantage: AdvantageConfig) -> dict[str, Any]:
    """Every parameter in the section, whichever estimator reads it."""
    return {'k': advantage.k, **advantage.parameters}
