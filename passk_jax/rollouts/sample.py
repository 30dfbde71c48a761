"""The verb *sample*: draws responses to a batch of problems."""

import dataclasses

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Key

from passk_jax import sampling, sharding
from passk_jax.config import SamplingOptions
from passk_jax.data.batches import PromptBatch
from passk_jax.models.frozen import read_pictures
from passk_jax.models.policy import Params, Policy
from passk_jax.rollouts.verify import Sampled, Verify


@dataclasses.dataclass(frozen=True)
class Sample:
    """The verb ``sample(params, batch, key=key)``.

    Attributes:
        mesh: the devices to sample on.
        verify: verifies responses as they end.
        num_rollouts: N.
        options: the distribution that tokens are drawn from.
        max_response_tokens, stop_tokens, max_cache_bytes: as for
            :func:`passk_jax.sampling.sample`.
    """

    policy: Policy
    mesh: Mesh
    verify: Verify
    num_rollouts: int
    options: SamplingOptions
    max_response_tokens: int
    stop_tokens: tuple[int, ...]
    max_cache_bytes: int

    def __call__(
        self, params: Params, batch: PromptBatch, *, key: Key[Array, '']
    ) -> Sampled:
        """Samples N responses to each problem and verifies each one as it ends.

        Args:
            params: the policy's parameters, on the mesh.
            batch: P problems with their prompts, on the host.
            key: of the step; see :mod:`passk_jax.sampling.keys`.

        Returns:
            The rollouts, for :class:`~passk_jax.rollouts.verify.Verify`.

        Raises:
            ValueError: as :func:`passk_jax.sampling.sample`.
        """
        verification = self.verify.begin(batch.problems, self.num_rollouts)
        try:
            prompts = sharding.place(self.mesh, batch.prompts)
            rollouts = sampling.sample(
                self.policy,
                params,
                read_pictures(self.policy, params, prompts),
                key=key,
                num_rollouts=self.num_rollouts,
                max_response_tokens=self.max_response_tokens,
                options=self.options,
                stop_tokens=self.stop_tokens,
                max_cache_bytes=self.max_cache_bytes,
                on_ended=verification.submit,
            )
            # Errors of the devices surface here, and close the verification.
            jax.block_until_ready(rollouts)
        except BaseException:
            verification.close()
            raise
        return Sampled(rollouts, verification)
