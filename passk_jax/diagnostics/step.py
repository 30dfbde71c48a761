"""Diagnoses a step in one program on the devices, for one line of a file.

The program reads the batch of the learner and the policy that sampled it, before any
update, and changes nothing. If dynamic sampling selected that batch, the figures
describe only problems with a signal, and are biased as figures of all problems.
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

from passk_jax import config, sharding
from passk_jax.advantages import make_estimator
from passk_jax.diagnostics import gradients, responses
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
    """The figures of a step on the devices; :func:`record` makes a line of them.

    Attributes:
        entropies, reaching: ``[T]``, see :func:`responses.entropy_by_position`.
        partings, mass: partings of wrong responses, and mass of the trained advantages.
        products: products of the gradients under ``estimators``, and of the parts of
            the first gradient, if any; see :func:`responses.split_by_difficulty`.
        estimators, num_chunks: the E estimators, the run's own first, and M.
    """

    entropies: jax.Array
    reaching: jax.Array
    partings: responses.Partings
    mass: responses.Mass
    products: gradients.Products
    estimators: tuple[str, ...]
    num_chunks: int


DiagnosisProgram = Callable[
    [Params, Rollouts, Float[Array, 'P N'], Bool[Array, 'P N'], Params | None],
    Diagnosis,
]


def compared_estimators(name: str, *, num_rollouts: int, k: int) -> tuple[str, ...]:
    """Returns the estimators whose gradients are compared, the run's own first.

    The references are Pass@1 Training, and the two estimators that follow pass@1 and
    pass@k exactly; the last is left out if k is N.

    >>> compared_estimators('pass_at_k', num_rollouts=8, k=4)
    ('pass_at_k', 'pass_at_1', 'rloo', 'canonical_k')
    """
    references = ['pass_at_1', 'rloo', *(['canonical_k'] if k < num_rollouts else [])]
    return (name, *(other for other in references if other != name))


@dataclasses.dataclass(frozen=True)
class Diagnose:
    """The verb ``diagnose(params, rollouts, advantages, rewarded, frozen)``.

    Equal verbs share one compiled program.

    Attributes:
        loss, mesh: the learner's loss, and the devices of the rollouts.
        name, num_rollouts: the estimator of the advantages, and N.
        k: group size of the reference ``canonical_k``.
        num_chunks: the number of parts to cut the problems into, at least 2; see
            :func:`gradients.gradient_products`.
        rollout_parts: parts of a prompt's rollouts, one for each pass.
        difficulty_bins: the number of bins of difficulty to cut the run's gradient
            into; 0: it is not cut.
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
        advantage: config.AdvantageConfig,
        loss: config.LossConfig,
        train: config.TrainConfig,
        sampling: config.SamplingConfig,
        log: config.LogConfig,
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
        return compared_estimators(self.name, num_rollouts=self.num_rollouts, k=self.k)

    @property
    def num_gradients(self) -> int:
        """The number of gradients, of estimators and of parts of the first one."""
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
            params: the trained parameters of the policy that sampled the rollouts.
            rollouts: P prompts with N responses each.
            advantages: one per response.
            rewarded: the responses that the estimator counted as correct. The other
                estimators get these as rewards of 0 or 1, and the diagnosis calls them
                right, also wrong responses that Noise Rewards flipped.
            frozen: the policy's other parameters; ``None``: none.
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
        """Computes the result of :meth:`__call__`; to be jitted."""
        rewards = rewarded.astype(jnp.float32)
        compared = [advantages]
        for name in self.estimators[1:]:
            parameters = {'k': self.k} if name == 'canonical_k' else {}
            estimate = make_estimator(
                name, num_rollouts=self.num_rollouts, **parameters
            )
            compared.append(estimate(rewards, rewarded))
        if bins := self.difficulty_bins:
            parts = responses.split_by_difficulty(advantages, rewarded, bins=bins)
            compared += [*parts]
        tokens, lengths = rollouts.tokens, rollouts.lengths
        means, reaching = responses.entropy_by_position(rollouts.entropies, lengths)
        mask = self.loss.mask(rollouts).any(axis=-1)
        trained = jnp.where(mask, advantages, 0.0)
        return Diagnosis(
            entropies=means,
            reaching=reaching,
            partings=responses.wrong_partings(tokens, lengths, ~rewarded),
            mass=responses.advantage_mass(trained, rewarded),
            products=gradients.gradient_products(
                *(self.loss, params, rollouts, jnp.stack(compared)),
                num_chunks=self.num_chunks,
                rollout_parts=self.rollout_parts,
                frozen=frozen,
            ),
            estimators=self.estimators,
            num_chunks=self.num_chunks,
        )


# Equal verbs share one program in a process, as equal updates do.
@functools.lru_cache(maxsize=16)
def _program(diagnose: Diagnose) -> DiagnosisProgram:
    replicated = sharding.replicated(diagnose.mesh)
    return jax.jit(diagnose.compute, out_shardings=replicated)


def record(diagnosis: Diagnosis) -> dict[str, Any]:
    """Makes a line of ``diagnostics.jsonl`` from a diagnosis on the host.

    Returns:
        Numbers and lists of numbers by name. Lists ``*_by_position`` end with the
        longest response; entry c of ``*_by_right`` is for problems with c right
        responses; ``*_by_difficulty`` has the parts of the run's gradient. NaN means
        undefined: no two wrong responses, or no signal.
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
    signal = gradients.signal_and_noise(
        **vars(diagnosis.products), num_chunks=diagnosis.num_chunks
    )
    for e, name in enumerate(names):
        values[f'gradient_signal/{name}'] = signal.products[e, e]
        values[f'gradient_noise/{name}'] = signal.noise[e]
        for f in range(e + 1, len(names)):
            pair = f'{name}/{names[f]}'
            values[f'gradient_product/{pair}'] = signal.products[e, f]
            values[f'gradient_cosine/{pair}'] = signal.cosines[e, f]
    square = signal.products[0, 0] if signal.products[0, 0] > 0 else math.nan
    parts = signal.products[0, len(names) :].reshape(2, -1)
    for side, products in zip(('right', 'wrong'), parts, strict=True):
        if products.size:
            values[f'gradient_product_{side}_by_difficulty'] = products
            values[f'gradient_share_{side}_by_difficulty'] = products / square
    return values
