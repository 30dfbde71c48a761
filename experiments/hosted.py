# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Pass@k Training on a hosted TPU or GPU
#
# Opens on any hosted notebook with a TPU, a GPU or neither: it installs the project,
# trains the maze policy of `configs/maze_tiny.py`, and shows what the run leaves. Set
# `REPOSITORY` to the project's address for git, or upload the project and start here.
# The same cells run on a laptop, and in the tests; so far they have run on CPUs only.
#
# This file is the source; the notebook beside it is made from it, from the root of the
# repository, by
#
#     jupytext --to ipynb experiments/hosted.py
#     PYTHONPATH=$PWD jupyter execute --inplace experiments/hosted.ipynb

# %%
import glob
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

REPOSITORY = os.environ.get('PASSK_REPOSITORY', '')
CLONE = pathlib.Path('passk_jax_repository')


def jax_extra():
    """The extra of jax for this machine's accelerator."""
    if glob.glob('/dev/accel*') or glob.glob('/dev/vfio/[0-9]*'):
        return 'tpu'
    if shutil.which('nvidia-smi'):
        said = subprocess.run('nvidia-smi', capture_output=True, text=True).stdout
        if version := re.search(r'CUDA Version: (\d+)', said):
            return 'cuda13' if int(version[1]) >= 13 else 'cuda12'
    return 'cpu'


if importlib.util.find_spec('passk_jax') is None:
    if not REPOSITORY:
        raise RuntimeError('passk_jax is not here: set REPOSITORY to its git address')
    if not CLONE.is_dir():
        subprocess.run(['git', 'clone', '--depth=1', REPOSITORY, CLONE], check=True)
    needs = ['-r', CLONE / 'requirements.txt', f'jax[{jax_extra()}]']
    subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', *needs], check=True)
    sys.path.insert(0, str(CLONE.resolve()))

# %% [markdown]
# ## The devices
#
# A TPU serves one process at a time, so this notebook leaves it to the processes that
# it starts.

# %%
import passk_jax

ROOT = pathlib.Path(passk_jax.__file__).parents[1]
CONFIG = os.environ.get('PASSK_CONFIG', 'configs/maze_tiny.py')
WORKDIR = ROOT / os.environ.get('PASSK_WORKDIR', 'runs/hosted')


def python(*arguments):
    """Runs Python in the project; yields what it prints and fails if it does."""
    command = [sys.executable, '-u', *arguments]
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, 'text': True}
    lines = []
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        try:
            for line in process.stdout:
                lines.append(line)
                yield line
        except BaseException:
            # Interrupting the cell stops the run, which saves its state.
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(''.join(lines[-20:]))


SEEN = "import jax; print('devices:', *(d.device_kind for d in jax.devices()))"
for line in python('-c', SEEN):
    if line.startswith('devices:'):
        print(line, end='')

# %% [markdown]
# ## Training
#
# A supervised warm start, then Pass@4 Training, with evaluations on the way: minutes on
# two CPU cores. Interrupt it and run the cell again: it goes on where it was.

# %%
train = ['-m', 'passk_jax.train', f'--config={CONFIG}', f'--workdir={WORKDIR}']
for line in python(*train):
    if 'progress.py' in line:
        print(line.partition('] ')[2], end='')

# %% [markdown]
# ## What came out

# %%
import matplotlib.pyplot as plt
from IPython.display import HTML, Markdown, display

from passk_jax.report.arms import markdown_table
from passk_jax.report.charts import NOTEBOOK_STYLE, draw_panel
from passk_jax.report.panels import metric_panels
from passk_jax.report.run_data import ks_of, read_run

run = read_run(WORKDIR)
split = run.option('eval.final_split') or run.option('eval.split')
before, after = run.evaluations[split][0], run.evaluations[split][-1]


def cell(row, k):
    mean, low, high = (row[f'pass_at_{k}{end}'] for end in ('', '_low', '_high'))
    return f'{mean:.3f} [{low:.3f}, {high:.3f}]'


head = [f'{split} split [95 %]', *(f'step {row["step"]}' for row in (before, after))]
rows = [[f'Pass@{k}', cell(before, k), cell(after, k)] for k in ks_of([after])]
display(Markdown('\n'.join(markdown_table(head, rows))))

# %%
plt.rcParams.update(NOTEBOOK_STYLE)
_, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout='constrained')
for panel, ax in zip(metric_panels(run), axes, strict=False):
    draw_panel(panel, ax)
    ax.set_title(panel.title)
plt.show()

# %% [markdown]
# ## The whole report
#
# The page is one file, `report.html` in the run directory, with the advantage in use
# and mazes with the path of each answer.

# %%
page = (WORKDIR / 'report.html').read_text()
# Where it lies says nothing on a machine that is gone tomorrow.
page = page.replace(str(WORKDIR), WORKDIR.name).replace('&', '&amp;')
page = page.replace('"', '&quot;')
frame = f'<iframe srcdoc="{page}" width="100%" height="700"></iframe>'
# IPython would advise against an iframe alone.
display(HTML(f'<div>{frame}</div>'))
