"""Random keys by address: a draw depends on its purpose, not on earlier draws.

A key is ``fold_in`` of (seed, purpose and stage, split, step), then of (problem,
rollout, position). No state passes from one draw to the next. So a run that resumes, or
has another mesh, batch order or micro-batch, makes the same draws. Draws at different
addresses share no noise.
"""

import dataclasses
import enum
import zlib

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float, Int, Key

from passk_jax.errors import InputError

# Only this generator gives per-row keys under vmap the same bits in any batch and on
# any mesh; 'rbg', for one, draws differently in another batch.
_GENERATOR = 'threefry2x32'


class Purpose(enum.IntEnum):
    """What a draw is for, at most 256 members.

    Only append members: a new number for an old one changes past runs.
    """

    PARAMETERS = 0
    WARM_START = 1
    ROLLOUTS = 2
    EVALUATION = 3
    GROUPS = 4
    REWARD_NOISE = 5
    EXTRA_PROBLEMS = 6


def address_purpose(purpose: Purpose, stage: int) -> int:
    """Packs a purpose and a stage into one part of an address.

    In the first stage, 0, it is the purpose alone.

    Raises:
        ValueError: the purpose is unknown, or the stage is not in [0, 2**24).
    """
    if not 0 <= stage < 2**24:
        raise InputError(f'{stage=} must be in [0, 2**24)')
    return stage << 8 | Purpose(purpose)


def step_key(
    *, seed: int, purpose: Purpose, step: int, stage: int = 0, split: str = ''
) -> Key[Array, '']:
    """Returns the key of every draw that one purpose makes in one step.

    Args:
        seed, step: the experiment's seed and the step, each in [0, 2**32).
        purpose: what the draws are for.
        stage: the number of training stages before this one, in [0, 2**24).
        split: the problems' split, where one purpose draws for several splits. Their
            problem ids may coincide.

    Raises:
        ValueError: a number is out of range, or the purpose is unknown.
    """
    for name, value in (('seed', seed), ('step', step)):
        if not 0 <= value < 2**32:
            raise InputError(f'{name}={value} must be in [0, 2**32)')
    parts = [seed, address_purpose(purpose, stage), zlib.crc32(split.encode()), step]
    # Allow these four numbers to reach the device from a guarded training loop.
    with jax.transfer_guard_host_to_device('allow'):
        return _fold_address(np.asarray(parts, np.uint32))


@dataclasses.dataclass(frozen=True)
class RunKeys:
    """The random keys of a training stage, the first of which has the number 0."""

    seed: int
    stage: int

    def key(self, purpose: Purpose, step: int, *, split: str = '') -> Key[Array, '']:
        """Returns :func:`step_key` with this seed and stage."""
        return step_key(
            seed=self.seed, stage=self.stage, purpose=purpose, step=step, split=split
        )

    def order(self, purpose: Purpose) -> tuple[int, int]:
        """Returns the seed of the order in which a purpose takes its problems."""
        return self.seed, address_purpose(purpose, self.stage)


@jax.jit
def _fold_address(address: jax.Array) -> jax.Array:
    key = jax.random.key(address[0], impl=_GENERATOR)
    for part in address[1:]:
        key = jax.random.fold_in(key, part)
    return key


def problem_keys(
    key: Key[Array, ''], problem_ids: Int[Array, ' P']
) -> Key[Array, ' P']:
    """Returns one key per problem, which does not depend on the rest of the batch."""
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, problem_ids)


def rollout_keys(
    key: Key[Array, ''], problem_ids: Int[Array, ' P'], *, num_rollouts: int
) -> Key[Array, 'P N']:
    """Returns one key per rollout; a larger ``num_rollouts`` only appends keys."""
    per_rollout = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    return jax.vmap(per_rollout, in_axes=(0, None))(
        problem_keys(key, problem_ids), jnp.arange(num_rollouts)
    )


def position_uniforms(
    keys: Key[Array, 'P N'], positions: Int[Array, '#P #N']
) -> Float[Array, 'P N 2']:
    """Draws two uniforms in [0, 1) for each rollout's token at its position."""

    def uniforms(key: jax.Array, position: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.fold_in(key, position), (2,), jnp.float32)

    positions = jnp.broadcast_to(positions, keys.shape)
    return jax.vmap(jax.vmap(uniforms))(keys, positions)
