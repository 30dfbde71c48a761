"""One place: what a stranger adds by CONTRIBUTING.md needs no other change.

A copy of the tree gets one addition of each kind (``additions.py``). A run trains
with all of them. By hand, the tests that loop over tables run on the copy, and so does
the whole test command:

    python -m pytest tests/one_place_test.py -m slow
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests import tiny
from tests.additions import ADDITIONS

# Paths that a copy leaves out; ``runs`` only at the top.
LEFT_OUT = ('.git', '.venv', '__pycache__', '.pytest_cache', '.ruff_cache', 'runs')

# The quick files of tests that loop over tables or compare a page with one.
QUICK = (
    *('ablations', 'advantages/table', 'config/conversion', 'configs_pages', 'layers'),
    *('models/families/table', 'mutations', 'readme', 'tasks/abilities', 'tasks/main'),
)
# From these files, the cases of an addition and some tests of a whole table.
SLOWER = (
    *('advantages/configured', 'advantages/estimators', 'advantages/make'),
    *(
        'advantages/tabulation',
        'advantages/curve_weight',
        'configs',
        'evaluation/evaluate',
    ),
    *('models/hf/config', 'models/hf/parity', 'models/hf/save_tokenizer'),
    *('rollouts/estimate', 'tasks', 'train'),
)
CASES = (
    *('clipped_grpo', 'bit_parity', 'seed_oss', 'less_clipping', 'larger_groups'),
    *('a_summary_is', 'names_of_the_metrics', 'unknown_task', 'model_row_of_the_paper'),
)
# They start programs, train or compile for meshes: what is below does, once.
COSTLY = (
    *('importing_defines', 'start_no_backend', 'prints_and_starts'),
    *('of_each_kind_trains', 'a_mesh_gives'),
)

# A run with all of them.
RUN = """
import dataclasses, pathlib, sys
from passk_jax.config import TaskConfig
from tests import tiny
config = tiny.make_config(
    **tiny.ONLY_STEPS | {'eval__every': 1, 'eval__split': 'test'},
    train__steps=1,
    advantage__name='clipped_grpo',
    advantage__bound=0.75,
    model__family='seed_oss',
)
task = TaskConfig('bit_parity', {'num_bits': 6})
assert tiny.run(dataclasses.replace(config, task=task), pathlib.Path(sys.argv[1]))
"""


@pytest.fixture(scope='module')
def copy(tmp_path_factory) -> pathlib.Path:
    """The tree with every addition."""
    root = tmp_path_factory.mktemp('stranger') / 'tree'

    def choose_left_out(directory: str, names: list[str]) -> set[str]:
        top = pathlib.Path(directory) == tiny.ROOT
        return {*names} & {*(LEFT_OUT if top else LEFT_OUT[:-1])}

    shutil.copytree(tiny.ROOT, root, ignore=choose_left_out)
    for addition in ADDITIONS.values():
        addition.apply(root)
    # Both can share compiled programs: this process waits for the other.
    cache = tiny.ROOT / '.pytest_cache'
    cache.mkdir(exist_ok=True)
    (root / '.pytest_cache').symlink_to(cache)
    return root


def run(root: pathlib.Path, *arguments: str) -> str:
    """Runs Python in the copy; what it printed, which a failure shows the end of."""
    command = [sys.executable, *arguments]
    environment = os.environ | {'PYTHONPATH': str(root)}
    result = subprocess.run(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-6000:]
    return result.stdout


def run_tests(root: pathlib.Path, *arguments: str, marks: str = 'not slow') -> int:
    """Runs tests in the copy, without this file; how many passed."""
    output = run(
        root,
        *('-m', 'pytest', '-p', 'no:cacheprovider', '--tb=short'),
        *(f'--basetemp={root.parent / "tmp"}', *arguments),
        *('--ignore=tests/one_place_test.py', '-o', 'addopts='),
        *('-m', marks, '-q'),
    )
    return int(re.search(r'(\d+) passed', output)[1])


def test_what_a_kind_touches_is_what_contributing_names():
    page = (tiny.ROOT / 'CONTRIBUTING.md').read_text()
    rows = {line.split(' | ')[0]: line for line in page.splitlines() if '|' in line}
    titles = {
        'estimator': '| an advantage estimator',
        'task': '| a task',
        'metric': '| a metric of an evaluation',
        'family': '| a model family',
        'config': '| an experiment or an ablation',
    }
    for kind, addition in ADDITIONS.items():
        row = rows[titles[kind]].split(' | ')[1].replace('<name>', 'NAME')
        touched = [*addition.rows, *addition.files]
        # Two configs: one of each folder.
        assert len(touched) <= 2, kind
        for path in touched:
            place = path if path in addition.rows else str(pathlib.Path(path).parent)
            assert place in row or pathlib.Path(path).name in row, (kind, path)


@pytest.mark.slow
def test_additions_of_every_kind_leave_the_loops_over_tables_green(copy):
    files = [f'tests/{name}_test.py' for name in (*QUICK, *SLOWER)]
    chosen = [*(f'{name}_test'.rpartition('/')[2] for name in QUICK), *CASES]
    # A module's name is a keyword of its tests; that of tasks_test is in SLOWER.
    words = f'({" or ".join(chosen)}) and not ({" or ".join(COSTLY)})'
    # A new row of many tables is slow.
    assert run_tests(copy, *files, '-k', words, marks='') > 400


def test_a_run_trains_with_an_addition_of_every_kind(copy, tmp_path):
    run(copy, '-c', RUN, str(tmp_path / 'run'))
    section = json.loads((tmp_path / 'run' / 'config.json').read_text())['advantage']
    assert section.items() >= {'name': 'clipped_grpo', 'bound': 0.75}.items()
    (step,) = tiny.metrics(tmp_path / 'run', 'train')
    assert 0 < step['mean_abs_advantage'] <= 0.75
    assert step['grad_norm'] > 0
    evaluations = tiny.metrics(tmp_path / 'run', 'test')
    assert len(evaluations) == 2
    for values in evaluations:
        assert values['longest_response'] >= values['response_length'] > 0
        assert 0 <= values['first_of_4'] <= 1


@pytest.mark.slow
def test_additions_of_every_kind_leave_the_whole_test_command_green(copy):
    # Its workers have the same names as ours, so they cannot share the cache.
    (copy / '.pytest_cache').unlink()
    run(copy, '-m', 'ruff', 'format', '.')
    run(copy, '-m', 'ruff', 'check', '.')
    # The same default as in the Makefile.
    workers = os.environ.get('PYTEST_ARGS', '-n 3 --dist loadfile').split()
    assert run_tests(copy, *workers) > 5000
