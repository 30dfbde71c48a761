"""Options of the train step's compiler."""

import types

import jax
import pytest

from passk_jax.runtime import compiler_options
from passk_jax.runtime.compiler_options import BY_CHIP, choose_for_train_step

OPTION = 'xla_tpu_scoped_vmem_limit_kib'


def chip(kind):
    return types.SimpleNamespace(platform='tpu', device_kind=kind)


@pytest.mark.parametrize('kind', compiler_options.TRAIN_VMEM_KIB)
def test_a_chip_with_a_row_has_its_number(kind):
    number = compiler_options.TRAIN_VMEM_KIB[kind]
    assert choose_for_train_step(chip(kind), BY_CHIP) == {OPTION: str(number)}


def test_another_chip_has_what_the_config_says():
    assert choose_for_train_step(chip('TPU v4'), BY_CHIP) == {}
    assert choose_for_train_step(chip('TPU v4'), 77) == {OPTION: '77'}
    assert choose_for_train_step(chip('TPU v5'), 0) == {}


def test_other_devices_have_no_such_option():
    assert (
        choose_for_train_step(jax.devices()[0], 77)
        == choose_for_train_step(None, 77)
        == {}
    )
