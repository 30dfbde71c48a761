"""The programs of a run as shapes: what a configuration will ask of each device.

``train`` is the learner's whole step, ``score`` its pass for log-probabilities alone,
``prefill`` what sampling does first (make the weights it reads, run the prompts) and
``decode`` one more token of every rollout. They are made of the functions that a run
calls, with :class:`jax.ShapeDtypeStruct` and shardings in place of arrays: no weight is
made or read, and every prompt and response is as long as the configuration lets it be.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError
from passk_jax.learning import learner
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Cache, Policy
from passk_jax.models.transformer import Prefix
from passk_jax.planning.flops import decode_flops, model_flops
from passk_jax.sampling import distribution, sampler
from passk_jax.sampling.scheduled.state import PREFIX_AXES
from passk_jax.types import Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Program:
    """A jitted function and the shapes that it is called with.

    Attributes:
        name: one of :data:`PROGRAMS`.
        function: jitted; what it may overwrite is donated.
        arguments: ``ShapeDtypeStruct`` with shardings.
        mesh: that these are of.
        resident: bytes a device holds all the while besides the arguments: the parts
            of the training state that the program does not take.
        useful_flops: what its mathematics needs, over all devices.
        num_tokens: response tokens that it works on; of ``prefill``, prompt tokens.
    """

    name: str
    function: Any
    arguments: tuple[Any, ...]
    mesh: Mesh | AbstractMesh
    resident: float
    useful_flops: float
    num_tokens: int


def abstract_mesh(sizes: Mapping[str, int]) -> AbstractMesh:
    """A mesh of no devices: good for shapes and shardings."""
    types = (AxisType.Auto,) * len(sizes)
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=types)


def tree_bytes(tree: Any) -> float:
    """Bytes of a tree of shapes, over all devices."""
    return float(sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree)))


def shard_bytes(tree: Any) -> float:
    """Bytes of a tree of shapes with shardings on one device."""
    shards = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.sharding.shard_shape(x.shape), x.dtype), tree
    )
    return tree_bytes(shards)


@dataclasses.dataclass(frozen=True)
class Builder:
    """Makes the programs of a configuration.

    Attributes:
        config: the experiment.
        policy: its policy.
        mesh: its devices, or an abstract mesh: good for shapes alone.
    """

    config: ExperimentConfig
    policy: Policy
    mesh: Mesh | AbstractMesh

    def build(self, name: str) -> Program:
        """The program of this name.

        Raises:
            ValueError: there is none.
        """
        if name not in PROGRAMS:
            raise InputError(f'program {name!r} is none of {list(PROGRAMS)}')
        return PROGRAMS[name](self)

    def changed(self, overrides: Mapping[str, Any]) -> 'Builder':
        """The same experiment with other values, on an abstract mesh.

        Args:
            overrides: dotted key (``'mesh.fsdp'``) -> value; nothing is checked.
        """
        config, sizes = self.config, dict(self.mesh.shape)
        for key, value in overrides.items():
            section, _, name = key.partition('.')
            part = dataclasses.replace(getattr(config, section), **{name: value})
            config = dataclasses.replace(config, **{section: part})
            if section == 'mesh':
                sizes[name] = value
        arch = dataclasses.replace(self.policy.arch, remat=config.model.remat)
        policy = Policy(arch, config.model.head_chunk_tokens)
        return Builder(config, policy, abstract_mesh(sizes))

    def state(self) -> learner.TrainState:
        """The training state."""
        optimizer = learner.make_optimizer(self.config.optimizer)
        return learner.state_shapes(self.policy, optimizer, self.mesh)

    def reference(self) -> Any:
        """The parameters of the policy that a KL term refers to, or ``None``."""
        if not self.config.loss.kl_coef:
            return None
        return policies.param_shapes(self.policy, self.mesh)

    def array(
        self, axes: tuple[str | None, ...], shape: tuple[int, ...], dtype: Any
    ) -> jax.ShapeDtypeStruct:
        """The shape of an array with logical axes, split as the rules say."""
        spec = sharding.partition_spec(axes, shape, self.mesh.shape)
        return jax.ShapeDtypeStruct(
            shape, dtype, sharding=NamedSharding(self.mesh, spec)
        )

    def prompts(self) -> Prompts:
        """A step's prompts."""
        P, S = self.config.train.num_prompts, self.config.data.max_prompt_tokens
        return Prompts(
            tokens=self.array(('batch', None), (P, S), jnp.int32),
            lengths=self.array(('batch',), (P,), jnp.int32),
            problem_ids=self.array(('batch',), (P,), jnp.int32),
        )

    def by_rollout(self, dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        """An array with the rollouts of a step in front."""
        lead = (self.config.train.num_prompts, self.config.sampling.num_rollouts)
        axes = ('batch', 'rollouts', *(None,) * len(shape))
        return self.array(axes, (*lead, *shape), dtype)

    def rollouts(self) -> Rollouts:
        """A step's rollouts."""
        T = self.config.sampling.max_response_tokens
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
        """What a function gives, split as its own last constraints say.

        Raises:
            ValueError: an array is not constrained; scalars need not be.
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
                raise InputError(f'{function} does not say where {x} lies')
            spec = specs[variable] if x.ndim else PartitionSpec()
            sharding_of_x = NamedSharding(self.mesh, spec)
            placed.append(
                jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding_of_x)
            )
        return jax.tree.unflatten(tree, placed)

    def decoding_weights(self) -> policies.Params:
        """The weights that sampling reads."""
        params = policies.param_shapes(self.policy, self.mesh)
        return self.constrained(
            lambda params: policies.for_decoding(self.policy, params), params
        )

    def rows(self) -> tuple[int, int]:
        """Problems and rollouts of each that are decoded at one time, to begin with.

        Raises:
            ValueError: ``sampling.max_cache_bytes`` is too small.
        """
        config = self.config
        P, N = config.train.num_prompts, config.sampling.num_rollouts
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            work, first = sampler.at_one_time(
                self.policy.arch,
                num_prompts=P,
                num_rollouts=N,
                prompt_tokens=config.data.max_prompt_tokens,
                max_response_tokens=config.sampling.max_response_tokens,
                max_cache_bytes=config.sampling.max_cache_bytes,
            )
        return P // work.problems * first.slots, N // work.rollouts * first.rows

    def cache(self) -> Cache:
        """The keys and values of the responses that are decoded at one time."""
        G, K = self.rows()
        return self.constrained(
            lambda: policies.empty_cache(
                self.policy,
                num_prompts=G,
                num_rollouts=K,
                # The last token a response may have is never run.
                num_tokens=self.config.sampling.max_response_tokens - 1,
            )
        )

    def prefix(self, num_prompts: int) -> Prefix:
        """The keys and values of so many prompts."""
        arch, S = self.policy.arch, self.config.data.max_prompt_tokens
        lead = (num_prompts, arch.num_kv_heads)
        keys, values = (
            self.array(PREFIX_AXES, (*lead, *rest), jnp.dtype(arch.dtype))
            for rest in ((arch.head_dim, S), (S, arch.head_dim))
        )
        lengths = self.array(('batch',), (num_prompts,), jnp.int32)
        return Prefix((KeyValues(keys, values),) * arch.num_layers, lengths)

    def forward_flops(self) -> float:
        """Of one pass over a step's prompts and responses."""
        config = self.config
        return model_flops(
            self.policy.arch,
            num_prompts=config.train.num_prompts,
            num_rollouts=config.sampling.num_rollouts,
            prompt_tokens=config.data.max_prompt_tokens,
            response_tokens=config.sampling.max_response_tokens,
        )


def _train(builder: Builder) -> Program:
    train, loss = builder.config.train, builder.config.loss
    num_updates = train.num_prompts // train.mini_batch_prompts
    reference = builder.reference()
    step = learner.make_train_step(
        builder.policy,
        learner.make_optimizer(builder.config.optimizer),
        builder.mesh,
        loss=loss,
        temperature=builder.config.sampling.temperature,
        num_updates=num_updates,
        num_micro_batches=train.mini_batch_prompts // train.micro_batch_prompts,
        pack_sizes=train.pack_sizes,
    )
    advantages = builder.by_rollout(jnp.float32)
    # Forward and backward once, and forward for the old figures of all mini-batches but
    # the first and for the reference's. No response is short, so that packing, if it is
    # asked for, saves nothing.
    passes = 4 - 1 / num_updates + (reference is not None)
    return Program(
        'train',
        step,
        (builder.state(), builder.rollouts(), advantages, reference),
        builder.mesh,
        0.0,
        passes * builder.forward_flops(),
        math.prod(builder.rollouts().tokens.shape),
    )


def _score(builder: Builder) -> Program:
    train = builder.config.train
    parts = train.num_prompts // train.micro_batch_prompts

    def log_probs(params: Any, rollouts: Rollouts) -> jax.Array:
        return policies.token_log_probs(
            builder.policy,
            params,
            rollouts.prompts,
            rollouts.tokens,
            temperature=builder.config.sampling.temperature,
        )[0]

    def score(params: Any, rollouts: Rollouts) -> jax.Array:
        mapped = learner.interleave(rollouts, parts)
        return learner.deinterleave(
            jax.lax.map(lambda part: log_probs(params, part), mapped)
        )

    state = builder.state()
    return Program(
        'score',
        jax.jit(score),
        (state.params, builder.rollouts()),
        builder.mesh,
        shard_bytes(state.opt_state) + shard_bytes(builder.reference()),
        builder.forward_flops(),
        math.prod(builder.rollouts().tokens.shape),
    )


def _prefill(builder: Builder) -> Program:
    def prefill(params: Any, prompts: Prompts) -> Any:
        weights = policies.for_decoding(builder.policy, params)
        return weights, policies.prefill(builder.policy, weights, prompts)

    state, config = builder.state(), builder.config
    P, S = config.train.num_prompts, config.data.max_prompt_tokens
    useful = model_flops(
        builder.policy.arch,
        num_prompts=P,
        num_rollouts=0,
        prompt_tokens=S,
        response_tokens=0,
    )
    return Program(
        'prefill',
        jax.jit(prefill),
        (state.params, builder.prompts()),
        builder.mesh,
        shard_bytes(state.opt_state) + shard_bytes(builder.reference()),
        useful,
        P * S,
    )


def _decode(builder: Builder) -> Program:
    sampling = builder.config.sampling

    def decode(weights, prefix, cache, tokens, uniforms, options):
        hidden, cache = policies.decode(builder.policy, weights, tokens, prefix, cache)
        scores = policies.logits(builder.policy, weights, hidden)
        choice = distribution.choose(
            scores,
            uniforms,
            options,
            greedy=sampling.greedy,
            truncate=sampling.truncates,
        )
        return choice, cache

    scalar = sharding.replicated(builder.mesh)
    options = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((), x.dtype, sharding=scalar),
        distribution.traced_options(sampling.options, vocab_size=1),
    )
    G, K = builder.rows()
    P = builder.config.train.num_prompts
    resident = (builder.state(), builder.reference(), builder.rollouts())
    if P * sampling.num_rollouts > G * K:
        # Others wait, and their prompts with them.
        resident = (*resident, builder.prefix(P))
    # Every slot of the cache is looked at, whatever is in it.
    context = builder.config.data.max_prompt_tokens
    context += max(sampling.max_response_tokens - 1, 1)
    return Program(
        'decode',
        jax.jit(decode, donate_argnums=2),
        (
            builder.decoding_weights(),
            builder.prefix(G),
            builder.cache(),
            builder.array(('batch', 'rollouts'), (G, K), jnp.int32),
            builder.array(('batch', 'rollouts', None), (G, K, 2), jnp.float32),
            options,
        ),
        builder.mesh,
        # The rollouts so far are there too, as many bytes as the learner will take.
        shard_bytes(resident),
        decode_flops(builder.policy.arch, sequences=G * K, context_tokens=context),
        G * K,
    )


PROGRAMS: Mapping[str, Callable[[Builder], Program]] = {
    'train': _train,
    'score': _score,
    'prefill': _prefill,
    'decode': _decode,
}
