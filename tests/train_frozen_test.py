"""A run some of whose parameters are frozen, from its warm start to its checkpoints."""

import jax
import numpy as np
import pytest

from passk_jax.initial import params as initial
from passk_jax.report.run_log import RunLog
from passk_jax.runs import restoring
from tests import tiny
from tests.train_resume_test import Killed, kill_at

FROZEN = frozenset({'embed.embedding', 'layers.attention.query.kernel'})
LAST = 3


@pytest.fixture(scope='module')
def run():
    """Runs a configuration with these parameters frozen, and a reference."""

    def run(workdir):
        settings = {'train__steps': LAST, 'loss__kl_coef': 0.01}
        config = tiny.make_config(**settings, model__frozen=tuple(sorted(FROZEN)))
        return tiny.run(config, workdir)

    return run


@pytest.fixture(scope='module')
def finished(run, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('frozen')
    assert run(workdir)
    return workdir


@pytest.mark.slow
def test_checkpoints_hold_what_is_trained_and_nothing_else(finished):
    setup = tiny.make_setup(tiny.make_config())
    names = initial.policies.param_shapes(setup.policy, setup.mesh).keys()
    arrays = tiny.saved_arrays(finished, LAST)
    params = {name.removeprefix('params/') for name in arrays if 'params/' in name}
    assert params == names - FROZEN
    assert not [name for name in arrays if name.endswith(tuple(FROZEN))]
    commit = finished / 'checkpoints' / str(LAST) / 'commit.json'
    assert not any(name in commit.read_text() for name in FROZEN)
    assert 'layers.mlp.up.kernel' in commit.read_text()


def test_a_warm_start_leaves_them_too(finished):
    """It is kept with them, because a run that goes on begins with them again."""
    config = tiny.make_config()
    setup = tiny.make_setup(config)
    first = initial.random_params(setup.policy, setup.mesh, seed=config.seed)
    with jax.set_mesh(setup.mesh):
        shapes = initial.policies.param_shapes(setup.policy, setup.mesh)
        path = finished / 'warm_start' / '0'
        saved = restoring.restore(path, {'params': shapes})[1]['params']
    for name, x in first.items():
        assert (np.asarray(saved[name]) == np.asarray(x)).all() == (name in FROZEN)


def test_sampler_and_learner_are_one_policy(finished):
    for line in tiny.metrics(finished, 'train'):
        assert line['sampler_gap_max'] < 1e-4
        assert np.isfinite(line['loss'])


def test_interrupted_it_ends_the_same(run, finished, tmp_path):
    tiny.warm_copy(finished, tmp_path)
    with pytest.raises(Killed), kill_at(RunLog, 'step', 3):
        run(tmp_path)
    assert run(tmp_path)
    tiny.assert_same_run(tmp_path, finished, last=LAST)
