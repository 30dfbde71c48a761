"""Arrays reach the disk as Orbax writes them."""

import jax
import numpy as np
import pytest

from passk_jax.runs import checkpoints as checkpoint
from tests.runs import states


def test_replicas_share_the_writing_of_large_arrays_only(tmp_path, caplog):
    """Each part that a replica writes is cut by a program of its own."""
    params = {
        'large': np.arange(2**19, dtype=np.float32).reshape(2, -1),
        'small': np.arange(64, dtype=np.float32).reshape(8, 8),
    }
    placed = jax.device_put(params, states.sharding(2))
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=1)
    jax.clear_caches()
    with jax.log_compiles(), caplog.at_level('WARNING'):
        checkpoints.save(1, params=placed, opt_state={}, meta={})
        checkpoints.wait()
    compiled = [
        r.message for r in caplog.records if 'Compiling jit(slice)' in r.message
    ]
    assert len(compiled) == 2
    assert all('float32[2,262144]' in message for message in compiled)
    states.assert_same(checkpoints.restore(params=placed, opt_state={}).params, params)


def test_a_state_that_is_not_arrays_is_refused_by_path(tmp_path):
    with pytest.raises(ValueError, match=r"not arrays: \['a.b'\]"):
        checkpoint.Checkpoints(tmp_path, keep=1).save(
            0, params={'a': {'b': 1.0}}, opt_state={}, meta={}
        )
