"""The programs of a run as shapes: what a configuration will ask of each device.

``train`` is the learner's whole step, ``score`` its pass for log-probabilities alone,
``prefill`` what sampling does first (make the weights it reads, run the prompts) and
``decode`` one more token of every rollout. They are made of the functions that a run
calls, with :class:`jax.ShapeDtypeStruct` and shardings in place of arrays: no weight is
made or read, and every prompt and response is as long as the configuration lets it be.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding

from passk_jax import learner, sharding
from passk_jax.config import ExperimentConfig
from passk_jax.models import policy as policies
from passk_jax.models.policy import Cache, Policy
from passk_jax.models.published import PUBLISHED
from passk_jax.planning.flops import decode_flops, model_flops
from passk_jax.sampling import distribution
from passk_jax.types import Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Program:
    """A jitted function and the shapes that it is called with.

    Attributes:
        name: one of :data:`PROGRAMS`.
        function: jitted; what it may overwrite is donated.
        arguments: ``ShapeDtypeStruct`` with shardings.
        resident: bytes a device holds all the while besides the arguments: the parts
            of the training state that the program does not take.
        useful_flops: what its mathematics needs, over all devices.
        num_tokens: response tokens that it works on; of ``prefill``, prompt tokens.
    """

    name: str
    function: Any
    arguments: tuple[Any, ...]
    resident: float
    useful_flops: float
    num_tokens: int


@contextlib.contextmanager
def readable_source(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """The configuration with a ``model.source`` whose ``config.json`` can be read here.

    A published model that is no directory here is described by published.py instead
    of the hub, which a plan does not need.
    """
    source = config.model.source
    if source not in PUBLISHED or pathlib.Path(source).expanduser().is_dir():
        yield config
        return
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / 'config.json'
        path.write_text(json.dumps(PUBLISHED[source]))
        model = dataclasses.replace(config.model, source=directory)
        yield dataclasses.replace(config, model=model)


def shard_bytes(tree: Any) -> float:
    """Bytes of a tree of shapes with shardings on one device."""
    return float(
        sum(
            math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
            for x in jax.tree.leaves(tree)
        )
    )


@dataclasses.dataclass(frozen=True)
class Builder:
    """Makes the programs of a configuration; use it under its abstract mesh."""

    config: ExperimentConfig
    policy: Policy
    mesh: Mesh

    def build(self, name: str) -> Program:
        """The program of this name.

        Raises:
            ValueError: there is none.
        """
        if name not in PROGRAMS:
            raise ValueError(f'program {name!r} is none of {list(PROGRAMS)}')
        return PROGRAMS[name](self)

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

    def decoding_weights(self) -> Any:
        """The weights that sampling reads, from :func:`policies.for_decoding`."""
        shapes = jax.eval_shape(
            lambda params: policies.for_decoding(self.policy, params),
            policies.param_shapes(self.policy, self.mesh),
        )
        return {
            name: self.array(
                sharding.gathered(policies.param_axes(name)), x.shape, x.dtype
            )
            for name, x in shapes.items()
        }

    def prefix(self) -> Any:
        """The keys and values of a step's prompts."""
        _, prefix = jax.eval_shape(
            lambda weights, prompts: policies.prefill(self.policy, weights, prompts),
            self.decoding_weights(),
            self.prompts(),
        )
        return jax.tree.map(
            lambda x: self.array(
                ('batch', 'kv_heads', None, None)[: x.ndim], x.shape, x.dtype
            ),
            prefix,
        )

    def cache(self) -> Cache:
        """The keys and values of a step's responses."""
        cache = jax.eval_shape(
            lambda: policies.empty_cache(
                self.policy,
                num_prompts=self.config.train.num_prompts,
                num_rollouts=self.config.sampling.num_rollouts,
                num_tokens=max(self.config.sampling.max_response_tokens - 1, 1),
            )
        )
        axes = ('batch', 'kv_heads', 'rollouts', None, None)
        return jax.tree.map(
            lambda x: self.array(axes[: x.ndim], x.shape, x.dtype), cache
        )

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

    def num_tokens(self) -> int:
        """Response tokens of a step."""
        sampling = self.config.sampling
        return (
            self.config.train.num_prompts
            * sampling.num_rollouts
            * sampling.max_response_tokens
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
    )
    advantages = builder.by_rollout(jnp.float32)
    # Forward and backward once, and forward for the old and the reference's figures.
    passes = 3 + (num_updates > 1) + (reference is not None)
    return Program(
        'train',
        step,
        (builder.state(), builder.rollouts(), advantages, reference),
        0.0,
        passes * builder.forward_flops(),
        builder.num_tokens(),
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
        shard_bytes(state.opt_state) + shard_bytes(builder.reference()),
        builder.forward_flops(),
        builder.num_tokens(),
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
        shard_bytes(state.opt_state) + shard_bytes(builder.reference()),
        useful,
        P * S,
    )


def _decode(builder: Builder) -> Program:
    sampling = builder.config.sampling
    truncate = sampling.top_p < 1 or sampling.top_k > 0
    greedy = sampling.temperature == 0

    def decode(weights, prefix, cache, tokens, uniforms, settings):
        hidden, cache = policies.decode(builder.policy, weights, tokens, prefix, cache)
        scores = policies.logits(builder.policy, weights, hidden)
        choice = distribution.choose(
            scores, uniforms, settings, greedy=greedy, truncate=truncate
        )
        return choice, cache

    scalar = sharding.replicated(builder.mesh)
    settings = distribution.Settings(
        temperature=jax.ShapeDtypeStruct((), jnp.float32, sharding=scalar),
        top_p=jax.ShapeDtypeStruct((), jnp.float32, sharding=scalar),
        top_k=jax.ShapeDtypeStruct((), jnp.int32, sharding=scalar),
    )
    sequences = builder.config.train.num_prompts * sampling.num_rollouts
    # Every slot of the cache is looked at, whatever is in it.
    context = builder.config.data.max_prompt_tokens
    context += max(sampling.max_response_tokens - 1, 1)
    return Program(
        'decode',
        jax.jit(decode, donate_argnums=2),
        (
            builder.decoding_weights(),
            builder.prefix(),
            builder.cache(),
            builder.by_rollout(jnp.int32),
            builder.by_rollout(jnp.float32, 2),
            settings,
        ),
        # The rollouts so far are there too, as many bytes as the learner will take.
        shard_bytes((builder.state(), builder.reference(), builder.rollouts())),
        decode_flops(builder.policy.arch, sequences=sequences, context_tokens=context),
        sequences,
    )


PROGRAMS: Mapping[str, Callable[[Builder], Program]] = {
    'train': _train,
    'score': _score,
    'prefill': _prefill,
    'decode': _decode,
}
