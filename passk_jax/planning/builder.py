"""The arrays of a run, as shapes with shardings.

A :class:`Builder` makes :class:`jax.ShapeDtypeStruct` for the training state, the
rollouts and the arrays of sampling. programs.py makes the programs that take them.
Every prompt and response is as long as the configuration allows.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from passk_jax import config, sharding
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.update import Update
from passk_jax.models import decode_mesh
from passk_jax.models import policy as policies
from passk_jax.models.attention import PREFIX_AXES
from passk_jax.models.experts import routing_dtype
from passk_jax.models.frozen import (
    Weights,
    reads_once,
    reference_params,
    split_weights,
)
from passk_jax.models.policy import Cache, Policy
from passk_jax.models.quantized import empty_layer
from passk_jax.models.transformer import Prefix
from passk_jax.planning.flops import model_flops, picture_flops
from passk_jax.sampling import sampler
from passk_jax.sampling.plain_loop import Record, empty_record
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sharding import AnyMesh
from passk_jax.types import Images, Prompts, Rollouts

Shapes = dict[str, jax.ShapeDtypeStruct]


def abstract_mesh(sizes: Mapping[str, int]) -> AbstractMesh:
    """Makes a mesh without devices, which is enough for shapes and shardings."""
    types = (AxisType.Auto,) * len(sizes)
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=types)


def tree_bytes(tree: Any) -> float:
    """Counts the bytes of a tree of shapes, over all devices."""
    return float(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)))


def shard_bytes(tree: Any) -> float:
    """Counts the bytes of a tree of shapes with shardings, on one device."""
    shards = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.sharding.shard_shape(x.shape), x.dtype), tree
    )
    return tree_bytes(shards)


@dataclasses.dataclass(frozen=True)
class Builder:
    """The shapes of a run, from sections of its configuration.

    An abstract mesh is enough. The platform is ``'tpu'``, ``'gpu'`` or ``'cpu'``.

    Raises:
        InputError: there is no mesh for ``mesh.decode_tensor``.
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
    decode_tensor: int = 0

    def __post_init__(self):
        self._decode_mesh()

    def _decode_mesh(self) -> AnyMesh:
        heads = self.policy.arch.num_kv_heads
        return decode_mesh.make(self.mesh, self.decode_tensor, num_kv_heads=heads)

    @property
    def sampling_run(self) -> 'Builder':
        """The same builder, on the mesh of sampling."""
        return dataclasses.replace(self, mesh=self._decode_mesh(), decode_tensor=0)

    def changed(self, overrides: Mapping[str, Any]) -> 'Builder':
        """Replaces values by dotted key (``'mesh.fsdp'``); makes the mesh abstract."""
        policy, sizes, parts = self.policy, dict(self.mesh.shape), {}
        for key, value in overrides.items():
            section, _, name = key.partition('.')
            if key == 'mesh.decode_tensor':
                parts[name] = value
            elif section == 'mesh':
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

    @property
    def pass_rollouts(self) -> int:
        """Rollouts of each prompt in a pass of the learner."""
        return self.train.micro_batch_rollouts or self.sampling.num_rollouts

    def state(self) -> states.TrainState[jax.ShapeDtypeStruct]:
        """Makes the shapes of the training state."""
        return states.state_shapes(self.policy, self.make_optimizer(), self.mesh)

    def make_optimizer(self) -> optimizers.Optimizer:
        """Makes the optimizer, with the learning rates of all updates."""
        updates = self.train.num_updates
        return optimizers.make_optimizer(self.optimizer, num_updates=updates)

    def update(self) -> Update:
        """Makes the verb *update*."""
        return Update.configured(
            self.policy,
            self.make_optimizer(),
            self.mesh,
            train=self.train,
            loss=self.loss,
            sampling=self.sampling,
        )

    def weights(self) -> Weights[jax.ShapeDtypeStruct]:
        """Makes the shapes of the parameters, frozen and trained."""
        shapes = policies.param_shapes(self.policy, self.mesh)
        return split_weights(self.policy, shapes)

    def reference(self) -> Shapes | None:
        """Makes the shapes of the reference's parameters; ``None`` without KL term."""
        if not self.loss.kl_coef:
            return None
        return reference_params(self.policy, self.weights().trained)

    def array(
        self, axes: tuple[str | None, ...], shape: tuple[int, ...], dtype: Any
    ) -> jax.ShapeDtypeStruct:
        """Makes the shape of an array that the sharding rules split by its axes."""
        spec = sharding.partition_spec(axes, shape, self.mesh.shape)
        placed = NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=placed)

    def prompts(self) -> Prompts[jax.ShapeDtypeStruct]:
        """Makes the shapes of a step's prompts.

        If the policy reads pictures, all tokens count as picture tokens.
        """
        P, S = self.train.num_prompts, self.data.max_prompt_tokens
        by_prompt = self.array(('batch',), (P,), jnp.int32)
        tokens = self.array(('batch', None), (P, S), jnp.int32)
        prompts = Prompts(tokens, lengths=by_prompt, problem_ids=by_prompt)
        arch, axes = self.policy.arch, ('batch', None, None)
        if arch.vision is None:
            return prompts
        positions = self.array(axes, (P, S, 3), jnp.int32)
        prompts = dataclasses.replace(prompts, positions=positions)
        if not reads_once(self.policy):
            return dataclasses.replace(prompts, images=self.images())
        shape = P, 1 + len(arch.vision.taps), S, arch.embed_dim
        features = self.array((*axes, None), shape, jnp.dtype(arch.dtype))
        return dataclasses.replace(prompts, features=features)

    @property
    def patches(self) -> tuple[int, int]:
        """The patches of a prompt full of pictures, and of the largest picture."""
        vision, most = self.policy.arch.vision, self.data.max_picture_pixels
        assert vision is not None
        tokens = self.data.max_prompt_tokens
        of_token = vision.merge_size**2
        largest = most // (of_token * vision.patch_size**2) if most else tokens
        return of_token * tokens, of_token * min(tokens, max(1, largest))

    def images(self) -> Images[jax.ShapeDtypeStruct]:
        """Makes the shapes of the pictures of a step's prompts."""
        vision, (X, largest) = self.policy.arch.vision, self.patches
        assert vision is not None
        P, axes = self.train.num_prompts, ('batch', None, None)
        patches = self.array(axes, (P, X, vision.patch_values), jnp.float32)
        grids = self.array(axes, (P, math.ceil(X / largest), 2), jnp.int32)
        return Images(patches, grids)

    def shape_by_rollout(self, dtype: Any) -> jax.ShapeDtypeStruct:
        """Makes the shape ``[P, N]`` of a number for each of a step's rollouts."""
        shape = (self.train.num_prompts, self.sampling.num_rollouts)
        return self.array(('batch', 'rollouts'), shape, dtype)

    def rollouts(self) -> Rollouts[jax.ShapeDtypeStruct]:
        """Makes the shapes of a step's rollouts."""
        P = self.train.num_prompts
        return self.record().rollouts(self.prompts(), self.prompt_routing(P))

    def prompt_routing(self, num_prompts: int) -> jax.ShapeDtypeStruct | None:
        """Makes the shape of the prompts' routing; ``None`` if it is not replayed."""
        arch, S = self.policy.arch, self.data.max_prompt_tokens
        if not self.policy.replay_routing:
            return None
        shape = num_prompts, S, arch.num_layers, arch.experts_per_token
        return self.array(('batch', None, None, None), shape, routing_dtype(arch))

    def record(self) -> Record[jax.ShapeDtypeStruct]:
        """Makes the shapes of the arrays that decoding writes for a step's rollouts."""
        P, N = self.train.num_prompts, self.sampling.num_rollouts
        T = self.sampling.max_response_tokens
        return self.constrained(lambda: empty_record(self.policy, P, N, T))

    def constrained(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Makes the shapes that a function returns, sharded by its last constraints.

        An argument that the function returns unchanged keeps its sharding.

        Raises:
            ValueError: an array has no constraint; scalars need none.
        """
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        inputs = zip(traced.jaxpr.invars, jax.tree.leaves(arguments), strict=True)
        specs: dict[Any, PartitionSpec] = {
            x: argument.sharding.spec for x, argument in inputs
        }
        specs |= {
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
        """Makes the shapes of the weights that sampling reads."""
        params = policies.param_shapes(self.policy, self.mesh)
        cast = functools.partial(policies.prepare_decoding, self.policy)
        return self.constrained(cast, params)

    def fit_grid(self) -> tuple[Work, Size]:
        """Returns a device's work of sampling, and the grid that it starts with.

        Raises:
            ValueError: ``sampling.max_cache_bytes`` is too small.
        """
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            return sampler.fit_grid(
                self.policy,
                num_prompts=self.train.num_prompts,
                num_rollouts=self.sampling.num_rollouts,
                prompt_tokens=self.data.max_prompt_tokens,
                max_response_tokens=self.sampling.max_response_tokens,
                max_cache_bytes=self.sampling.max_cache_bytes,
            )

    def rows(self) -> tuple[int, int]:
        """Returns the problems, and rollouts of each, that decode together at first."""
        P, N = self.train.num_prompts, self.sampling.num_rollouts
        work, first = self.fit_grid()
        return P // work.problems * first.slots, N // work.rollouts * first.rows

    def cache(self) -> Cache:
        """Makes the shapes of the keys and values of responses that decode together."""
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
        """Makes the shapes of the keys and values of ``num_prompts`` prompts."""
        arch, S = self.policy.arch, self.data.max_prompt_tokens
        size, quantized = (num_prompts, arch.num_kv_heads), self.policy.quantizes_cache
        layer = jax.eval_shape(lambda: empty_layer(arch, size, S, quantized))
        layer = jax.tree.map(lambda x: self.array(PREFIX_AXES, x.shape, x.dtype), layer)
        lengths = self.array(('batch',), (num_prompts,), jnp.int32)
        after = lengths if arch.vision else None
        layers = (layer,) * arch.num_layers
        return Prefix(layers, lengths, self.prompt_routing(num_prompts), after)

    def forward_flops(self, *, responses: bool = True) -> float:
        """Counts the FLOPs of a pass over a step's prompts, and over its responses.

        Without the FLOPs of a tower that reads the pictures once.
        """
        of_pictures = 0.0
        if self.policy.arch.vision and not reads_once(self.policy):
            of_pictures = self.picture_flops()
        return of_pictures + model_flops(
            self.policy.arch,
            num_prompts=self.train.num_prompts,
            num_rollouts=responses * self.sampling.num_rollouts,
            prompt_tokens=self.data.max_prompt_tokens,
            response_tokens=responses * self.sampling.max_response_tokens,
        )

    def picture_flops(self) -> float:
        """Counts the FLOPs of the tower that reads a step's pictures."""
        patches, largest = self.patches
        vision, embed = self.policy.arch.vision, self.policy.arch.embed_dim
        assert vision is not None
        per_prompt = picture_flops(vision, patches, largest=largest, embed_dim=embed)
        return self.train.num_prompts * per_prompt
