"""States to checkpoint, and what tests of checkpoints ask of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from passk_jax.runs.checkpoints import Checkpoints

META = {'seed': 3, 'name': 'a'}


def state(seed=0):
    a, b = jax.random.split(jax.random.key(seed))
    params = {
        'layers': [{'kernel': jax.random.normal(a, (8, 16))}],
        'head': jax.random.normal(b, (16, 8)).astype(jnp.bfloat16),
    }
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    opt_state = optimizer.init(params)
    _, opt_state = optimizer.update(params, opt_state, params)
    return {'params': params, 'opt_state': opt_state}


def target(state, sharding=None):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state
    )


def sharding(num_devices, *names):
    mesh = jax.make_mesh(
        (num_devices,),
        ('fsdp',),
        axis_types=(AxisType.Auto,),
        devices=jax.devices()[:num_devices],
    )
    return NamedSharding(mesh, PartitionSpec(*names))


def assert_same(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for left, right in zip(
        jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True
    ):
        assert left.dtype == right.dtype
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


def saved(directory, *steps, keep=5):
    checkpoints = Checkpoints(directory, keep=keep)
    for step in steps:
        checkpoints.save(step, **state(step), meta=META | {'step': step})
    checkpoints.wait()
    return checkpoints


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
