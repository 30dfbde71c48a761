"""The estimator of a run, with the scale that its config asks for."""

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
    """Makes the estimator of a section; only a scale uses a device.

    Raises:
        ValueError: the estimator is unknown, a parameter is bad, or the weight cannot
            be matched.
    """
    estimator = unscaled_estimator(advantage, num_rollouts=num_rollouts)
    if not advantage.match_weight_at:
        return estimator
    # Each process computes the scale on its own device.
    mesh = sharding.one_device_mesh(jax.local_devices()[0])
    with jax.set_mesh(mesh), prefixed('advantage.match_weight_at'):
        scale = tabulation.matching_scale(
            advantage.name,
            num_rollouts=num_rollouts,
            p=advantage.match_weight_at,
            **make.select_parameters(advantage.name, _parameters(advantage)),
        )
    return dataclasses.replace(estimator, scale=scale)


def unscaled_estimator(advantage: AdvantageConfig, *, num_rollouts: int) -> AdvantageFn:
    """Makes the estimator without its scale, and without a device.

    Raises:
        ValueError: the estimator is unknown, or a parameter is bad.
    """
    return make.estimator_of_config(
        advantage.name, _parameters(advantage), num_rollouts=num_rollouts
    )


def check_signal(advantage: AdvantageConfig, *, num_rollouts: int) -> None:
    """Checks that advantages are finite, not all 0, and can be scaled; uses a device.

    Raises:
        ValueError: every advantage would be 0, or one not finite, or
            ``advantage.match_weight_at`` cannot be matched.
    """
    parameters = make.select_parameters(advantage.name, _parameters(advantage))
    tabulation.check_signal(advantage.name, num_rollouts=num_rollouts, **parameters)
    configured_estimator(advantage, num_rollouts=num_rollouts)


def _parameters(advantage: AdvantageConfig) -> dict[str, Any]:
    """Returns the parameters of all estimators."""
    return {'k': advantage.k, **advantage.parameters}
