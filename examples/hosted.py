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
# # Pass@k Training of a language model on a hosted TPU or GPU
#
# Opens in Colab (TPU v5e-1, or a GPU), Kaggle (TPU v5e-8) and on a laptop: it installs
# the project, teaches a published model the form of an answer, trains it on five sets
# of reasoning-gym, and shows what came out. **It has run on CPUs only**: the outputs
# below are of SmolLM2-135M and a few steps on one core, so they show what a cell
# prints, not what training does.
#
# What `plan` says of a run here (all models and chips: `experiments/plans/chips.md`):
#
# | | memory of a chip, GiB | an update takes at least |
# |---|---|---|
# | Qwen2.5-0.5B on v5e-1 | 14.2 of 15.8 | 1 s |
#
# Expect several times as long, and minutes of compilation in the first steps. On a
# v5e-1 with Qwen2.5-0.5B, 64 tokens of a step's 128 responses take at least 0.14 s
# more, so that 100 steps take at least 115 s. The evaluations have some 48,000
# responses in all.
#
# This file is the source; the notebook beside it is made from it, from the root of the
# repository, by
#
#     jupytext --to ipynb examples/hosted.py
#     PYTHONPATH=$PWD jupyter execute --inplace examples/hosted.ipynb

# %% [markdown]
# ## Parameters
#
# Prints nothing. `REPOSITORY` is the project's address for git; a notebook in a clone
# needs none. For a first look add `'--config.train.steps=10'` to `FLAGS`; for Pass@1
# Training `'--config.advantage.name=pass_at_1'`. `CONFIG = 'configs/maze_tiny.py'`
# trains a small maze policy instead, in minutes on two CPU cores.

# %%
import os

REPOSITORY = os.environ.get('PASSK_REPOSITORY', '')
# Or 'HuggingFaceTB/SmolLM2-360M-Instruct', or a directory.
MODEL = os.environ.get('PASSK_MODEL', 'Qwen/Qwen2.5-0.5B-Instruct')
CONFIG = os.environ.get('PASSK_CONFIG', f'configs/smollm2.py:source={MODEL},on=chip')
FLAGS = os.environ.get('PASSK_FLAGS', '').split()
RUN = os.environ.get('PASSK_WORKDIR', 'runs/hosted')

# %% [markdown]
# ## Installation
#
# Prints nothing, or the warnings of pip. One to three minutes, most of them for JAX.

# %%
import glob
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

CLONE = pathlib.Path('passk_jax_repository')


def jax_extra():
    """The extra of jax for this machine's accelerator."""
    if glob.glob('/dev/accel*') or glob.glob('/dev/vfio/[0-9]*'):
        return 'tpu'
    if shutil.which('nvidia-smi'):
        output = subprocess.run('nvidia-smi', capture_output=True, text=True).stdout
        if version := re.search(r'CUDA Version: (\d+)', output):
            return 'cuda13' if int(version[1]) >= 13 else 'cuda12'
    return 'cpu'


if importlib.util.find_spec('passk_jax') is None:
    if not REPOSITORY:
        raise RuntimeError('passk_jax is not here: set REPOSITORY to its git address')
    if not CLONE.is_dir():
        subprocess.run(['git', 'clone', '--depth=1', REPOSITORY, CLONE], check=True)
    needs = ['-e', f'{CLONE}[reasoning-gym]', f'jax[{jax_extra()}]']
    subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', *needs], check=True)
    sys.path.insert(0, str(CLONE.resolve()))

# %% [markdown]
# ## The devices
#
# Prints `devices: TPU v5 lite`, eight of them on a v5e-8, or the name of the GPU, in
# seconds. `devices: cpu` means that the runtime has no accelerator, or that JAX did not
# find it. A TPU serves one process at a time, so this notebook leaves it to the
# processes that it starts.

# %%
import passk_jax

ROOT = pathlib.Path(passk_jax.__file__).parents[1]
WORKDIR = ROOT / RUN


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
# A warm start on 128 examples of the form `<answer>x</answer>`, an evaluation, Pass@4
# Training, an evaluation. Prints a line now and then: the step and what is left, the
# warm start's loss, the reward and Pass@k of a step. For the time see the table above.
# Interrupt it and run the cell again: it goes on where it was. If the device runs out
# of memory, `python -m passk_jax.plan --fit` finds flags for `FLAGS`.

# %%
train = ['-m', 'passk_jax.train', f'--config={CONFIG}', f'--workdir={RUN}', *FLAGS]
for line in python(*train):
    if 'progress.py' in line:
        print(line.partition('] ')[2], end='')

# %% [markdown]
# ## What came out
#
# A table of Pass@k with 95 % intervals, before and after training, on problems that it
# did not train on; then the curves of the run. At once.

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
# Shows the page `report.html` of the run directory: the advantage in use, every metric,
# the examples of the warm start, and responses with their verdicts. At once.

# %%
page = (WORKDIR / 'report.html').read_text()
# Where it lies says nothing on a machine that is gone tomorrow.
page = page.replace(str(WORKDIR), WORKDIR.name).replace('&', '&amp;')
page = page.replace('"', '&quot;')
frame = f'<iframe srcdoc="{page}" width="100%" height="700"></iframe>'
# IPython would advise against an iframe alone.
display(HTML(f'<div>{frame}</div>'))
