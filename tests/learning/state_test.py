"""The state that training changes; what an update makes of it is in update_test.py."""

import jax
import numpy as np

from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from tests.learning.update_test import (
    OPTIMIZER,
    begin,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    make_step,
)


def test_optimizer_state_is_sharded_like_its_parameters():
    mesh, policy = make_mesh(2, 2, 2), make_policy()
    shapes = states.state_shapes(policy, optimizers.make_optimizer(OPTIMIZER), mesh)
    moments = {
        jax.tree_util.keystr(path, simple=True, separator='.'): leaf
        for path, leaf in jax.tree.leaves_with_path(shapes.opt_state)
    }
    for name, param in shapes.params.items():
        same = [leaf for path, leaf in moments.items() if path.endswith('.' + name)]
        assert len(same) == 2, name
        assert all(leaf.sharding == param.sharding for leaf in same), name


def test_a_new_optimizer_changes_neither_parameters_nor_the_step():
    mesh, policy = make_mesh(), make_policy()
    optimizer = optimizers.make_optimizer(OPTIMIZER)
    with jax.set_mesh(mesh):
        fresh = jax.device_get(begin(mesh))
        trained, _ = make_step(mesh)(begin(mesh), make_rollouts(), make_advantages())
        params = jax.device_get(trained.params)
        again = states.reset_optimizer(policy, optimizer, trained, mesh)
    assert int(again.step) == 1
    jax.tree.map(np.testing.assert_array_equal, params, again.params)
    jax.tree.map(np.testing.assert_array_equal, fresh.opt_state, again.opt_state)
