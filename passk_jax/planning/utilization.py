"""Computes how much of its chips a step of a run uses (MFU), without a device.

The model FLOPs of a step are what its mathematics needs at the lengths of the drawn
responses: one forward pass over all prompts and responses, which decoding makes token
by token, and the passes of the train step over its batch. Recomputation, padding,
evaluations and diagnostics do not count, as in the useful FLOPs of a plan. The model
FLOPs utilization (MFU) is the rate of model FLOPs divided by the chips' peak. A plan
has an upper bound of it for each program.
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
    """Makes ``rates(draws, seconds)``, a function of a step's draws and its duration.

    It returns ``tokens_per_second_per_chip`` and, for a chip whose peak is known,
    ``mfu``, a share of the peak. Two devices of a TPU7x are one chip; a device of
    another kind counts as one. ``mesh`` has all devices of the run.
    """
    chip, num_devices = chip_of(mesh.devices.flat[0].device_kind), mesh.size
    passes = train_passes(
        train.num_prompts,
        num_updates=train.num_prompts // train.mini_batch_prompts,
        epochs=train.epochs,
        reference=bool(loss.kl_coef),
        adapters=arch.lora is not None,
    )

    def rates(draws: Draws, seconds: float) -> dict[str, float]:
        num_chips = num_devices / (chip.devices if chip else 1)
        figures = {'tokens_per_second_per_chip': draws.num_tokens / seconds / num_chips}
        if chip:
            *decoded, trained = (
                forward_flops(arch, x.prompt_lengths, x.lengths)
                for x in (*draws.drawn, draws.trained.responses)
            )
            flops = float(np.sum(decoded) + (passes * trained).sum())
            figures['mfu'] = flops / (seconds * num_devices * chip.flops)
        return figures

    return rates
