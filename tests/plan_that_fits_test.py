"""Plans with settings that fit: the search, its flags and its end."""

import dataclasses
import re

import pytest

from passk_jax import plan
from passk_jax.planning import chips, topologies
from tests import tiny
from tests.plan_test import cells


def small(**sizes):
    """Eight devices of this host, as chips with little memory."""
    chip = chips.Chip('small', 1e12, sizes['memory'], 1e9, 1e9, 0, 0)
    return topologies.Topology('cpu:8', 'cpu', chip, (8,))


def test_settings_that_fit_are_found_and_end_the_plan():
    config = tiny.make_config(
        mesh__fsdp=8,
        sampling__max_response_tokens=100,
        sampling__num_rollouts=8,
        train__micro_batch_prompts=8,
    )
    names, messages = ('score', 'weights'), []
    text, fitting = plan.plan(config, small(memory=2**30), names)
    assert fitting
    needed = float(cells(text, 'total')[0].removesuffix(' MiB')) * 2**20
    config_flags = {
        '': '--config=tiny.py',
        'train.micro_batch_rollouts': 'an older one',
    }
    text, fitting = plan.plan_that_fits(
        config,
        small(memory=0.8 * needed),
        names,
        config_flags=config_flags,
        tell=messages.append,
    )
    assert fitting
    assert cells(text, 'fits') == ['yes', 'yes']
    *_, heading, _, flags = text.splitlines()
    assert heading == 'These settings fit, and train the same:'
    match = re.fullmatch(
        r'    --config=tiny.py --config.train.micro_batch_rollouts=(\d)', flags
    )
    assert f'a pass 8 with {match[1]} responses of each' in text
    assert sum(line.startswith('compiling score') for line in messages) >= 2
    assert sum(line.startswith('compiling weights') for line in messages) == 1


def test_without_settings_that_fit_the_plan_says_how_much_is_too_much():
    config = tiny.make_config(mesh__fsdp=8)
    messages = []
    text, fitting = plan.plan_that_fits(
        config, small(memory=1000.0), ['prefill'], tell=messages.append
    )
    assert not fitting
    # The arguments alone exceed a device's memory, so nothing is compiled.
    assert any(line.startswith('tracing') for line in messages)
    assert not any(line.startswith('compiling') for line in messages)
    assert re.search(r'\n\d\. on \d+ devices, --config\.mesh\.', text)
    *_, heading, _, flags = text.splitlines()
    assert flags.strip() == ''
    assert re.match(
        r'No settings that train the same were found to fit: prefill needs \S+ GiB, '
        r'\S+ GiB more than a device has with the last that were tried:',
        heading,
    )


def test_settings_that_fit_come_with_a_mesh_of_the_devices():
    config = tiny.make_config(mesh__fsdp=4, mesh__rollout=4)
    text, fitting = plan.plan_that_fits(config, small(memory=2**30), ['prefill'])
    assert fitting
    assert text.endswith('\n    --config.mesh.fsdp=2\n')
    assert 'mesh data=1, fsdp=2, rollout=4, tensor=1' in text


def test_an_open_axis_of_the_mesh_becomes_a_number():
    """Another axis may change, and it must not follow."""
    config = tiny.make_config(mesh__fsdp=-1)
    text, _ = plan.plan_that_fits(config, small(memory=2**30), ['weights'])
    assert text.endswith('\n    --config.mesh.fsdp=8\n')


def test_a_mesh_of_sampling_that_these_devices_lack_is_no_longer_asked_for():
    """Else training would refuse the plan's flags, in which the mesh has numbers."""
    config = tiny.make_config(
        mesh__fsdp=-1, mesh__decode_tensor=2, model__arch__num_kv_heads=2
    )
    gpu = small_gpu(memory=2**40)
    one = dataclasses.replace(topologies.parse('gpu:h100x1'), chip=gpu.chip)
    text, _ = plan.plan_that_fits(config, one, ['weights'])
    assert text.endswith('\n    --config.mesh.fsdp=1 --config.mesh.decode_tensor=0\n')


def test_a_search_needs_a_limit():
    with pytest.raises(ValueError, match=r"'cpu:8' has no limit .* v5e:4x8"):
        plan.plan_that_fits(tiny.make_config(), topologies.parse('cpu:8'), ['train'])


def small_gpu(**sizes):
    gpu = topologies.parse('gpu:h100x8')
    chip = dataclasses.replace(gpu.chip, memory=sizes['memory'])
    return dataclasses.replace(gpu, chip=chip)


@pytest.mark.slow
def test_a_search_for_gpus_goes_by_shapes():
    """Temporaries count, without a compiler, and a pass gets smaller until it fits."""
    config = tiny.make_config(mesh__fsdp=8, train__micro_batch_prompts=8)
    text, fitting = plan.plan_that_fits(config, small_gpu(memory=2**40), ['train'])
    assert fitting
    units = {'KiB': 2**-10, 'MiB': 1.0, 'GiB': 2**10}

    def mebibytes(cell):
        number, unit = cell.split()
        return float(number) * units[unit]

    (needed,), (initial,), (temporaries,) = (
        map(mebibytes, cells(text, label))
        for label in ('total', 'arguments', 'temporaries')
    )
    assert temporaries > 0
    assert needed == pytest.approx(initial + temporaries, abs=0.02)
    memory = (initial + 0.3 * temporaries) * 2**20
    text, fitting = plan.plan_that_fits(config, small_gpu(memory=memory), ['train'])
    assert fitting
    assert '--config.train.micro_batch_rollouts=' in text.splitlines()[-1]
    none, fitting = plan.plan_that_fits(config, small_gpu(memory=1000), ['train'])
    assert not fitting
    assert 'No settings that train the same were found to fit: train needs' in none
