"""The benchmarks: their small parts, and that every command says how it is used."""

import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import types

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from benchmarks import (
    accelerator,
    array_verdicts,
    environments,
    growth,
    int8_cache,
    ours,
    puzzles,
    sides,
    topology,
    topology_ours,
)
from benchmarks import work as works
from benchmarks.group_learner import gradient_gap
from benchmarks.transformers_trl import needed_gflop
from passk_jax.errors import InputError
from passk_jax.models import policy as policies
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.chips import GIB
from passk_jax.planning.flops import Flops
from passk_jax.planning.hlo_costs import Costs, Traffic
from passk_jax.planning.topologies import parse
from passk_jax.tasks.enigmata.table import PUZZLES
from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = (
    'packed_rows',
    'adapters',
    'int8_cache',
    'tunix',
    'topology',
    'transformers_trl',
    'long_tail',
    'growth',
    'mazes',
    'gpu',
    'group_learner',
    'ours',
    'puzzles',
    'verifiers',
    'oracles',
    'array_verdicts',
)
TINY = works.small(works.GROUPS)

# A side without JAX: it counts, and writes to the standard output meanwhile.
COUNTER = """
from benchmarks import worker

for count, report in enumerate(worker.repetitions({'check': [1.0]})):
    print('chatter')
    report['tokens'] = count
"""


# Each command in a child of its own, of one process that has imported what is slow.
HELP = """
import os, runpy, sys, warnings

import benchmarks.work, passk_jax.setup.setup

warnings.simplefilter('ignore')  # JAX warns of forks; it has not started here.
for command in sys.argv[1:]:
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f'exit {status}', flush=True)
        continue
    sys.argv = [command, '--help']
    try:
        runpy.run_module(f'benchmarks.{command}', run_name='__main__', alter_sys=True)
    except SystemExit as end:
        # At once: to take the interpreter down in order costs more than all this.
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(end.code or 0)
    sys.exit('it did not end with its help')
"""


@pytest.fixture(scope='module')
def helps():
    """What every command answers to --help, and its exit status."""
    result = subprocess.run(
        [sys.executable, '-c', HELP, *COMMANDS],
        cwd=ROOT,
        env=os.environ | {'JAX_PLATFORMS': 'cpu'},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    parts = re.split(r'^exit (-?\d+)\n', result.stdout, flags=re.MULTILINE)
    answers = zip(parts[1::2], parts[:-1:2], strict=True)
    return dict(zip(COMMANDS, answers, strict=True))


@pytest.mark.parametrize('command', COMMANDS)
def test_every_command_says_how_it_is_used(command, helps):
    status, text = helps[command]
    assert status == '0', text
    assert 'usage:' in text


@pytest.mark.parametrize('peer', ['tunix_peer', 'torch_peer'])
def test_a_peer_is_read_without_our_library(peer):
    source = (ROOT / 'benchmarks' / f'{peer}.py').read_text()
    assert 'passk_jax' not in source
    assert 'passk_jax' not in (ROOT / 'benchmarks' / 'work.py').read_text()
    assert 'passk_jax' not in (ROOT / 'benchmarks' / 'worker.py').read_text()


def counter(tmp_path: pathlib.Path, source: str = COUNTER) -> sides.Side:
    (tmp_path / 'counter.py').write_text(source)
    path = f'{ROOT}{os.pathsep}{tmp_path}'
    return sides.Side('counter', 'counter', environment={'PYTHONPATH': path})


def test_sides_answer_in_turns_whatever_they_print(tmp_path):
    side = counter(tmp_path)
    with sides.started([side], core=-1) as ready:
        answers = sides.alternate([side], repetitions=3)['counter']
    assert ready == {'counter': {'check': [1.0]}}
    assert [answer['tokens'] for answer in answers] == [0, 1, 2, 3, 4]
    assert all(answer['cpu'] >= 0 and answer['wall'] > 0 for answer in answers)


def test_a_side_that_fails_says_why(tmp_path):
    side = counter(tmp_path, "raise SystemExit('no such thing')")
    with (
        pytest.raises(RuntimeError, match='no such thing'),
        sides.started([side], core=-1),
    ):
        pass


def test_medians_leave_the_warm_up_out():
    answers = [{'cpu': x, 'tokens': 10} for x in (9.0, 3.0, 1.0, 2.0, 3.0)]
    assert sides.median(answers) == 2.0
    assert sides.spread(answers) == 0.5
    assert sides.warm_up(answers) == 8.0


def test_a_ratio_is_of_tokens_a_cpu_second():
    def answers(cpu: float) -> list[dict[str, float]]:
        return [{'cpu': cpu, 'wall': 1.0, 'tokens': 12, 'peak_megabytes': 5.0}] * 3

    rows = sides.rows('work', {'a': answers(1.0), 'b': answers(3.0)}, base='b')
    ratio = sides.HEAD.index('ratio')
    assert [row[ratio] for row in rows] == ['3.00', '1.00']


def test_a_table_has_a_rule_under_its_head():
    assert sides.table([['a', 'b'], ['1', '22']]).splitlines() == [
        '| a | b  |',
        '|---|----|',
        '| 1 | 22 |',
    ]


def test_no_prompt_has_a_pad_in_it():
    tokens = works.prompt_tokens(works.GENERATION)
    assert tokens.shape == (32, 32)
    assert (tokens != works.PAD).all()
    assert tokens.max() < works.GENERATION.vocab <= works.GENERATION.end


def test_a_work_survives_the_command_line():
    assert works.Work.from_json(TINY.to_json()) == TINY


def test_text_and_tokens_are_each_other():
    tokens = np.array([12, 0, 7])
    assert works.to_tokens(works.to_text(tokens)) == tokens.tolist()
    assert works.reward('12 0 7') == 1.0
    assert works.reward('12 1 7') == 0.0


def test_the_model_has_the_parameters_that_were_asked_for():
    policy = ours.make_policy(works.GENERATION)
    shapes = ours.policies.param_shapes(policy, ours.mesh())
    assert sum(x.size for x in shapes.values()) == 4_330_752


def test_what_generation_needs_is_what_the_reference_counted():
    # 56.2 GFLOP of decoding, less the last of 64 tokens, and 2.9 of prefill, whose head
    # is for the last tokens alone.
    assert needed_gflop(works.GROUPS) == pytest.approx(56.2 * 63 / 64 + 2.7, rel=0.02)


def test_repeated_prompts_are_groups_of_one():
    rollouts, _ = ours.draw_rollouts(TINY)
    apart = ours.repeat_prompts(rollouts)
    rows = TINY.sequences
    assert apart.tokens.shape == (rows, 1, TINY.response_tokens)
    assert apart.prompts.tokens.shape == (rows, TINY.prompt_tokens)
    # Row by row the prompt of its response.
    np.testing.assert_array_equal(
        apart.prompts.problem_ids, np.arange(rows) // TINY.rollouts
    )
    np.testing.assert_array_equal(
        apart.tokens[:, 0], rollouts.tokens.reshape(rows, TINY.response_tokens)
    )


def test_the_gap_of_gradients_is_relative_and_named(tmp_path):
    files = [tmp_path / 'a.npz', tmp_path / 'b.npz']
    np.savez(files[0], x=np.array([3.0, 4.0]), y=np.array([1.0]))
    np.savez(files[1], x=np.array([3.0, 4.5]), y=np.array([1.0]))
    gap, name = gradient_gap(*files)
    assert name == 'x'
    assert gap == pytest.approx(0.5 / np.hypot(3.0, 4.5))


def test_growth_changes_one_size_at_a_time():
    by_name = dict(growth.works_to_measure(TINY, ['layers', 'prompts'], sizes=2))
    assert next(iter(by_name)) == 'nothing'
    for name, work in list(by_name.items())[1:]:
        axis, size = name.split()
        assert work == dataclasses.replace(TINY, **{axis: int(size)})


def test_an_environment_is_made_only_without_a_python(tmp_path, monkeypatch):
    assert environments.python_of('tunix', sys.executable) == sys.executable
    with pytest.raises(ValueError, match='no_such_python'):
        environments.python_of('tunix', 'no_such_python')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    home = environments.directory() / 'trl'
    home.mkdir(parents=True)
    (home / 'installed').write_text('\n'.join(environments.REQUIREMENTS['trl']))
    assert environments.python_of('trl') == str(home / 'bin' / 'python')


def test_timing_waits_and_gives_donated_arguments_back():
    x = jnp.zeros(4)
    timing = accelerator.timed(lambda x: (x + 1,), x, repetitions=3, donate=(0,))
    # Once to warm up, three times timed, each going on from the one before.
    np.testing.assert_array_equal(timing.result[0], np.full(4, 4.0))
    assert timing.seconds > 0
    assert timing.compile_seconds > 0


@pytest.mark.slow
def test_decoding_counts_a_shared_prompt_once():
    policy = ours.make_policy(TINY)
    params = ours.policies.init_params(policy, jax.random.key(0), ours.mesh())
    model = accelerator.Model(policy, params, repetitions=1)
    _, group, _ = model.decode(accelerator.Batch(1, 4, 64, 2))
    _, apart, _ = model.decode(accelerator.Batch(4, 1, 64, 2))
    slot = 2 * TINY.layers * TINY.kv_heads * TINY.head_dim * 4
    assert apart - group == 3 * 64 * slot


def test_verdicts_on_arrays_are_compared_on_answers_that_are_half_right():
    row = array_verdicts.measure('sudoku2', count=64, repetitions=1)
    name, right, *figures = row.strip('| ').split(' | ')
    assert (name, len(figures)) == ('sudoku2', 5)
    assert 0.5 <= float(right) < 0.75
    assert array_verdicts.swapped('[(1, 2)]', random.Random(0)) == '[(2, 1)]'
    assert array_verdicts.swapped('["R11", "C2"]', random.Random(0)) == '["C2", "R11"]'


def test_every_puzzle_has_a_time_at_every_level(monkeypatch):
    """Against a clock that each reading moves on by a second."""
    seconds = itertools.count()
    clock = types.SimpleNamespace(process_time=lambda: next(seconds))
    monkeypatch.setattr(puzzles, 'time', clock)
    head, _, *rows = puzzles.table(count=2).splitlines()
    assert head == '| puzzle | easy | medium | hard |'
    assert {row.split(' | ')[0].strip('| ') for row in rows} == {*PUZZLES}
    assert {row.partition(' | ')[2] for row in rows} == {'5e+02 | 5e+02 | 5e+02 |'}


@pytest.mark.slow
def test_int8_is_compared_with_the_same_tokens_and_outliers_change_no_attention():
    setup = tiny.make_setup(tiny.make_config(eval__batch_size=4))
    drawn = policies.init_params(setup.policy, jax.random.key(0), setup.mesh)
    args = types.SimpleNamespace(
        prompts=4, rollouts=3, tokens=0, products='float32,bfloat16'
    )
    by_size = {}
    for size in (1.0, 64.0):
        params = int8_cache.with_outliers(drawn, setup.policy.arch.head_dim, size)
        with jax.set_mesh(setup.mesh):
            rows = [*int8_cache.measure(setup, params, args)]
        assert [row[:2] for row in rows] == [
            ('float32', 'float32'),
            ('float32', 'int8'),
            ('bfloat16', 'bfloat16'),
            ('bfloat16', 'int8'),
        ]
        assert float(rows[0][2]) == 0
        assert (rows[0][5], rows[0][8]) == ('1.00000', '1.00000')
        by_size[size] = [float(row[2]) for row in rows]
    # Powers of two change no product, but the steps of the other numbers.
    assert by_size[1.0][2] == by_size[64.0][2]
    assert 0 < by_size[1.0][1] < by_size[64.0][1]


def test_the_effective_size_of_weights():
    assert int8_cache.effective_size(np.full(7, 0.3)) == pytest.approx(1)
    assert int8_cache.effective_size(np.array([1.0, 0, 0, 0])) == pytest.approx(1 / 4)


JOB = topology.Job('cpu:8', 2, 16, 4, prompt_tokens=24, response_tokens=8)


def compiled(costs: Costs | None) -> dict[str, object]:
    """What a side answers about a program, with its CPU seconds."""
    memory = Memory(2 * GIB, 0.0, 3 * GIB, 0.0, 16 * GIB)
    program = topology_ours.program(JOB)
    analysis = Analysis(program, parse('cpu:8'), memory, Flops(8e12), costs)
    return {'cpu': 61.4, **topology.figures(analysis)}


def test_sides_on_a_topology_are_columns_of_one_table():
    costs = Costs(1e12, 5e9, {'all-gather': Traffic(1_200, 2.5e9)}, 0)
    # As a side writes them. The second needs more memory than there is.
    answers = json.loads(json.dumps({'a': compiled(costs), 'b': compiled(None)}))
    have = {label: cells for label, *cells in topology.rows(answers, JOB)}
    # 8 devices x 1 TFLOP for 16 x 4 x 8 response tokens.
    assert have == {
        'a chip': ['a', 'b'],
        'FLOP': ['1 T', '1 T'],
        'FLOP a response token': ['15.6 G', '15.6 G'],
        'arguments': ['2.00 GiB', '2.00 GiB'],
        'temporaries': ['3.00 GiB', '3.00 GiB'],
        'memory traffic': ['5 GB', '-'],
        'all-gather': ['1,200 x, 2.5 GB', '-'],
        'CPU seconds to compile': ['61', '61'],
    }


@pytest.mark.parametrize('plain', [False, True])
def test_our_side_of_a_topology_makes_one_update_of_the_job(plain):
    job = dataclasses.replace(JOB, plain=plain)
    assert topology.Job(**json.loads(json.dumps(dataclasses.asdict(job)))) == job
    program = topology_ours.program(job)
    state, rollouts, *_ = program.arguments
    assert dict(program.mesh.shape)['fsdp'] == job.num_devices == 8
    assert rollouts.tokens.shape == (16, 4, 8)
    assert rollouts.prompts.tokens.shape == (16, 24)
    assert program.num_tokens == job.num_tokens == 512
    # Qwen2.5-7B without 26 of its 28 layers.
    assert (
        sum(x.size for x in state.params.values()) == 7_615_616_512 - 26 * 233_057_792
    )
    train = topology_ours.make_config(job).train
    assert train.num_prompts == train.mini_batch_prompts == train.micro_batch_prompts
    assert (train.packing, train.scoped_vmem_kib) == (
        ('prompts', 0) if plain else ('rows', -1)
    )


def test_a_topology_without_its_compiler_or_with_too_few_prompts_is_named(monkeypatch):
    with pytest.raises(InputError, match='prompts=12 must be a multiple of the 8'):
        dataclasses.replace(JOB, prompts=12)
    with pytest.raises(InputError, match="topology 'v5p:4x4'"):
        dataclasses.replace(JOB, topology='v5p:4x4')
    monkeypatch.setattr(topology.importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(InputError, match='compiler is not installed'):
        topology.measure('tunix', JOB, sys.executable)
