import os
import subprocess
import sys

import jax
import pytest

from configs import base
from passk_jax import config as configs
from passk_jax import plan
from passk_jax.planning import chips, topologies
from passk_jax.planning.programs import PROGRAMS
from tests import tiny

TINY = '--config=configs/maze_tiny.py'


def command(*arguments: str) -> subprocess.CompletedProcess:
    """Runs the command as a person would, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
    return subprocess.run(
        [sys.executable, '-m', 'passk_jax.plan', *arguments],
        cwd=tiny.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def cells(text: str, label: str) -> list[str]:
    """The cells of a row of the table."""
    row = next(line for line in text.splitlines() if line.startswith(f'| {label} '))
    return [cell.strip() for cell in row.strip('|').split('|')][1:]


def test_a_plan_for_this_host_has_every_program():
    config = tiny.make_config(mesh__fsdp=4, mesh__tensor=2)
    text, fits = plan.plan(config, topologies.parse('cpu:8'), PROGRAMS, measure=False)
    assert fits
    assert cells(text, 'a chip') == ['train', 'score', 'prefill', 'decode']
    assert all(cell.endswith('B') for cell in cells(text, 'memory traffic'))
    assert all('x' in cell for cell in cells(text, 'all-reduce')[:1])


def test_a_plan_can_be_of_some_programs_with_a_measured_slope():
    config = tiny.make_config(mesh__fsdp=8)
    text, _ = plan.plan(config, topologies.parse('cpu:8'), ['score'], measure=True)
    assert cells(text, 'a chip') == ['score']
    assert 'by two compilations' in text


def test_what_does_not_fit_is_a_result():
    config = tiny.make_config(mesh__fsdp=8)
    small = chips.Chip('small', 1e12, 1000.0, 1e9, 1e9, 0)
    topology = topologies.Topology('cpu:8', 'cpu', small, (8,))
    text, fits = plan.plan(config, topology, ['decode'], measure=False)
    assert not fits
    assert 'decode does not fit: it needs' in text
    assert '\n1. ' in text


def test_a_mesh_of_another_size_is_refused():
    config = tiny.make_config(mesh__fsdp=3)
    with pytest.raises(ValueError, match='does not fit 8 devices'):
        plan.plan(config, topologies.parse('cpu:8'), ['score'], measure=False)


def test_the_command_prints_a_plan_and_keeps_it(tmp_path):
    path = tmp_path / 'plan.md'
    done = command(
        TINY, '--topology=gpu:h100x8', '--programs=train,decode', f'--markdown={path}'
    )
    assert done.returncode == 0, done.stderr
    assert 'shapes alone' in done.stdout
    kept = path.read_text()
    assert kept.endswith(done.stdout)
    assert kept.startswith('# maze_tiny on gpu:h100x8\n')
    assert f'{TINY} --topology=gpu:h100x8 --programs=train,decode\n' in kept


def test_what_cannot_be_planned_is_refused_in_a_line():
    done = command(TINY, '--topology=cpu:8', '--programs=score,sleep')
    assert done.returncode == 2
    assert done.stderr.startswith("error: programs ['sleep'] are none of ['train',")
    assert 'Traceback' not in done.stderr


def test_a_published_model_is_planned_without_a_hub_or_a_task(monkeypatch):
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    values = base.get_config()
    values.name, values.task.name = 'base', 'none'
    config = configs.from_config_dict(values)
    topology = topologies.parse('gpu:h100x8')
    text, _ = plan.plan(config, topology, ['score'], measure=False)
    assert 'Qwen/Qwen2.5-7B-Instruct, 7,615,616,512 parameters' in text
    # Parameters, and Adam's two, in float32 on eight chips, and the rollouts.
    size = 3 * 4 * 7_615_616_512 / 8 / 2**30
    assert float(cells(text, 'total')[0].split()[0]) == pytest.approx(size, rel=0.01)


def test_the_tpu_compiler_plans_without_a_tpu():
    pytest.importorskip('libtpu')
    done = command(TINY, '--topology=v5e:2x4', '--config.mesh.tensor=2')
    assert done.returncode == 0, done.stderr
    assert 'attention=splash' in done.stdout
    assert cells(done.stdout, 'limit') == ['15.75 GiB'] * 4
    assert cells(done.stdout, 'fits') == ['yes'] * 4
    assert 'unknown length' not in done.stdout


def test_the_tpu_compiler_refuses_what_does_not_fit_in_a_sentence():
    pytest.importorskip('libtpu')
    done = command(
        TINY,
        '--topology=v5e:2x2',
        '--programs=score',
        '--config.sampling.max_response_tokens=200000',
        '--config.sampling.num_rollouts=128',
        '--config.model.attention=plain',
    )
    assert done.returncode == 1, done.stderr
    assert 'score does not fit: it needs' in done.stdout
    assert 'of the 15.75 GiB' in done.stdout
    assert 'Traceback' not in done.stderr


def test_planning_starts_nothing_on_the_devices_of_this_process():
    before = jax.live_arrays()
    config = tiny.make_config(mesh__fsdp=8)
    plan.plan(config, topologies.parse('cpu:8'), ['prefill'], measure=False)
    assert len(jax.live_arrays()) == len(before)
