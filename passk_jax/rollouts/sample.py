"""The verb *sample*: draws responses to a batch of problems."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh
from jaxtyping import Array, Key

from passk_jax import sampling, sharding
from passk_jax.config import SamplingOptions
from passk_jax.data.batches import PromptBatch
from passk_jax.models.frozen import read_pictures
from passk_jax.models.policy import Params, Policy
from passk_jax.rollouts.verify import Sampled, Verify
from passk_jax.sampling import Ended
from passk_jax.sampling.scheduled.hand_over import OnEnded
from passk_jax.types import Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Sample:
    """The verb ``sample(params, batch, key=key)``.

    Attributes:
        mesh: the mesh of the parameters and the rollouts.
        decode_mesh: the same devices, as sampling splits them.
        verify: verifies responses as they end.
        num_rollouts: N.
        options: the distribution that tokens are drawn from.
        max_response_tokens, stop_tokens, max_cache_bytes: as for
            :func:`passk_jax.sampling.sample`.
    """

    policy: Policy
    mesh: Mesh
    decode_mesh: Mesh
    verify: Verify
    num_rollouts: int
    options: SamplingOptions
    max_response_tokens: int
    stop_tokens: tuple[int, ...]
    max_cache_bytes: int

    def __call__(
        self,
        params: Params,
        batch: PromptBatch,
        *,
        key: Key[Array, ''],
        on_progress: Callable[[], None] = lambda: None,
    ) -> Sampled:
        """Samples N responses to each problem and verifies each one as it ends.

        Args:
            params: the policy's parameters, on the mesh.
            batch: P problems with their prompts, on the host.
            key: the step's key; see :mod:`passk_jax.sampling.keys`.
            on_progress: called when responses have ended while others decode, on all
                hosts alike. An error that it raises ends the call.

        Returns:
            The rollouts, for :class:`~passk_jax.rollouts.verify.Verify`.

        Raises:
            ValueError: see :func:`passk_jax.sampling.sample`.
        """
        verification = self.verify.begin(batch.problems, self.num_rollouts)

        num_decoding = len(batch.problems) * self.num_rollouts

        def on_ended(ended: Ended) -> None:
            nonlocal num_decoding
            num_decoding -= len(ended.problems)
            if num_decoding:
                on_progress()
            verification.submit(ended)

        try:
            prompts = sharding.place(self.mesh, batch.prompts)
            prompts = read_pictures(self.policy, params, prompts)
            if self.decode_mesh == self.mesh:
                rollouts = self._draw(params, prompts, key, on_ended)
            else:
                with jax.set_mesh(self.decode_mesh):
                    prompts = _moved(prompts, self.decode_mesh)
                    key = _moved(key, self.decode_mesh)
                    rollouts = self._draw(params, prompts, key, on_ended)
                rollouts = _moved(rollouts, self.mesh)
            # Device errors surface here, so that they close the verification.
            jax.block_until_ready(rollouts)
        except BaseException:
            verification.close()
            raise
        return Sampled(rollouts, verification)

    def _draw(
        self, params: Params, prompts: Prompts, key: jax.Array, on_ended: OnEnded
    ) -> Rollouts:
        return sampling.sample(
            self.policy,
            params,
            prompts,
            key=key,
            num_rollouts=self.num_rollouts,
            max_response_tokens=self.max_response_tokens,
            options=self.options,
            stop_tokens=self.stop_tokens,
            max_cache_bytes=self.max_cache_bytes,
            on_ended=on_ended,
        )


Tree = TypeVar('Tree', jax.Array, Prompts, Rollouts)


def _moved(tree: Tree, mesh: Mesh) -> Tree:
    """Moves prompts, rollouts or a key to another mesh of the same devices."""
    shardings: Any = sharding.replicated(mesh)
    if isinstance(tree, Rollouts):
        shardings = sharding.batch_sharding(mesh, tree, 'batch', 'rollouts')
        prompts = sharding.batch_sharding(mesh, tree.prompts)
        shardings = dataclasses.replace(shardings, prompts=prompts)
    elif isinstance(tree, Prompts):
        shardings = sharding.batch_sharding(mesh, tree)
    # With several processes, jax.device_put cannot move a key.
    return jax.jit(_same, out_shardings=shardings)(tree)


def _same(tree: Tree) -> Tree:
    return tree
