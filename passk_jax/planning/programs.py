"""The programs of a run as shapes: what a configuration will ask of each device.

``train`` is the learner's whole step, ``score`` its pass for log-probabilities alone.
Sampling has three: ``weights`` makes those that it reads, ``prefill`` runs the prompts
and ``decode`` one more token of every rollout, again and again (decoding.py). They call
the functions that a run calls, on :class:`jax.ShapeDtypeStruct` with shardings instead
of arrays, so planning makes and reads no weight. Every prompt and response is as long
as the configuration allows.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from passk_jax import config, sharding
from passk_jax.errors import InputError
from passk_jax.learning import learner
from passk_jax.learning import optimizer as optimizers
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Cache, Policy
from passk_jax.models.transformer import Prefix
from passk_jax.planning import decoding
from passk_jax.planning.flops import decode_flops, model_flops
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled import device
from passk_jax.sampling.scheduled.grid import Size, Work
from passk_jax.sampling.scheduled.state import PREFIX_AXES
from passk_jax.types import Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Program:
    """A jitted function and the shapes that it is called with.

    Attributes:
        name: one of :data:`PROGRAMS`.
        function: jitted, with the donations of a run.
        arguments, mesh: ``ShapeDtypeStruct`` with shardings on this mesh.
        resident: bytes that a device holds besides the arguments while the program
            runs, such as the parts of the training state that it does not take.
        useful_flops: FLOPs that its mathematics needs, over all devices.
        num_tokens: response tokens it works on; for ``prefill``, prompt tokens; 0:
            none.
        loop_steps: 0, or the steps in an iteration of the program's loop that ends with
            the data. Then FLOPs, tokens and costs are those of one step.
    """

    name: str
    function: Any
    arguments: tuple[Any, ...]
    mesh: Mesh | AbstractMesh
    resident: float
    useful_flops: float
    num_tokens: int
    loop_steps: int = 0


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
    """Makes the programs of a run from the sections of its configuration.

    Attributes:
        policy: the policy.
        mesh: the devices; an abstract mesh is enough for shapes.
        platform: of the devices: ``'tpu'``, ``'gpu'`` or ``'cpu'``.
        data, sampling, train, loss, optimizer: sections of the configuration.
    """

    policy: Policy
    mesh: Mesh | AbstractMesh
    platform: str
    data: config.DataConfig
    sampling: config.SamplingConfig
    train: config.TrainConfig
    loss: config.LossConfig
    optimizer: config.OptimizerConfig

    def build(self, name: str) -> Program:
        """Makes the program of this name.

        Raises:
            ValueError: the name is unknown.
        """
        if name not in PROGRAMS:
            raise InputError(f'program {name!r} must be one of {list(PROGRAMS)}')
        return PROGRAMS[name](self)

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

    def state(self) -> learner.TrainState:
        """The training state."""
        return learner.state_shapes(self.policy, self.make_optimizer(), self.mesh)

    def make_optimizer(self) -> optimizers.Optimizer:
        """The optimizer, with the learning rate of the whole run."""
        updates = self.train.num_updates
        return optimizers.make_optimizer(self.optimizer, num_updates=updates)

    def reference(self) -> Any:
        """Parameters of the reference policy; ``None`` without a KL term."""
        shapes = policies.param_shapes(self.policy, self.mesh)
        return shapes if self.loss.kl_coef else None

    def array(
        self, axes: tuple[str | None, ...], shape: tuple[int, ...], dtype: Any
    ) -> jax.ShapeDtypeStruct:
        """The shape of an array with logical axes, split by the sharding rules."""
        spec = sharding.partition_spec(axes, shape, self.mesh.shape)
        placed = NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=placed)

    def prompts(self) -> Prompts:
        """A step's prompts."""
        P, S = self.train.num_prompts, self.data.max_prompt_tokens
        by_prompt = self.array(('batch',), (P,), jnp.int32)
        tokens = self.array(('batch', None), (P, S), jnp.int32)
        return Prompts(tokens, lengths=by_prompt, problem_ids=by_prompt)

    def by_rollout(self, dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        """An array with the axes ``[P, N]`` of a step's rollouts in front."""
        shape = (self.train.num_prompts, self.sampling.num_rollouts, *shape)
        axes = ('batch', 'rollouts', *(None,) * (len(shape) - 2))
        return self.array(axes, shape, dtype)

    def rollouts(self) -> Rollouts:
        """A step's rollouts."""
        T = self.sampling.max_response_tokens
        return Rollouts(
            prompts=self.prompts(),
            tokens=self.by_rollout(jnp.int32, T),
            lengths=self.by_rollout(jnp.int32),
            stopped=self.by_rollout(jnp.bool_),
            sampler_log_probs=self.by_rollout(jnp.float32, T),
            untruncated_log_probs=self.by_rollout(jnp.float32, T),
            entropies=self.by_rollout(jnp.float32, T),
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

    def decoding_weights(self) -> policies.Params:
        """The weights that sampling reads."""
        params = policies.param_shapes(self.policy, self.mesh)
        cast = functools.partial(policies.for_decoding, self.policy)
        return self.constrained(cast, params)

    def at_one_time(self) -> tuple[Work, Size]:
        """A device's work of sampling, and the grid that it starts with.

        Raises:
            ValueError: ``sampling.max_cache_bytes`` is too small.
        """
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            return sampler.at_one_time(
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
        work, first = self.at_one_time()
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

    def prefix(self, num_prompts: int) -> Prefix:
        """The keys and values of ``num_prompts`` prompts."""
        arch, S = self.policy.arch, self.data.max_prompt_tokens
        lead = (num_prompts, arch.num_kv_heads)
        keys, values = (
            self.array(PREFIX_AXES, (*lead, *rest), jnp.dtype(arch.dtype))
            for rest in ((arch.head_dim, S), (S, arch.head_dim))
        )
        lengths = self.array(('batch',), (num_prompts,), jnp.int32)
        return Prefix((KeyValues(keys, values),) * arch.num_layers, lengths)

    def forward_flops(self, *, responses: bool = True) -> float:
        """FLOPs of one pass over a step's prompts, and over their responses or not."""
        return model_flops(
            self.policy.arch,
            num_prompts=self.train.num_prompts,
            num_rollouts=responses * self.sampling.num_rollouts,
            prompt_tokens=self.data.max_prompt_tokens,
            response_tokens=responses * self.sampling.max_response_tokens,
        )


def _train(builder: Builder) -> Program:
    train, reference = builder.train, builder.reference()
    num_updates = train.num_prompts // train.mini_batch_prompts
    step = learner.make_train_step(
        builder.policy,
        builder.make_optimizer(),
        builder.mesh,
        loss=builder.loss,
        temperature=builder.sampling.temperature,
        num_updates=num_updates,
        num_micro_batches=train.mini_batch_prompts // train.micro_batch_prompts,
        pack_sizes=train.pack_sizes,
        epochs=train.epochs,
    )
    rollouts, advantages = builder.rollouts(), builder.by_rollout(jnp.float32)
    # A forward and backward pass an epoch; a forward pass for the old log-probs, which
    # a single epoch does not need of its first mini-batch; another for the reference
    # policy. All responses have full length, so packing saves nothing.
    scored = 1 if train.epochs > 1 else 1 - 1 / num_updates
    passes = 3 * train.epochs + scored + (reference is not None)
    return Program(
        'train',
        step,
        (builder.state(), rollouts, advantages, reference),
        builder.mesh,
        0.0,
        passes * builder.forward_flops(),
        math.prod(rollouts.tokens.shape),
    )


def _score(builder: Builder) -> Program:
    policy, temperature = builder.policy, builder.sampling.temperature
    parts = builder.train.num_prompts // builder.train.micro_batch_prompts

    def score(params: Any, rollouts: Rollouts) -> jax.Array:
        def log_probs(part: Rollouts) -> jax.Array:
            inputs = (policy, params, part.prompts, part.tokens)
            return policies.token_log_probs(*inputs, temperature=temperature)[0]

        mapped = jax.lax.map(log_probs, learner.interleave(rollouts, parts))
        return learner.deinterleave(mapped)

    state = builder.state()
    return Program(
        'score',
        jax.jit(score),
        (state.params, builder.rollouts()),
        builder.mesh,
        shard_bytes((state.opt_state, builder.reference())),
        builder.forward_flops(),
        math.prod(builder.rollouts().tokens.shape),
    )


def _weights(builder: Builder) -> Program:
    def weights(params: Any) -> Any:
        return policies.for_decoding(builder.policy, params)

    state = builder.state()
    return Program(
        'weights',
        jax.jit(weights),
        (state.params,),
        builder.mesh,
        shard_bytes((state.opt_state, builder.reference(), builder.prompts())),
        0.0,
        0,
    )


def _prefill(builder: Builder) -> Program:
    def prefill(params: Any, prompts: Prompts, key: jax.Array) -> Any:
        return device.prefill(builder.policy, params, prompts, key)

    prompts = builder.prompts()
    return Program(
        'prefill',
        jax.jit(prefill),
        (builder.decoding_weights(), prompts, decoding.key_shape(builder)),
        builder.mesh,
        shard_bytes((builder.state(), builder.reference())),
        builder.forward_flops(responses=False),
        math.prod(prompts.tokens.shape),
    )


def _decode(builder: Builder) -> Program:
    call = decoding.call(builder)
    G, K = builder.rows()
    resident = (builder.state(), builder.reference(), builder.prompts(), call.resident)
    # Attention reads every slot of the cache, filled or not.
    context = builder.data.max_prompt_tokens
    context += max(builder.sampling.max_response_tokens - 1, 1)
    return Program(
        'decode',
        call.function,
        call.arguments,
        builder.mesh,
        shard_bytes(resident),
        decode_flops(builder.policy.arch, sequences=G * K, context_tokens=context),
        G * K,
        loop_steps=call.steps,
    )


PROGRAMS: Mapping[str, Callable[[Builder], Program]] = {
    'train': _train,
    'score': _score,
    'weights': _weights,
    'prefill': _prefill,
    'decode': _decode,
}
