"""experiments/chips.py: plans are read as ``plan --fit`` writes them."""

import dataclasses
import re
import subprocess
from collections.abc import Sequence

import pytest
from absl import flags as absl_flags

from experiments import chips
from passk_jax import plan
from passk_jax.cli import config_file
from passk_jax.cli.flags import parse
from passk_jax.errors import InputError
from passk_jax.planning import topologies
from tests import tiny

GPU = 'gpu:h100x1'


def planned(memory: float | None = None, flags: Sequence[str] = ()) -> str:
    topology = topologies.parse(GPU)
    if memory is not None:
        chip = dataclasses.replace(topology.chip, memory=memory)
        topology = dataclasses.replace(topology, chip=chip)
    arguments = ['plan', '--config=tests/tiny.py', '--config.mesh.fsdp=1', *flags]
    arguments += ['--topology=cpu:1']
    config = parse(plan.main, arguments, absl_flags.FlagValues())['config']
    config_flags = config_file.flags_of(arguments[2:-1])
    return plan.plan_that_fits(config, topology, ['train'], config_flags=config_flags)[
        0
    ]


def test_a_plan_that_fits_has_its_memory_and_a_time():
    read = chips.read(planned())
    assert 0 < read.needed < read.limit == pytest.approx(0.9 * 79, abs=0.01)
    assert (read.lacking, read.flags) == (0.0, ())
    assert 0 < read.seconds < 1


@pytest.mark.slow
def test_a_plan_that_does_not_fit_says_what_is_lacking():
    text = planned(memory=1000.0)
    over = re.search(r'needs (\S+) GiB, (\S+) GiB more', text)
    read = chips.read(text)
    assert read.seconds is None
    assert (read.needed, read.lacking) == (float(over[1]), float(over[2]))


def test_flags_are_all_but_those_that_the_default_mesh_has_anyway():
    text = planned()
    more = ' --config.mesh.fsdp=1 --config.train.micro_batch_rollouts=8\n'
    assert chips.read(text.rstrip('\n') + more).flags == (
        '--config.train.micro_batch_rollouts=8',
    )
    assert (
        '--config.mesh.fsdp=2'
        in chips.read(text.rstrip('\n') + ' --config.mesh.fsdp=2').flags
    )


def test_adapters_need_less_and_are_no_flags_of_a_plan(monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    text = planned(flags=chips.KINDS['adapters'])
    assert '--config.model.lora.rank=32' in text
    adapted, full = chips.read(text), chips.read(planned())
    assert adapted.flags == full.flags == ()
    # The tiny policy has as many parameters as its adapters of rank 32, so compare
    # what the command says, not how much it needs.
    assert adapted.needed != full.needed


def test_a_run_needs_what_its_largest_program_needs():
    train = chips.Plan(10.0, 16.0, 0.5, 0.0, ('--a=1',))
    decode = chips.Plan(12.0, 16.0, 0.1, 0.0, ('--a=1', '--b=2'))
    assert chips.join([train]) == train
    want = dataclasses.replace(train, needed=12.0, flags=decode.flags)
    assert chips.join([train, decode]) == want
    over = chips.Plan(20.0, 16.0, None, 4.0, ('--a=1',))
    assert chips.join([train, over]) == over


def test_what_ends_otherwise_is_no_plan():
    with pytest.raises(InputError, match='is not the end of a plan by --fit'):
        chips.read(planned().rpartition('These settings')[0])
    with pytest.raises(InputError, match="no row 'total'"):
        chips.read('nothing\n\nhere')


@pytest.mark.slow
def test_the_page_has_a_cell_for_every_model_and_chip(monkeypatch, tmp_path):
    """What is there already is not planned again."""
    texts = {'1000': planned(memory=1000.0), 'fits': planned()}
    started = []

    def run(command, **_):
        (path,) = (x.partition('=')[2] for x in command if '--markdown=' in x)
        over = 'Llama' in path and 'adapters' not in path
        assert ('--config.model.lora.rank=32' in command) == ('adapters' in path)
        text = texts['1000' if over else 'fits']
        chips.atomic_write_text(path, f'Made on 2026-01-01: jax 1.\n\n{text}')
        started.append(command)
        return subprocess.CompletedProcess(command, int(over))

    monkeypatch.setattr(chips.subprocess, 'run', run)
    page = tmp_path / 'page.md'
    for _ in range(2):
        chips.main(workdir=str(tmp_path / 'plans'), markdown=str(page))
        assert len(started) == len(chips.MODELS) * 3 * len(chips.CHIPS)
    rows = [x for x in page.read_text().splitlines() if x.startswith('| ')]
    assert len(rows) == 2 * len(chips.MODELS) + 2
    llama, adapted = rows[-2:]
    assert llama.startswith('| Llama-3.1-8B ')
    assert llama.count('no: lacks') == len(chips.CHIPS)
    assert re.match(r'\| Llama-3\.1-8B +\| adapters +\| +\d', adapted)
    assert 'no: lacks' not in adapted
    assert '--config.model.frozen_dtype=bfloat16`' in page.read_text()
    assert re.search(r'\d of 71\.1, ', rows[2])
    assert ' from jax 1. ' in page.read_text()


def test_a_plan_that_was_not_made_is_an_error(monkeypatch, tmp_path):
    def run(command, **_):
        return subprocess.CompletedProcess(command, 2, '', 'no compiler')

    monkeypatch.setattr(chips.subprocess, 'run', run)
    with pytest.raises(InputError, match='no compiler'):
        chips.main(workdir=str(tmp_path), markdown=str(tmp_path / 'page.md'))
    assert not (tmp_path / 'page.md').exists()
