"""Where a run runs changes nothing but the last bits of its figures."""

import math
from unittest import mock

import numpy as np
import pytest

from tests import tiny

MESHES = {'one': (1, 1, 1), 'all': (2, 2, 2)}
STEPS = 3


def run(workdir, mesh):
    config = tiny.make_config(
        mesh__data=mesh[0],
        mesh__fsdp=mesh[1],
        mesh__tensor=mesh[2],
        train__steps=STEPS,
        # A prompt for each device.
        train__micro_batch_prompts=8,
        # A memory that the host has, beside one that the devices have.
        train__follow_difficulty=0.9,
        advantage__name='curverl',
        eval__batch_size=8,
        log__rollouts_every=1,
    )
    return tiny.run(config, workdir, num_devices=math.prod(mesh))


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """The directory of a whole run on each mesh, its own warm start included."""
    directories = {name: tmp_path_factory.mktemp(name) for name in MESHES}
    for name, mesh in MESHES.items():
        assert run(directories[name], mesh)
    return directories


def assert_close(a, b):
    """The same lines with the same values, and the same responses to the letter."""
    rows, others = (tiny.read_lines(path / 'metrics.jsonl') for path in (a, b))
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        assert row.keys() == other.keys()
        where = f'step {row["step"]} of {row["split"]}'
        for name, value in row.items():
            if name != 'split':
                assert value == pytest.approx(other[name], rel=1e-4, abs=1e-5), (
                    f'{name} of {where}'
                )
    for step in range(STEPS):
        name = f'rollouts/step_{step:08d}.jsonl'
        texts = ([r['response'] for r in tiny.read_lines(p / name)] for p in (a, b))
        assert next(texts) == next(texts)
    arrays, others = tiny.saved_arrays(a, STEPS), tiny.saved_arrays(b, STEPS)
    for name, array in arrays.items():
        np.testing.assert_allclose(array, others[name], atol=1e-4, err_msg=name)


def test_the_mesh_changes_no_sample_and_no_figure(runs):
    assert_close(runs['one'], runs['all'])


@pytest.mark.parametrize(('before', 'after'), [('one', 'all'), ('all', 'one')])
def test_a_run_goes_on_on_another_mesh(before, after, runs, tmp_path):
    workdir = tiny.warm_copy(runs[before], tmp_path)
    with mock.patch(
        'passk_jax.train.PreemptionGuard.requested', lambda self, step: step == 2
    ):
        assert not run(workdir, MESHES[before])
    assert run(workdir, MESHES[after])
    assert_close(workdir, runs['one'])
