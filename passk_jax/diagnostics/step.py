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
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.advantages import AdvantageFn, make_estimator
from passk_jax.config import (
    AdvantageConfig,
    LogConfig,
    LossConfig,
    SamplingConfig,
    TrainConfig,
)
from passk_jax.diagnostics.gradients import (
    Products,
    gradient_products,
    signal_and_noise,
)
from passk_jax.diagnostics.responses import (
    Mass,
    Partings,
    advantage_mass,
    entropy_by_position,
    split_by_difficulty,
    wrong_partings,
)
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.models.policy import Params, Policy
from passk_jax.sharding import AnyMesh
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
            if any; see :func:`split_by_difficulty`.
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


DiagnosisProgram = Callable[
    [Params, Rollouts, Float[Array, 'P N'], Bool[Array, 'P N'], Params | None],
    Diagnosis,
]


def compared_estimators(name: str, *, num_rollouts: int, k: int) -> tuple[str, ...]:
    """The estimators whose gradients are compared, the run's own first.

    The others are Pass@1 Training, and the two that follow pass@1 and pass@k exactly.
    If k is N, the last is left out.

    >>> compared_estimators('pass_at_k', num_rollouts=8, k=4)
    ('pass_at_k', 'pass_at_1', 'rloo', 'canonical_k')
    """
    references = ['pass_at_1', 'rloo', *(['canonical_k'] if k < num_rollouts else [])]
    return (name, *(other for other in references if other != name))


@dataclasses.dataclass(frozen=True)
class Diagnose:
    """The verb ``diagnose(params, rollouts, advantages, rewarded, frozen)``.

    Equal ones share one compiled program.

    Attributes:
        loss: what the learner differentiates.
        mesh: of the rollouts.
        name: the estimator of the advantages.
        num_rollouts: N.
        k: group size of ``canonical_k``, one of the estimators to compare with.
        num_chunks: how many parts to cut the problems into, at least 2; see
            :func:`gradient_products`.
        rollout_parts: parts of a prompt's rollouts, one for each pass.
        difficulty_bins: into how many bins of difficulty to cut the gradient under the
            advantages; 0: not at all.
    """

    loss: BatchLoss
    mesh: AnyMesh
    name: str
    num_rollouts: int
    k: int
    num_chunks: int
    rollout_parts: int = 1
    difficulty_bins: int = 0

    @classmethod
    def configured(
        cls,
        policy: Policy,
        mesh: AnyMesh,
        *,
        advantage: AdvantageConfig,
        loss: LossConfig,
        train: TrainConfig,
        sampling: SamplingConfig,
        log: LogConfig,
    ) -> 'Diagnose':
        """Makes the verb from sections of the configuration."""
        return cls(
            loss=BatchLoss(policy, sampling.temperature, loss),
            mesh=mesh,
            name=advantage.name,
            num_rollouts=sampling.num_rollouts,
            k=advantage.k,
            num_chunks=train.num_prompts // train.micro_batch_prompts,
            rollout_parts=train.rollout_parts(sampling.num_rollouts),
            difficulty_bins=log.difficulty_bins,
        )

    @property
    def estimators(self) -> tuple[str, ...]:
        """The estimators whose gradients are compared, the run's own first."""
        sizes = {'num_rollouts': self.num_rollouts, 'k': self.k}
        return compared_estimators(self.name, **sizes)

    @property
    def num_gradients(self) -> int:
        """How many gradients it takes: of estimators, and of parts of one."""
        return len(self.estimators) + 2 * self.difficulty_bins

    def __call__(
        self,
        params: Params,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        rewarded: Bool[Array, 'P N'],
        frozen: Params | None = None,
    ) -> Diagnosis:
        """Diagnoses a batch.

        Args:
            params: what is trained of the policy that sampled the rollouts.
            rollouts: P prompts with N responses each.
            advantages: of the responses.
            rewarded: which responses the advantages take to be correct. The other
                estimators take these as rewards of 0 and 1. What a diagnosis calls
                right and wrong is so too: under Noise Rewards a wrong response that is
                paid counts as right.
            frozen: the policy's other parameters; ``None``: nothing.
        """
        return self.program(params, rollouts, advantages, rewarded, frozen)

    @property
    def program(self) -> DiagnosisProgram:
        """The jitted :meth:`compute`, for callers that lower it on shapes."""
        return _program(self)

    def compute(
        self,
        params: Params,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        rewarded: Bool[Array, 'P N'],
        frozen: Params | None = None,
    ) -> Diagnosis:
        """Computes what :meth:`__call__` returns, inside a program."""
        rewards = rewarded.astype(jnp.float32)
        estimates = [self._estimator(name) for name in self.estimators[1:]]
        compared = [advantages, *(other(rewards, rewarded) for other in estimates)]
        if bins := self.difficulty_bins:
            compared += [*split_by_difficulty(advantages, rewarded, bins=bins)]
        trained = self.loss.mask(rollouts).any(axis=-1)
        means, reaching = entropy_by_position(rollouts.entropies, rollouts.lengths)
        return Diagnosis(
            entropies=means,
            reaching=reaching,
            partings=wrong_partings(rollouts.tokens, rollouts.lengths, ~rewarded),
            mass=advantage_mass(jnp.where(trained, advantages, 0.0), rewarded),
            products=gradient_products(
                *(self.loss, params, rollouts, jnp.stack(compared)),
                num_chunks=self.num_chunks,
                rollout_parts=self.rollout_parts,
                frozen=frozen,
            ),
            estimators=self.estimators,
            num_chunks=self.num_chunks,
        )

    def _estimator(self, name: str) -> AdvantageFn:
        parameters = {'k': self.k} if name == 'canonical_k' else {}
        return make_estimator(name, num_rollouts=self.num_rollouts, **parameters)


# As with updates, equal settings share one program in a process.
@functools.lru_cache(maxsize=16)
def _program(diagnose: Diagnose) -> DiagnosisProgram:
    replicated = sharding.replicated(diagnose.mesh)
    return jax.jit(diagnose.compute, out_shardings=replicated)


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
        products.total, products.chunks, num_chunks=diagnosis.num_chunks
    )
    for e, name in enumerate(names):
        values[f'gradient_signal/{name}'] = signal.products[e, e]
        values[f'gradient_noise/{name}'] = signal.noise[e]
        for f in range(e + 1, len(names)):
            pair = f'{name}/{names[f]}'
            values[f'gradient_product/{pair}'] = signal.products[e, f]
            values[f'gradient_cosine/{pair}'] = signal.cosines[e, f]
    own_product, parts = (
        signal.products[0, 0],
        signal.products[0, len(names) :].reshape(2, -1),
    )
    for side, of_side in zip(('right', 'wrong'), parts, strict=True):
        if of_side.size:
            shares = (
                of_side / own_product
                if own_product > 0
                else np.full_like(of_side, np.nan)
            )
            values[f'gradient_product_{side}_by_difficulty'] = of_side
            values[f'gradient_share_{side}_by_difficulty'] = shares
    return values
