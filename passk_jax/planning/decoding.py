"""The program with which sampling decodes, as a call with shapes.

:func:`passk_jax.sampling.sample` decodes with one of two programs: the schedule's
``advance`` or the plain loop. :func:`call` asks the sampler which one, and makes its
arguments. Both loop until the responses end, so a decode step costs one run of the
loop's body.
"""

import dataclasses
import functools
from typing import Any

import jax
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.planning.builder import Builder, Shapes
from passk_jax.sampling import Purpose, plain_loop, sampler, step_key
from passk_jax.sampling.plain_loop import Request
from passk_jax.sampling.scheduled import device
from passk_jax.sampling.scheduled.cost import Account, open_account
from passk_jax.sampling.scheduled.device import Decoder, StopWhen
from passk_jax.sampling.scheduled.state import ROW_AXES, Slots, State


@dataclasses.dataclass(frozen=True)
class Call:
    """The call of a jitted function, with shapes for arguments.

    An iteration of its loop makes ``steps`` tokens of every row. ``resident`` has the
    shapes of arrays that sampling keeps on the devices besides the arguments.
    """

    function: Any
    arguments: tuple[Any, ...]
    steps: int
    resident: Any


def call(builder: Builder) -> Call:
    """Makes the call that decodes the rollouts of a step."""
    weights, request = builder.decoding_weights(), _request(builder)
    if is_scheduled(builder):
        return _scheduled(builder, weights, request)
    decode = jax.jit(functools.partial(plain_loop.sample, builder.policy))
    arguments = (weights, builder.prompts(), key_shape(builder), request)
    return Call(decode, arguments, 1, ())


def is_scheduled(builder: Builder) -> bool:
    """Returns whether sampling runs the schedule, whose cache is an argument."""
    builder = builder.sampling_run
    work, first = builder.fit_grid()
    account, request = account_of(builder), _request(builder)
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        return sampler.schedules(
            account, work, first, num_prompts=builder.train.num_prompts, request=request
        )


def account_of(builder: Builder) -> Account:
    """Opens the account of sampling a step."""
    with jax.sharding.use_abstract_mesh(builder.mesh.abstract_mesh):
        weights = builder.decoding_weights()
        return open_account(builder.policy.arch, weights, builder.platform)


def key_shape(builder: Builder, *axes: str, size: int = 1) -> jax.ShapeDtypeStruct:
    """Makes the shape of a random key, or of ``size`` keys along a logical axis."""
    key = jax.eval_shape(lambda: step_key(seed=0, purpose=Purpose.ROLLOUTS, step=0))
    return builder.array(axes, (size,) * len(axes), key.dtype)


def _request(builder: Builder) -> Request:
    request = plain_loop.checked_request(
        builder.policy,
        num_rollouts=builder.sampling.num_rollouts,
        max_response_tokens=builder.sampling.max_response_tokens,
        options=builder.sampling.options,
        stop_tokens=(),
    )
    return _replicated(builder, request)


def _replicated(builder: Builder, tree: Any) -> Any:
    """Makes the shapes of arrays from the host, replicated on every device."""
    where = sharding.replicated(builder.mesh)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), tree
    )


def _scheduled(builder: Builder, weights: Shapes, request: Request) -> Call:
    P, (G, _) = builder.train.num_prompts, builder.rows()
    work, first = builder.fit_grid()
    stride = account_of(builder).pace.stride
    decoder = Decoder(builder.policy, stride, weights, request)
    scalar = jnp.zeros((), jnp.int32)
    unstarted = jnp.zeros(P // work.problems, bool)
    stop = _replicated(builder, jax.eval_shape(lambda: (scalar, unstarted, scalar)))
    # If not every problem has a slot, the next window of prompts is in memory too.
    window = P // work.problems * work.window(first)
    waiting = slots(builder, window) if window else ()
    arguments = (decoder, slots(builder, G), state(builder), StopWhen(*stop))
    return Call(device.advance, arguments, stride, waiting)


def slots(builder: Builder, num_slots: int) -> Slots[jax.ShapeDtypeStruct]:
    """Makes the shapes of the problems in ``num_slots`` slots."""
    arch = builder.policy.arch
    return Slots(
        problem=builder.array(('batch',), (num_slots,), jnp.int32),
        keys=key_shape(builder, 'batch', size=num_slots),
        hidden=builder.array(
            ('batch', None), (num_slots, arch.embed_dim), jnp.dtype(arch.dtype)
        ),
        prefix=builder.prefix(num_slots),
    )


def state(builder: Builder) -> State[jax.ShapeDtypeStruct]:
    """Makes the shapes of the decoding state, with the longest ring."""
    G, K = builder.rows()
    work, _ = builder.fit_grid()
    shards = builder.sampling.num_rollouts // work.rollouts
    by_row = builder.array(ROW_AXES, (G, K), jnp.int32)
    scalar = builder.array((), (), jnp.int32)
    return State(
        rollout=by_row,
        position=by_row,
        last=by_row,
        waiting=builder.array((*ROW_AXES, None), (G, shards, 2), jnp.int32),
        layers=builder.cache().layers,
        index=scalar,
        record=builder.record(),
        steps=scalar,
    )
