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
# # A run inspected
#
# The curves of a run are means over problems. This notebook looks below them: which
# problems a policy learned and which it lost, and how its answers to one problem
# changed. Everything comes from the run directory. The variable `PASSK_RUN` names one;
# without it, the notebook first trains a policy of 100 thousand parameters on mazes of
# 4x4 for 40 steps, which takes a core less than a minute. That toy shows what can be
# looked at; that it loses Pass@32 is evidence of nothing.
#
# This file is the source; the notebook beside it is made from it, from the root of the
# repository, by
#
#     jupytext --to ipynb experiments/inspect_run.py
#     PYTHONPATH=$PWD jupyter execute --inplace experiments/inspect_run.ipynb

# %%
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from configs import maze_tiny
from passk_jax import compare
from passk_jax.diagnostics.flips import flips
from passk_jax.evaluation import comparison
from passk_jax.report.arms import COLORS
from passk_jax.report.charts import NOTEBOOK_STYLE, draw_panel
from passk_jax.report.panels import most_evaluated
from passk_jax.report.run_data import correct_counts, evaluation_records, read_run
from passk_jax.tasks import make_task
from passk_jax.tasks.maze.drawing import walk

RUN = os.environ.get('PASSK_RUN', '')
PROBLEM = None  # the id of the problem to look at; None: the one that changed most
WRONG, RIGHT, GREY = COLORS[0], COLORS[1], '#5a5a5a'
plt.rcParams.update(NOTEBOOK_STYLE)

# %%
SMALL = {
    'task.params.train_sizes': '(4,)',
    'task.params.train_counts': '(2000,)',
    'task.params.validation_sizes': '(4,)',
    'task.params.validation_counts': '(64,)',
    'task.params.max_path': 6,
    'data.max_prompt_tokens': 20,
    'sampling.max_response_tokens': 8,
    'model.arch.num_layers': 2,
    'init.warm_start.steps': 80,
    'init.warm_start.optimizer.learning_rate': 4e-3,
    'optimizer.learning_rate': 6e-4,
    'train.steps': 40,
    'train.micro_batch_prompts': 8,
    'train.pack_sizes': 0,
    'eval.every': 8,
    'eval.final_split': '',
    'log.tensorboard': False,
}

if not RUN:
    config = pathlib.Path(maze_tiny.__file__)
    RUN = tempfile.mkdtemp()
    command = [sys.executable, '-m', 'passk_jax.train', f'--config={config}']
    command += [f'--workdir={RUN}', *(f'--config.{k}={v}' for k, v in SMALL.items())]
    root = config.parents[1]
    trained = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if trained.returncode:
        raise RuntimeError(trained.stderr)

run = read_run(RUN)
split = most_evaluated(run)
records = {
    row['step']: {
        record['problem_id']: record
        for record in evaluation_records(run, split, row['step'])
    }
    for row in run.evaluations.get(split, [])
}
steps = [step for step, of_step in records.items() if of_step]
if len(steps) < 2:
    raise RuntimeError(
        f'{run.path} has the evaluations of steps {steps}, and this notebook needs two '
        'or more: wait for them, or train with eval.every and eval.split'
    )
first, last = steps[0], steps[-1]
ids = np.array(sorted(records[last]))
n = records[last][ids[0]]['n']
print(
    f'{run.option("name")}, {run.option("advantage.name")}: {len(ids)} problems of the '
    f'{split} split, {n} responses to each, evaluated at steps {steps}'
)

# %% [markdown]
# ## Every problem, at every evaluation
#
# A row is a problem, a column an evaluation, and the colour says how many of the
# responses are right. A mean can rise because all rows grow darker, or because some do
# while others fade; the bars on the right say which it was.

# %%
share = np.array([[records[s][i]['c'] for s in steps] for i in ids]) / n
ticks = np.unique(np.linspace(0, len(steps) - 1, 7).round().astype(int))
order = np.lexsort((share.mean(axis=1), share[:, -1]))[::-1]
NONE = '#ededed'
# Without its palest colours, which could be taken for none.
scale = ListedColormap(plt.colormaps['YlGnBu'](np.linspace(0.2, 1, 256)))
scale = scale.with_extremes(under=NONE)

_, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.8), layout='constrained', width_ratios=(1.1, 1)
)
cells = left.imshow(
    share[order], aspect='auto', cmap=scale, vmin=0.5 / n, vmax=1, interpolation='none'
)
left.set(
    title='Success of each problem',
    xlabel='training step',
    ylabel=f'{len(ids)} problems, by success at the end',
    xticks=ticks,
    xticklabels=[steps[i] for i in ticks],
    yticks=[],
)
left.grid(False)
bar = plt.colorbar(cells, ax=left, extend='min', pad=0.02)
bar.set_label('share of its responses that are right (grey: none)')

bottom = np.zeros(len(steps))
for low, high in ((-1, 0), (0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)):
    counts = ((low < share) & (share <= high)).sum(axis=0)
    color, label = scale((low + high) / 2), f'to {high:.0%}' if high else 'none'
    right.bar(range(len(steps)), counts, 0.8, bottom, color=color, label=label)
    bottom += counts
right.set(
    title='Problems by share of right responses',
    xlabel='training step',
    ylabel='problems',
    xticks=ticks,
    xticklabels=[steps[i] for i in ticks],
    ylim=(0, len(ids)),
)
right.grid(False)
right.legend(title='right', loc='center left', bbox_to_anchor=(1, 0.5), reverse=True)
plt.show()

# %% [markdown]
# ## The answers to one problem
#
# Each column is the policy of a step. Above, every answer's path through the maze is
# as wide as the answer is frequent: blue if it is right, orange if it is wrong; walls
# are grey. Below, the same answers in letters (Up, Down, Left, Right), with their share
# of the responses.

# %%
chosen = PROBLEM
if chosen is None:
    chosen = ids[np.abs(share[:, -1] - share[:, 0]).argmax()]
tick_steps = [steps[i] for i in ticks]
answers = {
    step: collections.Counter(records[step][chosen]['parsed']) for step in tick_steps
}
verdicts = {
    answer: is_right
    for step in tick_steps
    for answer, is_right in zip(
        records[step][chosen]['parsed'], records[step][chosen]['correct'], strict=True
    )
}
task = make_task(run.option('task.name'), run.option('task.params'))
problems = task.source(split, data_dir=run.option('data.dir'))
data = next(problem.data for problem in problems if problem.id == chosen)


def draw_paths(ax, maze, counts):
    """The maze, and the path of every answer, as wide as it is frequent."""
    rows = maze.split('\n')
    places = {(r, c): cell for r, row in enumerate(rows) for c, cell in enumerate(row)}
    walls = [[cell == '*' for cell in row] for row in rows]
    ax.imshow(walls, cmap='Greys', vmin=0, vmax=1.6)
    start = next(place for place, cell in places.items() if cell == 'S')
    for answer, count in reversed(counts.most_common()):
        path, _ = walk(places, start, answer)
        y, x = np.array(path, float).T
        width = 0.6 + 7 * count / counts.total()
        color = RIGHT if verdicts[answer] else WRONG
        ax.plot(x, y, color=color, linewidth=width, alpha=0.75, solid_capstyle='round')
    for (r, c), cell in places.items():
        if cell in 'SE':
            disc = {'boxstyle': 'circle,pad=0.1', 'facecolor': 'white', 'alpha': 0.85}
            ax.text(c, r, cell, size=8, ha='center', va='center', bbox=disc)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
    ax.grid(False)


# %%
MOST = 10
total = sum(answers.values(), collections.Counter())
listed = [answer for answer, _ in total.most_common(MOST)]
listed.sort(key=lambda answer: (not verdicts[answer], -total[answer]))
table = (
    np.array([[answers[step][answer] for step in tick_steps] for answer in listed]) / n
)

figure = plt.figure(figsize=(9, 5.2), layout='constrained')
grid = figure.add_gridspec(2, len(tick_steps), height_ratios=(1, 1.9))
if 'maze' in data:
    for place, step in enumerate(tick_steps):
        ax = figure.add_subplot(grid[0, place])
        draw_paths(ax, data['maze'], answers[step])
        ax.set_title(f'step {step}', loc='center', weight='normal')
ax = figure.add_subplot(grid[1, :])
for y, answer in enumerate(listed):
    color = RIGHT if verdicts[answer] else WRONG
    for x, part in enumerate(table[y]):
        ax.barh(y, 1, 0.94, x - 0.5, color=color, alpha=0.9 * part**0.5, linewidth=0)
        if part:
            ax.text(x, y, f'{part:.0%}', ha='center', va='center')
for x, step in enumerate(tick_steps):
    remainder = len(answers[step].keys() - set(listed))
    text = f'{remainder} more' if remainder else ''
    ax.text(x, len(listed), text, ha='center', va='center', color=GREY)
ax.set(
    xlim=(-0.5, len(tick_steps) - 0.5),
    ylim=(len(listed) + 0.5, -0.6),
    xticks=range(len(tick_steps)),
    xticklabels=tick_steps,
    yticks=range(len(listed)),
    xlabel='training step',
    ylabel=f'the {len(listed)} most frequent answers',
)
ax.set_yticklabels([answer or '(none)' for answer in listed], family='monospace')
for label, answer in zip(ax.get_yticklabels(), listed, strict=True):
    label.set_color(RIGHT if verdicts[answer] else WRONG)
ax.grid(False)
ends = ', '.join(f'{records[s][chosen]["c"]} at step {s}' for s in (first, last))
title = f'Problem {chosen}: right responses of {n}: {ends}'
figure.suptitle(title, weight='bold', x=0.01, ha='left', fontsize=11)
plt.show()

# %% [markdown]
# ## Pass@k before and after
#
# From the same responses: the mean over problems, with its 95 % interval. The interval
# of the difference is paired. Both are over problems; what another seed would give, one
# run cannot say. These are the functions behind `python -m passk_jax.compare`.

# %%
arms = [
    compare.read_arm(f'step {step}={run.path}', split=split, step=step)
    for step in (first, last)
]
_, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout='constrained')
panels = compare.panels(arms, comparison.compare(arms))
for panel, ax in zip(panels, axes, strict=False):
    draw_panel(panel, ax)
    ax.set(title=panel.title, ylabel='mean over problems [95 %]')
plt.show()

# %% [markdown]
# ## Problems that flipped
#
# A problem is solved if any of its responses is right. One with a single right response
# is at the edge, and flips even if the policy stays the same; long bars are changes of
# the policy.

# %%
before, after = (correct_counts(run, split, step) for step in (first, last))
flipped = flips(before, after)
gains = {i: after[i] for i in flipped.solved}
gains |= {i: -before[i] for i in flipped.unsolved}
largest = sorted(gains, key=lambda i: abs(gains[i]), reverse=True)[:40]
largest.sort(key=gains.get, reverse=True)

_, ax = plt.subplots(figsize=(9, 3.4), layout='constrained')
colors = [RIGHT if gains[i] > 0 else WRONG for i in largest]
ax.bar(range(len(largest)), [gains[i] for i in largest], color=colors)
ax.axhline(0, color=GREY, linewidth=0.8)
ax.set(
    title=f'From step {first} to {last}, {len(flipped.solved)} problems became solved '
    f'(blue) and {len(flipped.unsolved)} unsolved (orange)',
    xlabel='problem' if len(gains) == len(largest) else 'problem (the 40 largest)',
    ylabel=f'right responses of {n}\n(down: at step {first}, up: at step {last})',
    xticks=range(len(largest)),
)
ax.set_xticklabels(largest, rotation=90 if len(largest) > 25 else 0)
ax.yaxis.set_major_formatter(lambda value, _: f'{abs(value):g}')
ax.yaxis.get_major_locator().set_params(integer=True)
ax.grid(axis='x', visible=False)
ax.set_axisbelow(True)
plt.show()
