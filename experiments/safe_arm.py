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
# # The tempting safe answer
#
# Why should a policy that is trained for Pass@k and then for Pass@1 end with a better
# Pass@1 than one that is trained for Pass@1 alone? The smallest policy that shows it is
# a bandit: 32 prompts, 16 arms, and logits that are the sum of a vector which all
# prompts share and one of each prompt's own. One arm is *safe*: it is right for 12 of
# the 32 prompts. Each of the others has an arm of its own that is right.
#
# The shared vector gets a gradient from every prompt, so it moves fast: Pass@1 Training
# makes the safe arm likely everywhere before the prompts' own vectors have moved, and
# then it hardly ever tries another arm. Pass@k Training gains little from a prompt
# that is already answered within k tries, and goes on looking.
#
# The last figure shows where this does *not* happen. This file is the source; the
# notebook beside it is made from it, from the root of the repository, by
#
#     jupytext --to ipynb experiments/safe_arm.py
#     PYTHONPATH=$PWD jupyter execute --inplace experiments/safe_arm.ipynb

# %%
import functools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from scipy import special

from passk_jax.advantages import make_estimator
from passk_jax.report.charts import NOTEBOOK_STYLE

PROMPTS, ARMS, ROLLOUTS, K = 32, 16, 16, 4
STEPS, SEEDS = 600, 5
SAFE = 12
BLUE, ORANGE, GREEN, PURPLE, GREY = (
    '#1f6fb4',
    '#e08214',
    '#2b8a5b',
    '#8e5bb5',
    '#5a5a5a',
)

plt.rcParams.update(NOTEBOOK_STYLE)

# %% [markdown]
# A step draws 16 arms for each prompt, estimates their advantages with the functions
# that training calls, and follows the policy gradient. Nothing is clipped: a step makes
# one update. All seeds and learning rates run side by side.


# %%
def right_arms(safe):
    """The arm that is right for each prompt; arm 0 is the safe one."""
    arms = np.random.default_rng(0).integers(1, ARMS, PROMPTS)
    return jnp.asarray(np.where(np.arange(PROMPTS) < safe, 0, arms))


def logits_of(params):
    return params['shared'] + params['own']


def draw(key, logits):
    """Arms, [prompts, rollouts], each by one uniform number."""
    uniform = jax.random.uniform(key, (PROMPTS, ROLLOUTS, 1))
    borders = jnp.cumsum(jax.nn.softmax(logits), axis=-1)[:, None, :-1]
    return (uniform > borders).sum(axis=-1)


@functools.partial(jax.jit, static_argnames=('names', 'switch', 'optimizer'))
def train(rates, right, *, names, switch=0, optimizer='sgd'):
    """Pass@1 and Pass@4 after each step, [rates, seeds, steps].

    The estimator is the first of the names, and the second from step ``switch`` on.
    """
    params_of = {'pass_at_k': {'k': K}, 'combination': {'k': K}}
    estimators = [
        make_estimator(name, num_rollouts=ROLLOUTS, **params_of.get(name, {}))
        for name in names
    ]

    def run(rate, seed):
        tool = {'sgd': optax.sgd, 'adam': optax.adam}[optimizer](rate)
        params = {'shared': jnp.zeros(ARMS), 'own': jnp.zeros((PROMPTS, ARMS))}

        def step(carry, t):
            params, state = carry
            key = jax.random.fold_in(jax.random.key(seed), t)
            arms = draw(key, logits_of(params))
            correct = arms == right[:, None]
            rewards = correct.astype(jnp.float32)
            advantages = [estimate(rewards, correct) for estimate in estimators]
            advantage = jnp.where(t < switch, advantages[0], advantages[-1])

            def loss(params):
                log_probs = jax.nn.log_softmax(logits_of(params))
                return -(advantage * jnp.take_along_axis(log_probs, arms, 1)).mean()

            moves, state = tool.update(jax.grad(loss)(params), state)
            params = optax.apply_updates(params, moves)
            p = jax.nn.softmax(logits_of(params))[jnp.arange(PROMPTS), right]
            return (params, state), (p.mean(), (1 - (1 - p) ** K).mean())

        start = params, tool.init(params)
        return jax.lax.scan(step, start, jnp.arange(STEPS))[1]

    over_seeds = jax.vmap(run, in_axes=(None, 0))
    return jax.vmap(over_seeds, in_axes=(0, None))(rates, jnp.arange(SEEDS))


# %% [markdown]
# ## What each kind of training ends with
#
# Learning rate 2, and five seeds. Numbers and figures have the mean over the seeds with
# its 95 % interval (Student's t), which is cut off at 0 and 1. The dashed line of both
# stages lies on that of Pass@4 up to step 400.


# %%
def interval(values):
    """Mean over seeds, [seeds, ...], and the ends of its interval, between 0 and 1."""
    seeds = len(values)
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / seeds**0.5
    half = special.stdtrit(seeds - 1, 0.975) * error
    return mean, np.maximum(mean - half, 0), np.minimum(mean + half, 1)


def with_interval(values):
    mean, low, high = interval(values)
    return f'{mean:.3f} [{low:.3f}, {high:.3f}]'


# Estimators, the step from which the second one counts, and how they are drawn.
DESIGNS = {
    'Pass@1': (('pass_at_1',), 0, (GREY, '-', 'o')),
    'Pass@1 without its sigma (Dr. GRPO)': (('dr_grpo',), 0, (ORANGE, ':', 's')),
    'Pass@4': (('pass_at_k',), 0, (BLUE, '-', '^')),
    'Pass@4 to step 400, then Pass@1': (
        *(('pass_at_k', 'pass_at_1'), 400),
        (GREEN, '--', 'D'),
    ),
    'combination': (('combination',), 0, (PURPLE, '-.', 'v')),
}
RATES = np.array([1.0, 2.0, 4.0, 16.0])
CHOSEN = 1

runs = {
    label: np.asarray(train(RATES, right_arms(SAFE), names=names, switch=switch))
    for label, (names, switch, _) in DESIGNS.items()
}
final = {label: values[:, CHOSEN, :, -1] for label, values in runs.items()}
for label, values in final.items():
    at_1, at_4 = map(with_interval, values)
    print(f'{label:36} Pass@1 {at_1} Pass@4 {at_4}')

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout='constrained')
for place, (ax, title) in enumerate(zip(axes, ('Pass@1', 'Pass@4'), strict=True)):
    for label, (_, _, (color, style, _)) in DESIGNS.items():
        mean, *ends = interval(runs[label][place, CHOSEN])
        ax.plot(mean, style, color=color, label=label)
        ax.fill_between(np.arange(STEPS), *ends, color=color, alpha=0.2, linewidth=0)
    ax.axhline(SAFE / PROMPTS, color='black', linewidth=0.8, linestyle=':')
    ax.set(title=title, xlabel='step', ylim=(0, 1.02))
axes[0].set_ylabel('mean over prompts, exact')
axes[0].annotate(
    'always the safe arm', (STEPS, SAFE / PROMPTS), ha='right', va='bottom'
)
axes[1].legend(handlelength=3, loc='lower right')
plt.show()

# %% [markdown]
# The paper's *combination* gives the more weight to Pass@4 the more responses are
# right, and needs no switch: its Pass@1 ends at .926 [.925, .928], and its Pass@4 at
# 1.000 [1.000, 1.000]. The Pass@1 of the two stages ends at .969 [.958, .980].

# %% [markdown]
# ## Where it does not hold
#
# The trap needs a shared direction that outruns the others. It is gone if the learning
# rate is so large that the prompts' own vectors move within a few steps, unless the
# advantage lacks its sigma; with Adam, which gives both vectors steps of one size; and
# if the safe arm is right too rarely to be tempting. Bars are 95 % intervals over the
# seeds; most are shorter than their marker is high.

# %%
only = ('pass_at_1',)
(adam,), _ = train(np.array([0.03]), right_arms(SAFE), names=only, optimizer='adam')
rare = train(RATES, right_arms(5), names=only)[0][CHOSEN]
controls = {
    'Adam, rate .03': (np.asarray(adam)[:, -1], 'P'),
    'safe for 5 of 32': (np.asarray(rare)[:, -1], 'X'),
}
places = RATES[CHOSEN] * np.array([0.92, 1.08])

figure, ax = plt.subplots(figsize=(9, 3.4), layout='constrained')
for label, (_, _, (color, style, marker)) in DESIGNS.items():
    mean, low, high = interval(runs[label][0, :, :, -1].T)
    look = {'color': color, 'linestyle': style, 'marker': marker, 'capsize': 3}
    ax.errorbar(RATES, mean, yerr=(mean - low, high - mean), label=label, **look)
for place, (label, (last, marker)) in zip(places, controls.items(), strict=True):
    mean, low, high = interval(last)
    look = {'color': 'black', 'fmt': marker, 'capsize': 3}
    ends = [[mean - low], [high - mean]]
    ax.errorbar(place, mean, yerr=ends, label=f'Pass@1, {label}', **look)
    print(f'Pass@1, {label}: {with_interval(last)}')
for rate, last in zip(RATES, runs['Pass@1'][0, :, :, -1], strict=True):
    print(f'Pass@1, rate {rate:g}: {with_interval(last)}')
ax.set_xscale('log', base=2)
ax.minorticks_off()
ax.set_xticks(RATES, [f'{rate:g}' for rate in RATES])
ax.set(xlabel='learning rate', ylabel='Pass@1 at the end', ylim=(0, 1.04))
ax.set_title('Where Pass@1 Training is trapped')
ax.legend(loc='center left', bbox_to_anchor=(1.0, 0.5))
plt.show()
