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
# # Advantage curves
#
# With rewards of 0 and 1, every design of the paper gives one advantage $\hat A^+$ to
# the correct responses of a problem and another, $\hat A^-$, to the wrong ones, and
# both depend only on how many of the $N$ responses are correct. So a design *is* a
# pair of curves. These are the paper's figures of them at $N = 32$, drawn from the
# jitted functions that training calls, and a figure of what it costs to sample groups
# instead of counting them.
#
# This file is the source; the notebook beside it is made from it, from the root of the
# repository, by
#
#     jupytext --to ipynb experiments/advantage_curves.py
#     PYTHONPATH=$PWD jupyter execute --inplace experiments/advantage_curves.ipynb

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from passk_jax.advantages import (
    curves,
    effective_weight,
    implied_objective,
    make_estimator,
    sum_abs_advantage,
)
from passk_jax.report.charts import NOTEBOOK_STYLE

NUM_ROLLOUTS = 32
BLUE, RED, GREY = '#1f6fb4', '#d1495b', '#5a5a5a'

plt.rcParams.update(NOTEBOOK_STYLE)

num_correct = jnp.arange(NUM_ROLLOUTS + 1)
accuracy = np.asarray(num_correct) / NUM_ROLLOUTS


def curve_of(design, **params):
    """The design's curve over every count, and its sum of absolute advantages."""
    curve = jax.jit(functools.partial(design, num_rollouts=NUM_ROLLOUTS, **params))
    positive, negative = curve(num_correct)
    eta = sum_abs_advantage(num_correct, positive, negative, num_rollouts=NUM_ROLLOUTS)
    return np.asarray(positive), np.asarray(negative), np.asarray(eta)


def draw_designs(designs):
    """One column a design: the two advantages above, their absolute sum below."""
    _, axes = plt.subplots(
        2, len(designs), figsize=(9, 4.1), sharex=True, layout='constrained'
    )
    for (title, (positive, negative, eta)), (above, below) in zip(
        designs.items(), axes.T, strict=True
    ):
        above.axhline(0, color=GREY, linewidth=0.7)
        above.plot(accuracy, positive, color=BLUE, label=r'$\hat A^+$, correct')
        above.plot(accuracy, negative, '--', color=RED, label=r'$\hat A^-$, wrong')
        above.set_title(title)
        peak = int(np.argmax(eta))
        below.fill_between(accuracy, eta, color=GREY, alpha=0.15, linewidth=0)
        below.plot(accuracy, eta, color=GREY)
        below.plot(accuracy[peak], eta[peak], 'o', color=GREY, markersize=4)
        below.annotate(
            rf'{eta[peak]:.4g} at $\frac{{{peak}}}{{{NUM_ROLLOUTS}}}$',
            (accuracy[peak], eta[peak]),
            xytext=(7, 2),
            textcoords='offset points',
        )
        below.set_ylim(0, 1.22 * eta[peak])
        below.set_xlim(0, 1)
        below.set_xlabel('accuracy')
    axes[0, 0].set_ylabel('advantage')
    axes[1, 0].set_ylabel(r'sum of absolute advantages $\eta$')
    axes[0, -1].legend(loc='upper right')
    plt.show()


# %% [markdown]
# ## Pass@1 and Pass@k
#
# $\eta = N_\text{pos} |\hat A^+| + N_\text{neg} |\hat A^-|$ says how hard a problem
# pulls. Pass@1 pulls hardest at one half, and as hard on 90 % as on 10 %. With $k$ the
# peak moves to harder problems, and easy ones fade out. It is also lower: at one
# learning rate, a larger $k$ takes smaller steps (each column has its own scale).

# %%
draw_designs(
    {
        'Pass@1': curve_of(curves.pass_at_1),
        'Pass@4': curve_of(curves.pass_at_k, k=4),
        'Pass@8': curve_of(curves.pass_at_k, k=8),
        'Pass@16': curve_of(curves.pass_at_k, k=16),
    }
)

# %% [markdown]
# For $k$ = 4, 8 and 16 the peak lies at an accuracy of $1/k$: one correct response a
# group. The paper puts that of Pass@8 at 25 %; by its own equations 25 % is Pass@4, and
# Pass@8 peaks at 12.5 %.

# %% [markdown]
# ## Designs made from the two
#
# All with $k = 8$. The paper does not say above which accuracy a problem is easy, nor
# where the piecewise design switches; 0.6 and 0.5 are our defaults. Dropping easy
# problems from Pass@8 removes little, because little is left there to remove.

# %%
draw_designs(
    {
        'Without easy': curve_of(curves.without_easy, k=8, easy_threshold=0.6),
        'Piecewise': curve_of(curves.piecewise, k=8, switch_threshold=0.5),
        'Exceeding': curve_of(curves.exceeding, k=8),
        'Combination': curve_of(curves.combination, k=8),
    }
)

# %% [markdown]
# ## What a design works on
#
# The same $\eta$, each over its own peak: the height can be had from the learning rate,
# the shape cannot.

# %%
SHAPES = {
    'Pass@1': (curve_of(curves.pass_at_1), '#9fc5e8', '-'),
    'Pass@4': (curve_of(curves.pass_at_k, k=4), '#3d85c6', '-'),
    'Pass@8': (curve_of(curves.pass_at_k, k=8), '#0b3d68', '-'),
    'Exceeding Pass@8': (curve_of(curves.exceeding, k=8), RED, ':'),
    'Combination, k = 8': (curve_of(curves.combination, k=8), '#e69f00', '--'),
}
_, axis = plt.subplots(figsize=(9, 3.4), layout='constrained')
for label, ((_, _, eta), color, style) in SHAPES.items():
    axis.plot(accuracy, eta / eta.max(), style, color=color, label=label)
axis.set(
    xlim=(0, 1),
    ylim=(0, 1.06),
    xlabel='accuracy of the problem',
    ylabel=r'$\eta$ over its peak',
)
axis.legend(loc='center left', bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# ## What a design optimizes
#
# $\eta$ is the paper's measure. On policy, the expected gradient of a problem with
# success probability $p$ is *exactly* $\omega(p) \nabla p$, at any $N$, with
#
# $$\omega(p) = \mathbb{E}\left[\hat A^+(c' + 1) - \hat A^-(c')\right], \qquad
# c' \sim \mathrm{Bin}(N - 1, p):$$
#
# a response gains $\hat A^+ - \hat A^-$ by being correct, and $c'$ of the others are.
# So every curve climbs the objective $\int \omega$. That of `canonical_k` is pass@k,
# that of MaxRL nearly $\log p$, and that of Pass@k Training $\frac{2}{k} \arcsin
# \sqrt{\mathrm{pass@}k}$ for a large $N$. The figures have $N = 32$, like those above;
# most sweeps in `experiments/` have 16.

# %%
p = np.geomspace(1e-3, 1, 400)
WEIGHTS = {
    'Pass@1 (GRPO)': ('pass_at_1', {}, '#9fc5e8', '-'),
    'Pass@4': ('pass_at_k', {'k': 4}, '#3d85c6', '-'),
    'Pass@8': ('pass_at_k', {'k': 8}, '#0b3d68', '-'),
    'RLOO': ('rloo', {}, GREY, '--'),
    'canonical, k = 8': ('canonical_k', {'k': 8}, '#2a9d6f', '-.'),
    'MaxRL': ('maxrl', {}, RED, ':'),
    'RS-GRPO, β = 2': ('rs_grpo', {'beta': 2.0}, '#e69f00', (0, (7, 2))),
    'F-GRPO, γ = ½': ('f_grpo', {'gamma': 0.5}, '#9440c9', (0, (3, 1, 1, 1, 1, 1))),
}
_, ((weight, relative), (objective, legend)) = plt.subplots(
    2, 2, figsize=(9, 6), layout='constrained'
)
for label, (name, params, color, style) in WEIGHTS.items():
    params = {'num_rollouts': NUM_ROLLOUTS, **params}
    look = {'color': color, 'linestyle': style}
    omega = effective_weight(name, p=p, **params)
    weight.loglog(p, omega, label=label, **look)
    relative.loglog(p, omega / effective_weight(name, p=0.1, **params), **look)
    climbed = implied_objective(name, p=p, **params)
    objective.plot(p, climbed / climbed[-1], **look)
weight.set(title='Weight', ylabel=r'$\omega(p)$', ylim=(1e-2, 50))
relative.set(
    title='Weight over its value at p = 0.1',
    ylabel=r'$\omega(p)\ /\ \omega(0.1)$',
    ylim=(1e-2, 10),
)
objective.set(
    title='Objective over its value at p = 1',
    ylabel=r'$F(p)\ /\ F(1)$',
    xlim=(0, 1),
    ylim=(0, 1.02),
)
for axis in (weight, relative):
    axis.set_xlim(1e-3, 1)
for axis in (weight, relative, objective):
    axis.set_xlabel('success probability p')
legend.axis('off')
legend.legend(*weight.get_legend_handles_labels(), loc='center', handlelength=4)
plt.show()

# %% [markdown]
# Above on the left, at one learning rate Pass@k pushes even the hardest problems less
# than Pass@1 does, and MaxRL pushes them more than five times as much. Beside it, with
# learning rates matched at $p = 0.1$, Pass@k differs from Pass@1 mostly in how soon it
# lets easy problems go. A comparison at one learning rate is also one of step sizes,
# until Adam rescales them.
#
# Below is the objective $F(p) = \int_0^p \omega$, over $F(1)$: the share of all that a
# problem can give which it has given when it is solved with probability $p$. RLOO's is
# $p$ itself. The farther a curve lies above that line, the sooner a problem is left for
# a harder one.

# %% [markdown]
# ## What sampling the groups costs
#
# Take $N = 16$, $k = 4$ and fix the rewards; only the grouping is drawn, 4,000 times.
# Full sampling cuts the responses into four groups; bootstrap sampling draws sixteen
# and sums, so it is shown over $k$ to be on one scale with the analytical form. All
# three estimate nearly the same thing: the sampled ones divide by the $\sigma$ of the
# groups that were drawn, which shifts their means. With 2 of 16 correct full sampling
# has the expectation −0.164 (by enumeration), bootstrap sampling over $k$ has −0.153
# (240,000 draws), and the analytical advantage is −0.158. Counting has no noise at all.

# %%
GROUP_SIZE, GROUPED_ROLLOUTS, NUM_DRAWS = 4, 16, 4_000
ESTIMATES = {
    'full sampling': ('full_sampling', 1, RED),
    'bootstrap sampling': ('bootstrap_sampling', GROUP_SIZE, BLUE),
    'analytical': ('pass_at_k', 1, GREY),
}


def advantages_of_wrong(name, scale):
    """``[c][draws]`` advantages of the wrong responses, for every c in 1 .. N - 1."""
    estimate = jax.jit(
        make_estimator(name, num_rollouts=GROUPED_ROLLOUTS, k=GROUP_SIZE)
    )
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    rng = np.random.default_rng(0)
    values = []
    for c in range(1, GROUPED_ROLLOUTS):
        correct = np.tile(np.arange(GROUPED_ROLLOUTS) < c, (NUM_DRAWS, 1))
        correct = rng.permuted(correct, axis=1)
        advantages = estimate(correct.astype(np.float32), correct, key=keys)
        values.append(np.asarray(advantages)[~correct] / scale)
    return values


drawn = {
    label: advantages_of_wrong(name, scale)
    for label, (name, scale, _) in ESTIMATES.items()
}

# %%
_, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), layout='constrained', width_ratios=(1, 1.35)
)
for marker, (label, (_, _, color)) in zip('os^', ESTIMATES.items(), strict=True):
    noise = [values.std() for values in drawn[label]]
    style = {'marker': marker, 'markersize': 4, 'color': color}
    left.plot(range(1, GROUPED_ROLLOUTS), noise, label=label, **style)
left.set(
    title=r'Noise of $\hat A^-$ from the grouping alone',
    xlabel='correct responses out of 16',
    ylabel='standard deviation',
    xticks=range(1, GROUPED_ROLLOUTS, 2),
)
left.legend()

NUM_CORRECT = 2
exact = drawn['analytical'][NUM_CORRECT - 1][0]
edges = exact + 0.1 * (np.arange(-16, 21) - 0.5)
for row, (label, (_, _, color)) in enumerate(reversed(ESTIMATES.items())):
    values = drawn[label][NUM_CORRECT - 1]
    counts, _ = np.histogram(values, edges)
    right.bar(
        edges[:-1],
        0.75 * counts / counts.max(),
        0.09,
        align='edge',
        bottom=row,
        color=color,
    )
    text = f'{values.mean():.3f} ± {values.std():.2f}'.replace('-', '−')
    right.text(2.7, row + 0.1, text, ha='right')
right.axvline(exact, color=GREY, linewidth=0.7, zorder=0)
right.set(
    title=rf'Where $\hat A^-$ falls with {NUM_CORRECT} of 16 correct',
    xlabel=r'$\hat A^-$ (beside it: mean ± standard deviation)',
    yticks=range(len(ESTIMATES)),
    yticklabels=list(reversed(ESTIMATES)),
    xlim=(-1.9, 2.75),
    ylim=(0, 2.9),
)
right.spines['left'].set_visible(False)
right.tick_params(axis='y', length=0)
plt.show()

# %% [markdown]
# With 2 of 16 correct the advantage of a wrong response is −0.16. The grouping alone
# moves it by nearly three times as much under bootstrap sampling and six times as much
# under full sampling, and often gives it the wrong sign. That comes on top of the noise
# of the responses themselves, and counting does away with it at no cost.
