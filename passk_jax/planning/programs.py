"""The programs of a run, with shapes for arguments.

* ``train`` is the learner's step; ``score`` is its pass for log-probabilities alone.
* Sampling has three: ``weights`` casts and gathers the weights, ``prefill`` runs the
  prompts, and ``decode`` generates tokens in a loop (decoding.py).
* ``diagnose`` compares gradients, if ``log.diagnostics_every`` is set.
* ``pictures`` reads the pictures once per step, if the policy has a frozen tower. A
  trained tower runs in the other programs.

The programs call a run's functions on :class:`jax.ShapeDtypeStruct` with shardings
instead of arrays, so planning neither makes nor reads weights. Every prompt and
response is as long as the configuration allows.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import AbstractMesh, Mesh

from passk_jax.diagnostics.step import Diagnose
from passk_jax.errors import InputError
from passk_jax.learning import rollout_parts
from passk_jax.learning.packing import deinterleave, interleave
from passk_jax.models import moved_weights
from passk_jax.models import policy as policies
from passk_jax.models.frozen import picture_features, reads_once
from passk_jax.planning import decoding
from passk_jax.planning.builder import Builder, shard_bytes
from passk_jax.planning.flops import decode_flops, train_passes
from passk_jax.sampling.scheduled import device
from passk_jax.types import Rollouts


@dataclasses.dataclass(frozen=True)
class Program:
    """A jitted function and the shapes that it is called with.

    Attributes:
        name: one of :data:`PROGRAMS` or :data:`PICTURES`.
        function: the jitted function, with the donations of a run.
        arguments: ``ShapeDtypeStruct`` with shardings.
        mesh: the mesh of the program and its results.
        resident: bytes that a device holds besides the arguments while the program
            runs, such as other parts of the training state.
        useful_flops: FLOPs that its mathematics needs, over all devices.
        num_tokens: response tokens it works on; for ``prefill``, prompt tokens.
        loop_steps: 0, or the steps in an iteration of the program's loop of unknown
            length. Then FLOPs, tokens and costs are those of one step.
        options: compiler options for this program.
    """

    name: str
    function: Any
    arguments: tuple[Any, ...]
    mesh: Mesh | AbstractMesh
    resident: float
    useful_flops: float
    num_tokens: int
    loop_steps: int = 0
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)


def build(builder: Builder, name: str) -> Program:
    """Makes the program of a name in :data:`PROGRAMS`, or :data:`PICTURES`.

    Raises:
        InputError: the policy does not read pictures once a step.
    """
    return (_pictures if name == PICTURES else PROGRAMS[name])(builder)


def _train(builder: Builder) -> Program:
    train, reference = builder.train, builder.reference()
    update = builder.update()
    rollouts, advantages = builder.rollouts(), builder.shape_by_rollout(jnp.float32)
    # All responses have full length, so packing saves nothing.
    passes = train_passes(
        train.num_prompts,
        num_updates=update.num_updates,
        epochs=train.epochs,
        reference=reference is not None,
        adapters=builder.policy.arch.lora is not None,
    )
    return Program(
        'train',
        update.program,
        (builder.state(), rollouts, advantages, reference, builder.weights().frozen),
        builder.mesh,
        0.0,
        float(passes.mean()) * builder.forward_flops(),
        math.prod(rollouts.tokens.shape),
        options=update.compiler_options,
    )


def _score(builder: Builder) -> Program:
    policy, temperature = builder.policy, builder.sampling.temperature
    parts = builder.train.rollout_parts(builder.sampling.num_rollouts)
    passes = builder.train.num_prompts // builder.train.micro_batch_prompts * parts

    def score(params: Any, rollouts: Rollouts) -> jax.Array:
        def log_probs(part: Rollouts) -> jax.Array:
            inputs = (policy, params, part.prompts, part.tokens, None, part.routing)
            return policies.token_log_probs(*inputs, temperature=temperature)[0]

        rows = rollout_parts.split(rollouts, parts=parts)
        mapped = jax.lax.map(log_probs, interleave(rows, passes))
        return rollout_parts.join(deinterleave(mapped), parts=parts)

    state = builder.state()
    return Program(
        'score',
        jax.jit(score),
        (builder.weights().merged, builder.rollouts()),
        builder.mesh,
        shard_bytes((state.opt_state, builder.reference())),
        builder.forward_flops(),
        math.prod(builder.rollouts().tokens.shape),
    )


def _weights(builder: Builder) -> Program:
    state, policy, mesh = builder.state(), builder.policy, builder.sampling_run.mesh
    prepare = jax.jit(functools.partial(policies.prepare_decoding, policy))
    moving, staying = builder.weights().merged, {}
    if mesh != builder.mesh:
        prepare = moved_weights.move_program(policy, mesh)
        moving, staying = moved_weights.split(policy, moving)
    resident = state.opt_state, builder.reference(), builder.prompts(), staying
    return Program('weights', prepare, (moving,), mesh, shard_bytes(resident), 0.0, 0)


def _prefill(builder: Builder) -> Program:
    of_sampling = builder.sampling_run
    prompts, (G, _) = of_sampling.prompts(), of_sampling.rows()
    P, S = prompts.tokens.shape
    arguments = (
        of_sampling.decoding_weights(),
        prompts,
        decoding.key_shape(of_sampling),
    )
    run = functools.partial(device.prefill, builder.policy)
    if G < P:
        # The prompts of the first slots; others run as slots become free.
        work, first = of_sampling.fit_grid()
        run = functools.partial(run, count=first.slots)
        arguments += (of_sampling.array(('batch',), (P // work.problems,), jnp.int32),)
    return Program(
        'prefill',
        jax.jit(run),
        arguments,
        of_sampling.mesh,
        shard_bytes((builder.state(), builder.reference(), builder.weights().frozen)),
        builder.forward_flops(responses=False) * G / P,
        G * S,
    )


def _decode(builder: Builder) -> Program:
    of_sampling = builder.sampling_run
    call, (G, K) = decoding.call(of_sampling), of_sampling.rows()
    params = builder.state(), builder.reference(), builder.weights().frozen
    resident = params, of_sampling.prompts(), call.resident
    # Attention reads every slot of the cache, filled or not.
    context = builder.data.max_prompt_tokens
    context += max(builder.sampling.max_response_tokens - 1, 1)
    return Program(
        'decode',
        call.function,
        call.arguments,
        of_sampling.mesh,
        shard_bytes(resident),
        decode_flops(builder.policy.arch, sequences=G * K, context_tokens=context),
        G * K,
        loop_steps=call.steps,
    )


def make_diagnose(builder: Builder) -> Diagnose:
    """Makes the verb *diagnose*."""
    return Diagnose.configured(
        builder.policy,
        builder.mesh,
        advantage=builder.advantage,
        loss=builder.loss,
        train=builder.train,
        sampling=builder.sampling,
        log=builder.log,
    )


def _diagnose(builder: Builder) -> Program:
    diagnose = make_diagnose(builder)
    rollouts, state = builder.rollouts(), builder.state()
    advantages, rewarded = map(builder.shape_by_rollout, (jnp.float32, jnp.bool_))
    # A forward pass, and a backward pass, which counts two, for each gradient.
    passes = 1 + 2 * diagnose.num_gradients
    return Program(
        'diagnose',
        diagnose.program,
        (state.params, rollouts, advantages, rewarded, builder.weights().frozen),
        builder.mesh,
        shard_bytes((state.opt_state, builder.reference())),
        passes * builder.forward_flops(),
        math.prod(rollouts.tokens.shape),
    )


def _pictures(builder: Builder) -> Program:
    policy, state = builder.policy, builder.state()
    if not reads_once(policy):
        raise InputError(
            f'program {PICTURES!r} is of policies with a frozen tower that reads '
            'pictures, and this one has none'
        )
    return Program(
        PICTURES,
        jax.jit(functools.partial(picture_features, policy)),
        (builder.weights().merged, builder.images()),
        builder.mesh,
        shard_bytes((state.opt_state, builder.reference())),
        builder.picture_flops(),
        math.prod(builder.prompts().tokens.shape),
    )


PICTURES = 'pictures'
"""The program of a frozen tower."""
PROGRAMS: Mapping[str, Callable[[Builder], Program]] = {
    'train': _train,
    'score': _score,
    'weights': _weights,
    'prefill': _prefill,
    'decode': _decode,
    'diagnose': _diagnose,
}
