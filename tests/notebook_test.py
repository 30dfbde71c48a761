"""The notebooks in experiments/ are made from their scripts and have been run."""

import pathlib
import runpy
import warnings
from typing import Any

import jupytext
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest

EXPERIMENTS = pathlib.Path(__file__).resolve().parents[1] / 'experiments'
NOTEBOOKS = sorted(EXPERIMENTS.glob('*.ipynb'))


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
    assert all(output.get('name') != 'stderr' for output in outputs)
    assert any('image/png' in output.get('data', {}) for output in outputs)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=notebook_id)
def test_the_script_runs_and_draws_what_the_notebook_shows(path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    shown = sum(
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

    monkeypatch.setattr(plt, 'show', show)
    with warnings.catch_warnings(), plt.rc_context():
        warnings.simplefilter('error', RuntimeWarning)
        values = runpy.run_path(str(path.with_suffix('.py')))
    assert len(drawn) == shown
    if path.stem == 'safe_arm':
        assert_the_safe_arm_is_a_trap(values)


def assert_the_safe_arm_is_a_trap(values: dict[str, Any]) -> None:
    """What the notebook says, of every seed, and where it says it does not hold."""
    final, safe = values['final'], values['SAFE'] / values['PROMPTS']
    for label in ('Pass@1', 'Pass@1 without its sigma (Dr. GRPO)'):
        assert np.abs(final[label] - safe).max() < 0.01
    assert final['Pass@4'].min() > safe + 0.3
    assert final['Pass@4 to step 400, then Pass@1'].min() > 0.94
    assert final['combination'].min() > 0.9
    assert values['by_rate']['Pass@1'][-1].min() > 0.95
    for result, _ in values['others'].values():
        assert result[0][0, :, -1].min() > 0.95
