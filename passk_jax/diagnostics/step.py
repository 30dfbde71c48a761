"""The diagnostics of a step: one program on the devices, one line of a file.

They read the batch that the learner trains on and the policy that sampled it, before
any update, and change nothing. If dynamic sampling selected that batch, they describe
problems with a signal only, and are biased for problems of all kinds.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.advantages import make_estimator
from passk_jax.diagnostics.gradients import (
    Products,
    gradient_products,
    signal_and_noise,
)
from passk_jax.diagnostics.responses import (
    Mass,
    Partings,
    advantage_mass,
    by_difficulty,
    entropy_by_position,
    wrong_partings,
)
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.models.policy import Params
from passk_jax.types import Rollouts


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=('entropies', 'reaching', 'partings', 'mass', 'products'),
    meta_fields=('estimators', 'num_chunks'),
)
@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What the devices compute of a step; :func:`record` makes a line of it.

    Attributes:
        entropies, reaching: ``[T]``, see :func:`entropy_by_position`.
        partings: of wrong responses.
        mass: of the advantages that are trained.
        products: of the gradients under ``estimators``, and of the parts of the first,
            if any; see :func:`by_difficulty`.
        estimators: names of E estimators, the run's own first.
        num_chunks: into how many parts the problems were cut.
    """

    entropies: jax.Array
    reaching: jax.Array
    partings: Partings
    mass: Mass
    products: Products
    estimators: tuple[str, ...]
    num_chunks: int


def compared_estimators(name: str, *, num_rollouts: int, k: int) -> tuple[str, ...]:
    """The estimators whose gradients are compared, the run's own first.

    The others are Pass@1 Training, and the two that follow pass@1 and pass@k exactly.
    If k is N, the last is left out.

    >>> compared_estimators('pass_at_k', num_rollouts=8, k=4)
    ('pass_at_k', 'pass_at_1', 'rloo', 'canonical_k')
    """
    others = ['pass_at_1', 'rloo', *(['canonical_k'] if k < num_rollouts else [])]
    return (name, *(other for other in others if other != name))


def make_diagnose(
    loss: BatchLoss,
    mesh: Mesh,
    *,
    name: str,
    num_rollouts: int,
    k: int,
    num_chunks: int,
    rollout_parts: int = 1,
    difficulty_bins: int = 0,
) -> Callable[[Params, Rollouts, jax.Array, jax.Array], Diagnosis]:
    """Makes the jitted ``diagnose(params, rollouts, advantages, rewarded)``.

    Args:
        loss: what the learner differentiates.
        mesh: of the rollouts.
        name: the estimator of ``advantages``.
        num_rollouts: N.
        k: group size of ``canonical_k``, one of the estimators to compare with.
        num_chunks: how many parts to cut the problems into, at least 2; see
            :func:`gradient_products`.
        rollout_parts: parts of a prompt's rollouts, one for each pass.
        difficulty_bins: into how many bins of difficulty to cut the gradient under
            ``advantages``; 0: not at all.

    Returns:
        A function of the parameters that sampled the rollouts, the rollouts, their
        advantages ``[P, N]``, and which responses these take to be correct ``[P, N]``.
        The other estimators take these as rewards of 0 and 1. What a diagnosis calls
        right and wrong is so too: under Noise Rewards a wrong response that is paid
        counts as right.
    """
    names = compared_estimators(name, num_rollouts=num_rollouts, k=k)
    sizes = num_rollouts, k, num_chunks, rollout_parts, difficulty_bins
    return _program(loss, mesh, names, *sizes)


# As with train steps, equal settings share one program in a process.
@functools.lru_cache(maxsize=16)
def _program(
    loss: BatchLoss,
    mesh: Mesh,
    names: tuple[str, ...],
    num_rollouts: int,
    k: int,
    num_chunks: int,
    rollout_parts: int,
    difficulty_bins: int,
) -> Callable[..., Diagnosis]:
    others = [
        make_estimator(
            name,
            num_rollouts=num_rollouts,
            **({'k': k} if name == 'canonical_k' else {}),
        )
        for name in names[1:]
    ]

    def diagnose(
        params: Params,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        rewarded: Bool[Array, 'P N'],
    ) -> Diagnosis:
        rewards = rewarded.astype(jnp.float32)
        compared = [advantages, *(other(rewards, rewarded) for other in others)]
        if difficulty_bins:
            compared += [*by_difficulty(advantages, rewarded, bins=difficulty_bins)]
        trained = loss.mask(rollouts).any(axis=-1)
        means, reaching = entropy_by_position(rollouts.entropies, rollouts.lengths)
        return Diagnosis(
            entropies=means,
            reaching=reaching,
            partings=wrong_partings(rollouts.tokens, rollouts.lengths, ~rewarded),
            mass=advantage_mass(jnp.where(trained, advantages, 0.0), rewarded),
            products=gradient_products(
                *(loss, params, rollouts, jnp.stack(compared)),
                num_chunks=num_chunks,
                rollout_parts=rollout_parts,
            ),
            estimators=names,
            num_chunks=num_chunks,
        )

    return jax.jit(diagnose, out_shardings=sharding.replicated(mesh))


def record(diagnosis: Diagnosis) -> dict[str, Any]:
    """The line of ``diagnostics.jsonl`` that a diagnosis makes.

    Args:
        diagnosis: with arrays of the host.

    Returns:
        Numbers and lists of numbers by name. Lists ``*_by_position`` end with the
        longest response; entry c of ``*_by_right`` is of problems with c right
        responses, and ``*_by_difficulty`` has the parts of the run's own gradient. NaN
        is undefined: no two wrong responses, or no signal.
    """
    mass, partings, names = diagnosis.mass, diagnosis.partings, diagnosis.estimators
    longest = int(np.count_nonzero(diagnosis.reaching))
    shares = np.asarray(partings.by_position, np.float64)
    position = float(shares @ np.arange(len(shares)))
    values: dict[str, Any] = {
        'entropy_by_position': diagnosis.entropies[:longest],
        'responses_by_position': diagnosis.reaching[:longest],
        'parting_by_position': partings.by_position[:longest],
        'parting_position': position if partings.num_parting else math.nan,
        'identical_wrong_pairs': partings.identical if partings.num_pairs else math.nan,
        'mass_right_by_right': mass.right,
        'mass_wrong_by_right': mass.wrong,
        'problems_by_right': mass.num_problems,
    }
    products = diagnosis.products
    signal = signal_and_noise(
        products.whole, products.chunks, num_chunks=diagnosis.num_chunks
    )
    for e, name in enumerate(names):
        values[f'gradient_signal/{name}'] = signal.products[e, e]
        values[f'gradient_noise/{name}'] = signal.noise[e]
        for f in range(e + 1, len(names)):
            pair = f'{name}/{names[f]}'
            values[f'gradient_product/{pair}'] = signal.products[e, f]
            values[f'gradient_cosine/{pair}'] = signal.cosines[e, f]
    own, parts = signal.products[0, 0], signal.products[0, len(names) :].reshape(2, -1)
    for side, of_side in zip(('right', 'wrong'), parts, strict=True):
        if of_side.size:
            shares = of_side / own if own > 0 else np.full_like(of_side, np.nan)
            values[f'gradient_product_{side}_by_difficulty'] = of_side
            values[f'gradient_share_{side}_by_difficulty'] = shares
    return values
