"""Options of the train step's compiler."""

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.runtime import compiler_options
from passk_jax.runtime.compiler_options import BY_CHIP, of_train_step

OPTION = 'xla_tpu_scoped_vmem_limit_kib'


class TpuMesh(Mesh):
    """A mesh that says that its devices are TPUs of some kind."""

    kind = 'TPU v5'

    @property
    def devices(self):
        device = dataclasses.make_dataclass('Device', ['platform', 'device_kind'])
        return np.array([device('tpu', self.kind)], object)


@pytest.fixture
def mesh():
    return TpuMesh(np.array(jax.devices()[:1]), ('data',))


def test_a_chip_with_a_row_has_its_number(mesh, monkeypatch):
    number = compiler_options.TRAIN_VMEM_KIB['TPU v5']
    assert of_train_step(mesh, BY_CHIP) == {OPTION: str(number)}
    monkeypatch.setattr(TpuMesh, 'kind', 'TPU v4')
    assert of_train_step(mesh, BY_CHIP) == {}
    assert of_train_step(mesh, 77) == {OPTION: '77'}


def test_zero_is_the_compilers_default(mesh):
    assert of_train_step(mesh, 0) == {}


def test_other_devices_have_no_such_option():
    mesh = sharding.one_device_mesh(jax.devices()[0])
    assert of_train_step(mesh, 77) == of_train_step(mesh.abstract_mesh, 77) == {}
