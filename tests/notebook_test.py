"""The notebooks are made from their scripts and have been run."""

import collections
import functools
import glob
import importlib.util
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from typing import Any

import IPython.display
import jax
import jupytext
import matplotlib.pyplot as plt
import nbclient
import nbformat
import numpy as np
import pytest
from absl import flags

from passk_jax import train
from passk_jax.cli.flags import parse
from passk_jax.evaluation.metrics import paired_interval
from tests import tiny
from tests.slow import slow_values

EXPERIMENTS, EXAMPLES = tiny.ROOT / 'experiments', tiny.ROOT / 'examples'
NOTEBOOKS = sorted([*EXPERIMENTS.glob('*.ipynb'), *EXAMPLES.glob('*.ipynb')])
RUN = slow_values(NOTEBOOKS, quick=[EXPERIMENTS / 'inspect_run.ipynb'])
MOST_BYTES = 700_000


def notebook_id(path: pathlib.Path) -> str:
    return path.stem


def cells_of(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def test_there_are_notebooks_to_check():
    assert NOTEBOOKS


@pytest.mark.parametrize('path', NOTEBOOKS, ids=notebook_id)
def test_the_notebook_is_its_script_cell_for_cell(path):
    script = jupytext.read(path.with_suffix('.py'))
    notebook = nbformat.read(path, as_version=4)
    assert cells_of(notebook) == cells_of(script), (
        f'make {path.name} again: the command is in the first cell of the script'
    )


@pytest.mark.parametrize('path', NOTEBOOKS, ids=notebook_id)
def test_the_notebook_was_run_from_top_to_bottom_and_drew(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == 'code']
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert all(output.output_type != 'error' for output in outputs)
    assert not [output['text'] for output in outputs if output.get('name') == 'stderr']
    assert any('image/png' in output.get('data', {}) for output in outputs)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=notebook_id)
def test_the_notebook_is_small_and_names_no_place_of_the_machine_that_ran_it(path):
    assert path.stat().st_size < MOST_BYTES
    notebook = nbformat.read(path, as_version=4)
    outputs = [o for cell in notebook.cells for o in cell.get('outputs', ())]
    for output in outputs:
        # Base64 has slashes too.
        output.get('data', {}).pop('image/png', None)
    assert not re.findall(r'/(?:home|root|tmp|work|Users)/\S*', json.dumps(outputs))


@pytest.fixture
def quick(monkeypatch, tmp_path, request):
    """Lets each notebook run on the smallest run there is; by their stems."""

    def hosted() -> None:
        monkeypatch.setenv('PASSK_CONFIG', 'tests/tiny.py')
        finished = request.getfixturevalue('finished_run')
        # Interrupted before its last step: the cell goes on from there.
        workdir = tmp_path / 'hosted'
        shutil.copytree(finished, workdir)
        shutil.rmtree(workdir / 'checkpoints' / '5')
        monkeypatch.setenv('PASSK_WORKDIR', str(workdir))
        monkeypatch.setenv('XLA_FLAGS', tiny.environment()['XLA_FLAGS'])

    def inspect_run() -> None:
        finished = request.getfixturevalue('finished_run')

        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess:
            """Checks the flags, and leaves another run where this one would be."""
            assert command[:3] == [sys.executable, '-m', 'passk_jax.train']
            values = parse(train.main, command[2:], flags.FlagValues())
            assert values['config'].task.params['validation_counts'] == (64,)
            shutil.copytree(finished, values['workdir'], dirs_exist_ok=True)
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.delenv('PASSK_RUN', raising=False)
        monkeypatch.setattr(subprocess, 'run', run)

    def safe_arm() -> None:
        # Its many steps take longer than to compile them as quick ones.
        quick = {'xla_backend_optimization_level': 1}
        jit = functools.partial(jax.jit, compiler_options=quick)
        monkeypatch.setattr(jax, 'jit', jit)

    return {'hosted': hosted, 'inspect_run': inspect_run, 'safe_arm': safe_arm}


@pytest.mark.parametrize('path', RUN, ids=notebook_id)
def test_the_script_runs_and_draws_what_the_notebook_shows(path, monkeypatch, quick):
    notebook = nbformat.read(path, as_version=4)
    pictures = sum(
        'image/png' in output.get('data', {})
        for cell in notebook.cells
        if cell.cell_type == 'code'
        for output in cell.outputs
    )
    plt.switch_backend('agg')
    drawn = []

    def show() -> None:
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
            drawn.append(number)
        plt.close('all')

    displayed = []
    monkeypatch.setattr(plt, 'show', show)
    monkeypatch.setattr(IPython.display, 'display', displayed.append)
    if path.stem in quick:
        quick[path.stem]()
    with warnings.catch_warnings(), plt.rc_context():
        warnings.simplefilter('error', RuntimeWarning)
        values = runpy.run_path(str(path.with_suffix('.py')))
    assert len(drawn) == pictures
    if path.stem == 'advantage_curves':
        assert_sampled_groups_shift_the_mean(values)
    if path.stem == 'safe_arm':
        assert_the_safe_arm_is_a_trap(values)
    if path.stem == 'hosted':
        assert_the_run_is_shown(values, *displayed)
    if path.stem == 'inspect_run':
        assert_each_problem_is_where_it_belongs(values)


@pytest.fixture
def quick_kernel(monkeypatch, tmp_path, request):
    """What a kernel finds in its environment, to be quick; by the notebooks' stems."""
    monkeypatch.setenv('PYTHONPATH', str(tiny.ROOT))

    def finished(variable: str) -> dict[str, str]:
        workdir = tmp_path / 'finished'
        shutil.copytree(request.getfixturevalue('finished_run'), workdir)
        # The commands that it starts are on one device, as the run was.
        flags = tiny.environment()['XLA_FLAGS']
        config = {'PASSK_CONFIG': 'tests/tiny.py', 'XLA_FLAGS': flags}
        return config | {variable: str(workdir)}

    level = f'{os.environ["XLA_FLAGS"]} --xla_backend_optimization_level=1'
    return {
        'hosted': lambda: finished('PASSK_WORKDIR'),
        'inspect_run': lambda: finished('PASSK_RUN'),
        'safe_arm': lambda: {'XLA_FLAGS': level},
    }


def outputs_of(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """The kinds of output of each cell, without what is printed."""
    code = [cell for cell in notebook.cells if cell.cell_type == 'code']
    kinds = [[output.output_type for output in cell.outputs] for cell in code]
    return [[kind for kind in of_cell if kind != 'stream'] for of_cell in kinds]


@pytest.mark.slow
@pytest.mark.parametrize('path', NOTEBOOKS, ids=notebook_id)
def test_the_notebook_runs_in_a_kernel(path, quick_kernel, monkeypatch):
    """All four take some 40 seconds of a core, a quarter of it for their imports."""
    for name, value in quick_kernel.get(path.stem, dict)().items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, as_version=4)
    before = outputs_of(notebook)
    where = {'metadata': {'path': str(tiny.ROOT)}}
    nbclient.NotebookClient(notebook, resources=where).execute()
    assert outputs_of(notebook) == before
    outputs = [o for cell in notebook.cells for o in cell.get('outputs', ())]
    assert not [output['text'] for output in outputs if output.get('name') == 'stderr']


def assert_sampled_groups_shift_the_mean(values: dict[str, Any]) -> None:
    """The three numbers of the notebook, with 2 of 16 responses correct."""
    # Both correct ones are in one of the four groups, by chance 1 / 5, or in two.
    in_one, in_two = (2 * 3**0.5 - 12 / 3**0.5) / 14, (6 - 8) / 14
    full = 0.2 * in_one + 0.8 * in_two
    assert full == pytest.approx(-0.164, abs=5e-4)
    means = {label: samples[1].mean() for label, samples in values['drawn'].items()}
    assert means['full sampling'] == pytest.approx(full, abs=3e-3)
    assert means['bootstrap sampling'] == pytest.approx(-0.153, abs=2e-3)
    assert means['analytical'] == pytest.approx(-0.158, abs=5e-4)


def assert_the_safe_arm_is_a_trap(values: dict[str, Any]) -> None:
    """What the notebook says, of every seed, and where it says it does not hold."""
    final = {label: at_1 for label, (at_1, _) in values['final'].items()}
    safe = values['SAFE'] / values['PROMPTS']
    for label in ('Pass@1', 'Pass@1 without its sigma (Dr. GRPO)'):
        assert np.abs(final[label] - safe).max() < 0.01
    assert final['Pass@4'].min() > safe + 0.3
    assert final['Pass@4 to step 400, then Pass@1'].min() > 0.94
    assert final['combination'].min() > 0.9
    assert final['combination'].mean() == pytest.approx(0.93, abs=0.005)
    mean, low, high = values['interval'](final['Pass@4'])
    want = paired_interval(final['Pass@4'], np.zeros(values['SEEDS']))
    assert (mean, low, high) == pytest.approx(want)
    assert values['interval'](np.array([0.9, 1.0]))[2] == 1.0
    at_16 = values['runs']['Pass@1'][0, -1, :, -1]
    assert at_16.min() > 0.95
    for last, _ in values['others'].values():
        assert last.min() > 0.95


def assert_the_run_is_shown(values: dict[str, Any], table: Any, page: Any) -> None:
    workdir = values['WORKDIR']
    (*_, last) = tiny.metrics(workdir, 'test')
    assert last['step'] == 5
    cells = f'{last["pass_at_4"]:.3f} [{last["pass_at_4_low"]:.3f}, '
    assert cells in table.data.splitlines()[-1]
    assert table.data.splitlines()[-1].startswith('| Pass@4 | ')
    assert '<h2>Responses</h2>' in page.data
    assert f'<p class=&quot;lead&quot;>{workdir.name}</p>' in page.data
    with pytest.raises(RuntimeError, match='what went wrong'):
        list(values['python']('-c', 'raise SystemExit("what went wrong")'))


def assert_each_problem_is_where_it_belongs(values: dict[str, Any]) -> None:
    """The counts of the run that it was given, and problems in their order."""
    run = values['run'].path / 'evaluation'
    for column, step in enumerate((0, 2, 4, 5)):
        rows = tiny.read_lines(run / f'validation_step_{step:08d}.jsonl')
        by_id = {row['problem_id']: row['c'] / 4 for row in rows}
        shares = dict(zip(values['ids'], values['share'][:, column], strict=True))
        assert shares == by_id
    at_the_end = values['share'][values['order'], -1]
    assert (np.diff(at_the_end) <= 0).all()
    changed = np.abs(values['share'][:, -1] - values['share'][:, 0])
    assert changed[list(values['ids']).index(values['chosen'])] == changed.max()
    problem = values['records'][5][values['chosen']]
    assert values['answers'][5] == collections.Counter(problem['parsed'])
    before, after = values['before'], values['after']
    assert set(values['gains']) == {
        i for i in after if (after[i] > 0) != (before[i] > 0)
    }


@pytest.mark.parametrize('evaluated_steps', [(), (4,), (4, 5)])
def test_a_run_with_too_few_evaluations_is_not_inspected(
    evaluated_steps, finished_run, monkeypatch, tmp_path
):
    """Without metrics, and with two evaluations of which one has no records."""
    (tmp_path / 'evaluation').mkdir()
    rows = tiny.metrics(finished_run, 'validation')
    lines = [json.dumps(row) + '\n' for row in rows if row['step'] in evaluated_steps]
    (tmp_path / 'metrics.jsonl').write_text(''.join(lines))
    name = f'validation_step_{4:08d}.jsonl'
    shutil.copy(finished_run / 'evaluation' / name, tmp_path / 'evaluation')
    monkeypatch.setenv('PASSK_RUN', str(tmp_path))
    steps = re.escape(str(list(evaluated_steps[:1])))
    with (
        plt.rc_context(),
        pytest.raises(RuntimeError, match=f'the evaluations of steps {steps}, and'),
    ):
        runpy.run_path(str(EXPERIMENTS / 'inspect_run.py'))


def installation() -> str:
    """The cells of the hosted notebook with its parameters and its installation."""
    cells = jupytext.read(EXAMPLES / 'hosted.py').cells
    code = [cell.source for cell in cells if cell.cell_type == 'code']
    return '\n'.join(code[:2])


def test_a_hosted_notebook_without_an_address_asks_for_it(monkeypatch):
    monkeypatch.delenv('PASSK_REPOSITORY', raising=False)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(RuntimeError, match='set REPOSITORY to its git address'):
        exec(installation(), {})


@pytest.mark.parametrize(
    ('device', 'cuda', 'extra'),
    [
        ('/dev/accel0', None, 'jax[tpu]'),
        ('/dev/vfio/0', None, 'jax[tpu]'),
        (None, '12.4', 'jax[cuda12]'),
        (None, '13.0', 'jax[cuda13]'),
        (None, None, 'jax[cpu]'),
    ],
)
def test_a_hosted_notebook_installs_the_project_and_the_jax_of_its_device(
    device, cuda, extra, monkeypatch, tmp_path
):
    commands = []

    def run(command: Any, **_: Any) -> subprocess.CompletedProcess:
        output = f'| Driver Version: 550.54   CUDA Version: {cuda} |'
        if command != 'nvidia-smi':
            commands.append([str(part) for part in command])
        return subprocess.CompletedProcess(command, 0, stdout=output)

    def find(pattern: str) -> list[str]:
        stem = pattern.rstrip('*').removesuffix('[0-9]')
        return [device] if device and device.startswith(stem) else []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PASSK_REPOSITORY', 'the-address')
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    monkeypatch.setattr(glob, 'glob', find)
    monkeypatch.setattr(shutil, 'which', lambda name: name if cuda else None)
    monkeypatch.setattr(subprocess, 'run', run)
    monkeypatch.setattr(sys, 'path', [])
    exec(installation(), {})
    clone, install = commands
    assert clone == ['git', 'clone', '--depth=1', 'the-address', 'passk_jax_repository']
    project = 'passk_jax_repository[reasoning-gym]'
    assert install[1:] == ['-m', 'pip', 'install', '-q', '-e', project, extra]
    assert sys.path == [str(tmp_path / 'passk_jax_repository')]
