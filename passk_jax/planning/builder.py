"""What a configuration will ask of each device, as shapes with shardings.

A :class:`Builder` has the shapes of the training state, the rollouts and what sampling
keeps: :class:`jax.ShapeDtypeStruct` instead of arrays. The programs that take them are
made in programs.py. Every prompt and response is as long as the configuration allows.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from passk_jax import config, sharding
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.experts import routing_dtype
from passk_jax.models.policy import Cache, Policy
from passk_jax.models.transformer import Prefix
from passk_jax.models.weights import Weights, split_weights
from passk_jax.planning.flops import model_flops
from passk_jax.sampling import sampler
from passk_jax.sampling.plain_loop import Record
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.state import PREFIX_AXES, ROW_AXES
from passk_jax.sharding import AnyMesh
from passk_jax.types import Prompts, Rollouts

Shapes = dict[str, jax.ShapeDtypeStruct]


def abstract_mesh(sizes: Mapping[str, int]) -> AbstractMesh:
    """A mesh without devices, enough for shapes and shardings."""
    types = (AxisType.Auto,) * len(sizes)
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=types)


def tree_bytes(tree: Any) -> float:
    """Bytes of a tree of shapes, over all devices."""
    return float(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)))


def shard_bytes(tree: Any) -> float:
    """Bytes that one device holds of a tree of shapes with shardings."""
    shards = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.sharding.shard_shape(x.shape), x.dtype), tree
    )
    return tree_bytes(shards)


@dataclasses.dataclass(frozen=True)
class Builder:
    """The shapes of a run, from the sections of its configuration.

    Attributes:
        policy: the policy.
        mesh: the devices; an abstract mesh is enough for shapes.
        platform: of the devices: ``'tpu'``, ``'gpu'`` or ``'cpu'``.
        data, sampling, train, loss, optimizer, advantage, log: sections of the
            configuration.
    """

    policy: Policy
    mesh: AnyMesh
    platform: str
    data: config.DataConfig
    sampling: config.SamplingConfig
    train: config.TrainConfig
    loss: config.LossConfig
    optimizer: config.OptimizerConfig
    advantage: config.AdvantageConfig
    log: config.LogConfig

    def changed(self, overrides: Mapping[str, Any]) -> 'Builder':
        """The same run with other values, on an abstract mesh.

        Args:
            overrides: dotted key (``'mesh.fsdp'``) -> value, unchecked.
        """
        policy, sizes, parts = self.policy, dict(self.mesh.shape), {}
        for key, value in overrides.items():
            section, _, name = key.partition('.')
            if section == 'mesh':
                sizes[name] = value
            elif key == 'model.remat':
                arch = dataclasses.replace(policy.arch, remat=value)
                policy = dataclasses.replace(policy, arch=arch)
            elif section == 'model':
                policy = dataclasses.replace(policy, **{name: value})
            else:
                part = parts.get(section, getattr(self, section))
                parts[section] = dataclasses.replace(part, **{name: value})
        mesh = abstract_mesh(sizes)
        return dataclasses.replace(self, policy=policy, mesh=mesh, **parts)

    def state(self) -> states.TrainState[jax.ShapeDtypeStruct]:
        """The training state."""
        return states.state_shapes(self.policy, self.make_optimizer(), self.mesh)

    def make_optimizer(self) -> optimizers.Optimizer:
        """The optimizer, with the learning rate of the whole run."""
        updates = self.train.num_updates
        return optimizers.make_optimizer(self.optimizer, num_updates=updates)

    def weights(self) -> Weights[jax.ShapeDtypeStruct]:
        """The parameters: what is frozen, and what is trained."""
        shapes = policies.param_shapes(self.policy, self.mesh)
        return split_weights(self.policy, shapes)

    def reference(self) -> Shapes | None:
        """What the reference policy has of its own; ``None`` without a KL term."""
        return self.weights().trained if self.loss.kl_coef else None

    def array(
        self, axes: tuple[str | None, ...], shape: tuple[int, ...], dtype: Any
    ) -> jax.ShapeDtypeStruct:
        """The shape of an array with logical axes, split by the sharding rules."""
        spec = sharding.partition_spec(axes, shape, self.mesh.shape)
        placed = NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=placed)

    def prompts(self) -> Prompts[jax.ShapeDtypeStruct]:
        """A step's prompts."""
        P, S = self.train.num_prompts, self.data.max_prompt_tokens
        by_prompt = self.array(('batch',), (P,), jnp.int32)
        tokens = self.array(('batch', None), (P, S), jnp.int32)
        return Prompts(tokens, lengths=by_prompt, problem_ids=by_prompt)

    def shape_by_rollout(self, dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        """An array with the axes ``[P, N]`` of a step's rollouts in front."""
        shape = (self.train.num_prompts, self.sampling.num_rollouts, *shape)
        axes = ('batch', 'rollouts', *(None,) * (len(shape) - 2))
        return self.array(axes, shape, dtype)

    def rollouts(self) -> Rollouts[jax.ShapeDtypeStruct]:
        """A step's rollouts."""
        P = self.train.num_prompts
        return self.record().rollouts(self.prompts(), self.prompt_routing(P))

    def prompt_routing(self, num_prompts: int) -> jax.ShapeDtypeStruct | None:
        """The experts of so many prompts, if sampling keeps them."""
        shape = num_prompts, self.data.max_prompt_tokens
        return self._routing(PREFIX_AXES[:2], shape)

    def _routing(
        self, axes: tuple[str, ...], shape: tuple[int, ...]
    ) -> jax.ShapeDtypeStruct | None:
        arch = self.policy.arch
        if not self.policy.replay_routing:
            return None
        shape = (*shape, arch.num_layers, arch.experts_per_token)
        axes = (*axes, *(None,) * (len(shape) - len(axes)))
        return self.array(axes, shape, routing_dtype(arch))

    def record(self) -> Record[jax.ShapeDtypeStruct]:
        """What sampling writes of a step's rollouts."""
        T = self.sampling.max_response_tokens
        return Record(
            tokens=self.shape_by_rollout(jnp.int32, T),
            lengths=self.shape_by_rollout(jnp.int32),
            stopped=self.shape_by_rollout(jnp.bool_),
            sampler_log_probs=self.shape_by_rollout(jnp.float32, T),
            untruncated_log_probs=self.shape_by_rollout(jnp.float32, T),
            entropies=self.shape_by_rollout(jnp.float32, T),
            routing=self._routing(
                ROW_AXES, (self.train.num_prompts, self.sampling.num_rollouts, T)
            ),
        )

    def constrained(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The shapes that a function returns, sharded by its last constraints.

        Raises:
            ValueError: an array has no constraint; scalars need none.
        """
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        specs = {
            equation.outvars[0]: equation.params['sharding'].spec
            for equation in traced.eqns
            if equation.primitive.name == 'sharding_constraint'
        }
        leaves, tree = jax.tree.flatten(shapes)
        placed = []
        for x, variable in zip(leaves, traced.jaxpr.outvars, strict=True):
            if x.ndim and variable not in specs:
                raise ValueError(f'{function} does not constrain the sharding of {x}')
            spec = specs[variable] if x.ndim else PartitionSpec()
            where = NamedSharding(self.mesh, spec)
            placed.append(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where))
        return jax.tree.unflatten(tree, placed)

    def decoding_weights(self) -> Shapes:
        """The weights that sampling reads."""
        params = policies.param_shapes(self.policy, self.mesh)
        cast = functools.partial(policies.prepare_decoding, self.policy)
        return self.constrained(cast, params)

    def fit_grid(self) -> tuple[Work, Size]:
        """A device's work of sampling, and the grid that it starts with.

        Raises:
            ValueError: ``sampling.max_cache_bytes`` is too small.
        """
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            return sampler.fit_grid(
                self.policy.arch,
                num_prompts=self.train.num_prompts,
                num_rollouts=self.sampling.num_rollouts,
                prompt_tokens=self.data.max_prompt_tokens,
                max_response_tokens=self.sampling.max_response_tokens,
                max_cache_bytes=self.sampling.max_cache_bytes,
            )

    def rows(self) -> tuple[int, int]:
        """How many problems, and rollouts of each, sampling decodes together at first.

        Raises:
            ValueError: ``sampling.max_cache_bytes`` is too small.
        """
        P, N = self.train.num_prompts, self.sampling.num_rollouts
        work, first = self.fit_grid()
        return P // work.problems * first.slots, N // work.rollouts * first.rows

    def cache(self) -> Cache:
        """The keys and values of the responses that sampling decodes together."""
        G, K = self.rows()
        return self.constrained(
            lambda: policies.empty_cache(
                self.policy,
                num_prompts=G,
                num_rollouts=K,
                # A response's last possible token never runs.
                num_tokens=self.sampling.max_response_tokens - 1,
            )
        )

    def prefix(self, num_prompts: int) -> Prefix[jax.ShapeDtypeStruct]:
        """The keys and values of ``num_prompts`` prompts."""
        arch, S = self.policy.arch, self.data.max_prompt_tokens
        lead = (num_prompts, arch.num_kv_heads)
        keys, values = (
            self.array(PREFIX_AXES, (*lead, *trailing), jnp.dtype(arch.dtype))
            for trailing in ((arch.head_dim, S), (S, arch.head_dim))
        )
        lengths = self.array(('batch',), (num_prompts,), jnp.int32)
        layers = (KeyValues(keys, values),) * arch.num_layers
        return Prefix(layers, lengths, self.prompt_routing(num_prompts))

    def forward_flops(self, *, responses: bool = True) -> float:
        """FLOPs of one pass over a step's prompts, and over their responses or not."""
        return model_flops(
            self.policy.arch,
            num_prompts=self.train.num_prompts,
            num_rollouts=responses * self.sampling.num_rollouts,
            prompt_tokens=self.data.max_prompt_tokens,
            response_tokens=responses * self.sampling.max_response_tokens,
        )
