"""How much of its chips a step of a run uses, from figures that the host has.

The model FLOPs of a step are what its mathematics needs at the lengths that were drawn:
one forward pass over all prompts and responses, which decoding makes token by token,
and the passes of the train step over the batch that it gets. Recomputation, padding,
evaluations and diagnostics do not count, as in the useful FLOPs of a plan. Their rate
over the peak of the chips is the model FLOPs utilization (MFU), for which a plan has an
upper bound, program by program.
"""

from collections.abc import Callable

import numpy as np
from jax.sharding import Mesh

from passk_jax.config import LossConfig, TrainConfig
from passk_jax.models.arch import Arch
from passk_jax.planning.chips import chip_of
from passk_jax.planning.flops import forward_flops, train_passes
from passk_jax.rollouts.dynamic_sampling import Draws

Rates = Callable[[Draws, float], dict[str, float]]


def make_rates(arch: Arch, mesh: Mesh, train: TrainConfig, loss: LossConfig) -> Rates:
    """Makes ``rates(draws, seconds)``, which asks no device.

    Args:
        arch: the architecture.
        mesh: all devices of the run.
        train: the train step.
        loss: its loss, which may compare with a reference policy.

    Returns:
        A function of what a step drew and the seconds that it took. It returns
        ``tokens_per_second_per_chip`` and, for a chip whose peak is known, ``mfu``, a
        share of it. Two devices of a TPU7x are one chip; of an unknown chip each device
        counts as one.
    """
    chip, num_devices = chip_of(mesh.devices.flat[0].device_kind), mesh.size
    passes = train_passes(
        train.num_prompts,
        num_updates=train.num_prompts // train.mini_batch_prompts,
        epochs=train.epochs,
        reference=bool(loss.kl_coef),
    )

    def rates(draws: Draws, seconds: float) -> dict[str, float]:
        num_chips = num_devices / (chip.devices if chip else 1)
        figures = {'tokens_per_second_per_chip': draws.num_tokens / seconds / num_chips}
        if chip:
            peak = num_devices * chip.flops
            figures['mfu'] = step_flops(arch, draws, passes) / (seconds * peak)
        return figures

    return rates


def step_flops(arch: Arch, draws: Draws, passes: np.ndarray) -> float:
    """Model FLOPs of a step, over all devices.

    Args:
        arch: the architecture.
        draws: what the step drew and trained on.
        passes: ``[P]``, from :func:`train_passes`.
    """
    decoded, trained = (
        [forward_flops(arch, x.prompt_lengths, x.lengths) for x in responses]
        for responses in (draws.drawn, (draws.trained.responses,))
    )
    return float(np.sum(decoded) + (passes * trained[0]).sum())
