"""Where a run runs changes nothing but the last bits of its figures."""

import functools
import math

import numpy as np
import pytest

from passk_jax import sharding
from tests import tiny

# Whole runs; that of two processes is quick (multihost_test.py).
pytestmark = pytest.mark.slow

# Data, fsdp, rollout and tensor, and tensor in sampling.
MESHES = {
    'one': (1, 1, 1, 1, 0),
    'all': (2, 2, 1, 2, 0),
    'decode': (1, 2, 4, 1, 2),
    'fsdp': (1, 8, 1, 1, 2),
}
AXES = [f'mesh__{x}' for x in (*sharding.MESH_AXES, 'decode_tensor')]
STEPS = 3


def run(workdir, mesh):
    config = tiny.make_config(
        **dict(zip(AXES, mesh, strict=True)),
        model__arch__num_kv_heads=2,
        train__steps=STEPS,
        # A prompt for each device.
        train__micro_batch_prompts=8,
        # A memory that the host has, beside one that the devices have.
        train__follow_difficulty=0.9,
        advantage__name='curverl',
        eval__batch_size=8,
        log__rollouts_every=1,
    )
    return tiny.run(config, workdir, num_devices=math.prod(mesh[:4]))


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Mesh -> the directory of a whole run on it, its own warm start included."""

    @functools.cache
    def directory(name):
        workdir = tmp_path_factory.mktemp(name)
        assert run(workdir, MESHES[name])
        return workdir

    return directory


def assert_close(a, b):
    """The same lines with the same values, and the same responses to the letter."""
    rows, other_rows = (tiny.read_lines(path / 'metrics.jsonl') for path in (a, b))
    assert len(rows) == len(other_rows)
    for row, other in zip(rows, other_rows, strict=True):
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
    arrays, other_arrays = (tiny.saved_arrays(path, STEPS) for path in (a, b))
    for name, array in arrays.items():
        np.testing.assert_allclose(array, other_arrays[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize('mesh', ['all', 'decode', 'fsdp'])
def test_the_mesh_changes_no_sample_and_no_figure(mesh, runs):
    assert_close(runs('one'), runs(mesh))


@pytest.mark.parametrize(
    ('before', 'after'),
    [('one', 'all'), ('all', 'decode'), ('decode', 'one')],
)
def test_a_run_goes_on_on_another_mesh(before, after, runs, tmp_path):
    workdir = tiny.warm_copy(runs(before), tmp_path)
    with tiny.stop_before(2):
        assert not run(workdir, MESHES[before])
    assert run(workdir, MESHES[after])
    assert_close(workdir, runs('one'))


def test_a_run_with_a_mesh_of_sampling_resumes_bit_for_bit(runs, tmp_path):
    workdir = tiny.warm_copy(runs('decode'), tmp_path)
    with tiny.stop_before(2):
        assert not run(workdir, MESHES['decode'])
    assert run(workdir, MESHES['decode'])
    names = [path.name for path in (workdir / 'rollouts').iterdir()]
    for name in ('metrics.jsonl', *(f'rollouts/{x}' for x in names)):
        uninterrupted = (runs('decode') / name).read_bytes()
        assert (workdir / name).read_bytes() == uninterrupted, name
