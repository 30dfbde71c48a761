"""Pass@k Training in one file: sample, verify, estimate, update; on mazes, in a minute.

    python examples/loop.py

The policy reads a maze of 4 x 4 cells and writes moves until it stops. An MLP from
random weights stands for the language model; the rest is the algorithm of the paper
(sec:passk_w_analytical_derivation). P problems, N responses to each, B = P N in all, T
tokens of a response. The library has a module for each verb: rollouts/sample.py,
rollouts/verify.py, rollouts/estimate.py and learning/update.py.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

P, N, K, T, SIDE = 64, 16, 4, 8, 4
STEPS, RATE, CLIP_LOW, CLIP_HIGH = 250, 1e-3, 0.2, 0.28
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
STOP, UNWRITTEN = 4, 5  # The tokens are four moves and STOP.
OPEN, WALL, START, END = range(4)


def make_maze(rng):
    """``[SIDE, SIDE]`` cells around a random walk, whose ends are start and end."""
    walk = [rng.integers(SIDE, size=2)]
    for _ in range(rng.integers(1, T - 1)):
        walk.append(np.clip(walk[-1] + rng.choice(MOVES), 0, SIDE - 1))
    maze = np.where(rng.random((SIDE, SIDE)) < 0.5, WALL, OPEN)
    maze[tuple(np.transpose(walk))] = OPEN
    maze[tuple(walk[-1])], maze[tuple(walk[0])] = END, START
    return maze if (maze == END).any() else make_maze(rng)


def init_policy(rng, width=256):
    """The weights of three layers."""
    sizes = [4 * SIDE**2 + 6 * T, width, width, STOP + 1]
    shapes = itertools.pairwise(sizes)
    return [jnp.array(rng.normal(0, a**-0.5, (a, b)), jnp.float32) for a, b in shapes]


def log_probs_at(params, mazes, tokens, t):
    """``[B, 5]`` log-probabilities of the t-th token, given maze and those before."""
    so_far = jnp.where(jnp.arange(T) < t, tokens, UNWRITTEN)
    parts = jax.nn.one_hot(mazes, 4), jax.nn.one_hot(so_far, 6)
    x = jnp.concatenate([part.reshape(len(mazes), -1) for part in parts], axis=1)
    for weights in params[:-1]:
        x = jax.nn.gelu(x @ weights)
    return jax.nn.log_softmax(x @ params[-1])


@jax.jit
def sample(params, mazes, key):
    """Writes a response to each maze: tokens and log-probabilities, ``[B, T]``."""

    def write(tokens, t):
        log_probs = log_probs_at(params, mazes, tokens, t)
        token = jax.random.categorical(jax.random.fold_in(key, t), log_probs)
        log_prob = jnp.take_along_axis(log_probs, token[:, None], axis=1)[:, 0]
        return tokens.at[:, t].set(token), log_prob

    nothing = jnp.full((len(mazes), T), UNWRITTEN)
    tokens, log_probs = jax.lax.scan(write, nothing, jnp.arange(T))
    return tokens, log_probs.T


def verify(maze, tokens):
    """Whether a response leads from start to end, hits nothing and stops there."""
    cell = np.argwhere(maze == START)[0]
    for token in tokens:
        if token == STOP:
            return bool(maze[tuple(cell)] == END)
        cell = cell + MOVES[token]
        if cell.min() < 0 or cell.max() >= SIDE or maze[tuple(cell)] == WALL:
            return False
    return False


def share_of_groups(num_wrong):
    """The share of the groups of K among N responses that have wrong ones alone."""
    return math.comb(num_wrong, K) / math.comb(N, K)


def estimate(correct):
    """The advantages ``[P, N]`` of Pass@k: a group of K is right if any of its own is.

    A response gets the mean of the advantages, among all groups, of those it is in.
    """
    curve = np.zeros((N + 1, 2))
    for num_correct in range(1, N - K + 1):
        num_wrong = N - num_correct
        all_wrong = share_of_groups(num_wrong)
        sigma = math.sqrt(all_wrong * (1 - all_wrong))
        # Of the groups that a wrong response is in, those without a right one.
        beside = math.comb(num_wrong - 1, K - 1) / math.comb(N - 1, K - 1)
        curve[num_correct] = all_wrong / sigma, (all_wrong - beside) / sigma
    positive, negative = curve[correct.sum(axis=1)].T[:, :, None]
    return np.where(correct, positive, negative)


def loss(params, mazes, tokens, old_log_probs, advantages):
    """PPO's clipped loss, a mean over tokens, with DAPO's higher upper clip."""
    every = [log_probs_at(params, mazes, tokens, t) for t in range(T)]
    chosen = jnp.take_along_axis(jnp.stack(every, 1), tokens[..., None], axis=2)[..., 0]
    ratio, advantages = jnp.exp(chosen - old_log_probs), advantages[:, None]
    clipped = jnp.clip(ratio, 1 - CLIP_LOW, 1 + CLIP_HIGH)
    gain = jnp.minimum(ratio * advantages, clipped * advantages)
    # A response ends with its first STOP.
    is_part = jnp.cumsum(tokens == STOP, axis=1) - (tokens == STOP) == 0
    return -jnp.sum(gain, where=is_part) / jnp.sum(is_part)


@jax.jit
def update(params, state, *batch):
    """One step of Adam on a mini-batch of responses."""
    updates, state = optax.adam(RATE).update(jax.grad(loss)(params, *batch), state)
    return optax.apply_updates(params, updates), state


def train(steps=STEPS, seed=0):
    """Trains; returns Pass@1 and Pass@k of each step, whose problems are new."""
    rng, key, history = np.random.default_rng(seed), jax.random.key(seed), []
    params = init_policy(rng)
    state = optax.adam(RATE).init(params)
    for step in range(steps):
        problems = np.stack([make_maze(rng) for _ in range(P)])
        mazes = np.repeat(problems, N, axis=0)
        tokens, old_log_probs = sample(params, mazes, jax.random.fold_in(key, step))
        correct = np.array(list(map(verify, mazes, np.asarray(tokens)))).reshape(P, N)
        advantages = estimate(correct).reshape(-1)
        for half in np.split(np.arange(P * N), 2):
            batch = (x[half] for x in (mazes, tokens, old_log_probs, advantages))
            params, state = update(params, state, *batch)
        failed = np.mean([share_of_groups(wrong) for wrong in (~correct).sum(axis=1)])
        history.append((correct.mean(), 1 - failed))
        if step % 25 == 0 or step == steps - 1:
            one, k = history[-1]
            print(f'step {step}: Pass@1 {one:.2f}, Pass@{K} {k:.2f}')
    return history


if __name__ == '__main__':
    train()
