import dataclasses
import json
import os
import re
import subprocess
import sys

import jax
import pytest

from configs import base
from passk_jax import config as configs
from passk_jax import plan
from passk_jax.cli import config_file
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.planning import chips, topologies
from passk_jax.planning.programs import PROGRAMS
from tests import tiny
from tests.planning.conftest import make_builder

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


def amounts(text: str, label: str) -> list[float]:
    """The cells of a row as numbers: ``1.5 MB`` is 1.5e6."""
    powers = {'': 1.0, 'k': 1e3, 'M': 1e6, 'G': 1e9}
    pairs = (cell.partition(' ') for cell in cells(text, label))
    return [float(number) * powers[prefix] for number, _, prefix in pairs]


def test_a_plan_for_this_host_has_every_program():
    config = tiny.make_config(mesh__fsdp=4, mesh__tensor=2)
    text, fits = plan.plan(config, topologies.parse('cpu:8'), PROGRAMS)
    assert fits
    assert cells(text, 'a chip') == [
        *('train', 'score', 'weights', 'prefill', 'decode', 'diagnose')
    ]
    sizes = ('arguments', 'new outputs', 'temporaries', 'total', 'memory traffic')
    for label in sizes:
        assert all(float(cell.split()[0]) > 0 for cell in cells(text, label)), label
    # An update takes more than a forward pass, that more than a prompt, and so on.
    train, score, weights, prefill, decode, diagnose = amounts(text, 'FLOP')
    assert diagnose > train > score > prefill > decode > weights == 0
    useful = cells(text, 'of them useful')
    assert ['%' in cell for cell in useful] == [True, True, False, True, True, True]
    # 'tensor' is summed over in all that multiply, 'fsdp' gathered but for decoding.
    summed = [x != '-' for x in cells(text, 'all-reduce')]
    assert summed == [True, True, False, True, True, True]
    gathered = cells(text, 'all-gather')[:4]
    assert all(re.fullmatch(r'[\d,]+ x, .*B', x) for x in gathered)
    assert 'tokens/s' not in text


def test_a_diagnosis_is_planned_where_the_configuration_has_it():
    assert plan._programs(make_builder(tiny.make_config())) == [
        *('train', 'score', 'weights', 'prefill', 'decode')
    ]
    config = tiny.make_config(log__diagnostics_every=2)
    assert plan._programs(make_builder(config)) == list(PROGRAMS)


def test_a_plan_can_be_of_some_programs():
    config = tiny.make_config(mesh__fsdp=8)
    text, _ = plan.plan(config, topologies.parse('cpu:8'), ['score'])
    assert cells(text, 'a chip') == ['score']
    assert all(len(cells(text, label)) == 1 for label in ('total', 'FLOP'))


def test_what_does_not_fit_is_a_result():
    config = tiny.make_config(mesh__fsdp=8)
    small = chips.Chip('small', 1e12, 1000.0, 1e9, 1e9, 0, 0)
    topology = topologies.Topology('cpu:8', 'cpu', small, (8,))
    text, fits = plan.plan(config, topology, ['decode'])
    assert not fits
    assert cells(text, 'fits') == ['NO']
    assert 'decode does not fit: it needs' in text
    assert '\n1. ' in text


def test_the_flags_of_the_configuration_are_kept_as_they_were_given():
    argv = [
        *('plan.py', '--fit', '--config', 'a b.py', '--topology=v5e:4x8'),
        *('--config.mesh.fsdp=8', '-config.seed', '-1', '--config.log.tensorboard'),
        *('--noconfig.data.shuffle', '--markdown', '--config.md'),
    ]
    assert config_file.flags_of(plan._arguments(argv)) == {
        '': '--config=a b.py',
        'mesh.fsdp': '--config.mesh.fsdp=8',
        'seed': '--config.seed=-1',
        'log.tensorboard': '--config.log.tensorboard',
        'data.shuffle': '--noconfig.data.shuffle',
    }


def test_a_mesh_of_another_size_is_refused():
    config = tiny.make_config(mesh__fsdp=3)
    with pytest.raises(ValueError, match='does not fit 8 devices'):
        plan.plan(config, topologies.parse('cpu:8'), ['score'])


@pytest.mark.slow
def test_the_command_prints_a_plan_and_keeps_it(tmp_path):
    path = tmp_path / 'plan.md'
    lengths = '--lengths=constant:4;lognormal:5,0.8'
    done = command(
        TINY,
        '--topology=gpu:h100x8',
        '--programs=train,decode',
        lengths,
        f'--markdown={path}',
    )
    assert done.returncode == 0, done.stderr
    assert 'shapes alone' in done.stdout
    assert re.findall('^Lengths (all|log-normal)', done.stdout, re.MULTILINE) == [
        'all',
        'log-normal',
    ]
    page = path.read_text()
    assert page.endswith(done.stdout)
    assert re.search(r'\nMade on \d{4}-\d\d-\d\d: .*jax \d', page)
    lines = [line for line in done.stderr.splitlines() if 'for gpu:h100x8' in line]
    names = [line.split()[1] for line in lines]
    assert names == ['train', 'decode']
    assert re.search(r'^train: .*FLOP, at least', done.stderr, re.MULTILINE)
    assert page.startswith('# maze_tiny on gpu:h100x8\n')
    options = f"--topology=gpu:h100x8 --programs=train,decode '{lengths}'\n"
    assert f'{TINY} {options}' in page


@pytest.mark.parametrize(
    'place_flags', [['--markdown=x.md'], ['--markdown', 'x.md'], ['-markdown', 'x.md']]
)
def test_where_a_plan_is_kept_is_no_part_of_its_command(place_flags):
    argv = [
        'plan.py',
        TINY,
        *place_flags,
        '--config.name=--markdown',
        '--programs',
        'train',
    ]
    assert plan._arguments(argv) == [
        TINY,
        '--config.name=--markdown',
        '--programs',
        'train',
    ]


def with_source(source):
    config = tiny.make_config()
    model = dataclasses.replace(config.model, source=source, family='')
    return dataclasses.replace(config, model=model)


def test_a_published_model_becomes_a_file(tmp_path):
    name = 'Qwen/Qwen2.5-7B-Instruct'
    config = plan._readable(with_source(name), tmp_path)
    assert config.model.source == str(tmp_path)
    assert json.loads((tmp_path / 'config.json').read_text()) == PUBLISHED[name]


def test_a_directory_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'Qwen' / 'Qwen2.5-7B-Instruct').mkdir(parents=True)
    config = with_source('Qwen/Qwen2.5-7B-Instruct')
    assert plan._readable(config, tmp_path) is config


def test_another_model_is_left_to_whoever_reads_it(tmp_path):
    config = with_source('mine/model')
    assert plan._readable(config, tmp_path) is config


def test_what_cannot_be_planned_is_refused_in_a_line():
    done = command(TINY, '--topology=cpu:8', '--programs=score,sleep')
    assert done.returncode == 2
    assert done.stderr.startswith("error: programs ['sleep'] must be among ['train',")
    assert 'Traceback' not in done.stderr


def test_a_published_model_is_planned_without_a_hub_or_a_task(monkeypatch):
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    values = base.get_config()
    values.name, values.task.name = 'base', 'none'
    config = configs.from_config_dict(values)
    topology = topologies.parse('gpu:h100x8')
    text, _ = plan.plan(config, topology, ['score'])
    assert 'Qwen/Qwen2.5-7B-Instruct, 7,615,616,512 parameters' in text
    # Parameters, and Adam's two, in float32 on eight chips, and the rollouts.
    size = 3 * 4 * 7_615_616_512 / 8 / 2**30
    assert float(cells(text, 'total')[0].split()[0]) == pytest.approx(size, rel=0.01)


@pytest.mark.parametrize('config', [TINY, '--config=configs/experts.py:model=tiny'])
def test_the_tpu_compiler_plans_without_a_tpu(config):
    pytest.importorskip('libtpu')
    done = command(
        config,
        '--topology=v5e:2x4',
        '--config.mesh.tensor=2',
        '--config.model.compute_dtype=bfloat16',
        '--config.model.attention=auto',
        '--config.train.packing=rows',
        '--config.train.pack_sizes=0',
    )
    assert done.returncode == 0, done.stderr
    assert 'attention=splash' in done.stdout
    assert cells(done.stdout, 'limit') == ['15.75 GiB'] * 5
    assert cells(done.stdout, 'fits') == ['yes'] * 5
    assert 'unknown length' not in done.stdout
    assert 'all-to-all' not in done.stdout


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


def test_the_tpu_compiler_finds_settings_that_fit():
    pytest.importorskip('libtpu')
    options = (
        '--config.sampling.max_response_tokens=40000',
        '--config.sampling.num_rollouts=128',
    )
    done = command(TINY, '--topology=v5e:2x2', '--fit', '--programs=decode', *options)
    assert done.returncode == 0, done.stderr
    assert re.search(r'decode needs [\d.]+ GiB, [\d.]+ GiB more than', done.stderr)
    assert cells(done.stdout, 'fits') == ['yes']
    settings = r' --config.mesh.fsdp=4 --config.sampling.max_cache_bytes=\d+'
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(f'    {" ".join([TINY, *options])}{settings}', last)


@pytest.mark.slow
def test_planning_compiles_what_it_plans_and_runs_nothing(monkeypatch, caplog):
    def refuse(*arguments):
        raise AssertionError('a plan ran a program')

    monkeypatch.setattr(jax.stages.Compiled, '__call__', refuse)
    jax.clear_caches()
    config = tiny.make_config(mesh__fsdp=8)
    with jax.log_compiles(), caplog.at_level('WARNING'):
        plan.plan(config, topologies.parse('cpu:8'), ['prefill', 'score'])
    compiled = re.findall(r'Compiling (\S+)', caplog.text)
    # Nothing else compiles, not even a program that fills an array with zeros.
    assert compiled == ['jit(prefill)', 'jit(score)']


@pytest.mark.slow
def test_keys_and_values_as_int8_are_planned():
    sizes = {'model__arch__head_dim': 64, 'model__compute_dtype': 'bfloat16'}
    sizes |= {'sampling__max_response_tokens': 49, 'sampling__num_rollouts': 8}
    texts = [
        plan.plan(tiny.make_config(**sizes, **x), topologies.parse('cpu:1'), ['decode'])
        for x in ({}, {'sampling__cache_dtype': 'int8'})
    ]
    (full, _), (half, _) = texts
    assert 'keys and values in int8' in half
    assert 'decode converts all keys and values from int8 for every token' in half
    assert 'int8' not in full
    # 64 numbers of a key or value, and a scale of float32.
    reads = r"prompts' keys and values ([\d.]+) kB, responses' ([\d.]+) kB"
    pairs = zip(*(re.search(reads, x).groups() for x in (full, half)), strict=True)
    for x, y in pairs:
        assert float(y) / float(x) == pytest.approx(68 / 128, rel=0.01)


@pytest.mark.slow
def test_a_reference_of_a_later_stage_is_planned():
    stages = {'kl': {'start': 2, 'reset_optimizer': False, 'loss': {'kl_coef': 0.1}}}
    always, later = (
        plan.plan(config, topologies.parse('cpu:1'), ['train'])[0]
        for config in (
            tiny.make_config(loss__kl_coef=0.1),
            tiny.make_config(stages=stages),
        )
    )
    assert cells(later, 'arguments') == cells(always, 'arguments')


def test_the_diagnosis_of_the_stage_that_compares_most_is_planned():
    stages = {
        name: {'start': i, 'reset_optimizer': False, 'advantage': {'name': name}}
        for i, name in enumerate(('pass_at_k', 'rloo'), start=1)
    }
    config = tiny.make_config(advantage__name='pass_at_1', stages=stages)
    assert plan._most_compared(config).name == 'pass_at_k'


def test_a_way_out_is_a_value_that_the_configuration_takes():
    config = tiny.make_config()
    plan._check(config, {'train.micro_batch_prompts': 2, 'mesh.fsdp': 2})
    for way, words in (
        ({'train.micro_batch_prompts': 3}, r'train\.micro_batch_prompts=3 must divide'),
        ({'train.num_prompts': 7}, 'mini_batch_prompts'),
        ({'model.remat': 'some'}, 'remat'),
    ):
        with pytest.raises(ValueError, match=words):
            plan._check(config, way)
