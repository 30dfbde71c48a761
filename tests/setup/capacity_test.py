"""What memory cannot hold is refused, and only that."""

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.runtime import hosts
from passk_jax.setup import capacity

GIB = 2**30


@pytest.fixture(autouse=True)
def one_gib(monkeypatch):
    monkeypatch.setattr(capacity, 'host_bytes', lambda: GIB)


def test_a_batch_of_responses_must_fit_in_the_host():
    sizes = {'eval.batch_size': 2**10, 'eval.num_responses': 2**8}
    capacity.check_responses(sizes, max_response_tokens=2**9)
    with pytest.raises(InputError) as error:
        capacity.check_responses(sizes, max_response_tokens=2**10)
    assert str(error.value) == (
        'the responses of eval.batch_size=1024, eval.num_responses=256, '
        'sampling.max_response_tokens=1024 take at least 1.0 GiB, more than the '
        '1.0 GiB of this host'
    )


def test_very_many_short_responses_are_many_objects():
    sizes = {'train.num_prompts': 2**12, 'sampling.num_rollouts': 2**12}
    with pytest.raises(InputError):
        capacity.check_responses(sizes, max_response_tokens=1)


class Accelerator:
    """A device that says how much it holds."""

    process_index = 0

    def __init__(self, **stats):
        self.memory_stats = lambda: stats


def mesh_of(devices):
    mesh = type('Mesh', (), {'size': len(devices), 'local_devices': devices})
    mesh.devices = np.array(devices)
    return mesh


def test_devices_hold_the_parameters_between_them():
    params = {'a': jax.ShapeDtypeStruct((2**14, 2**14), np.float32)}
    cpus = sharding.make_mesh(
        data=1, fsdp=2, rollout=1, tensor=1, devices=jax.devices()[:2]
    )
    four, three = (mesh_of([Accelerator(bytes_limit=GIB // 4)] * n) for n in (4, 3))
    for mesh in (cpus, four):
        capacity.check_params(params, mesh, sizes='it')
    for mesh, shapes in ((three, params), (cpus, params | {'b': params['a']})):
        with pytest.raises(InputError, match=r'parameters of it .* of the mesh'):
            capacity.check_params(shapes, mesh, sizes='it')


def test_hosts_with_almost_the_same_memory_choose_one_number(monkeypatch):
    """Theirs may lie on both sides of a border of the rounding."""
    limits = [16 * GIB - 4096, 16 * GIB + 4096]
    devices = [Accelerator(bytes_limit=limit) for limit in limits]
    monkeypatch.setattr(hosts, 'gather', lambda make: [make(), *limits])
    least = 16 * GIB - 2**28
    assert [capacity.device_bytes(device) for device in devices] == [least, least]
