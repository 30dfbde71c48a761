"""What crosses module borders, and the glossary of shapes.

Letters of the shapes, everywhere in this package:

    P  prompts (problems) in a batch            N  rollouts of one prompt
    S  prompt tokens, right-padded              T  response tokens, right-padded
    V  vocabulary    D  embedding    J  query heads    C  key/value heads
    H  head dimension    F  MLP width    L  layers    k  size of a group
    B  sequences, P * N    R  rows that the responses of a prompt are packed into

Groups are an axis, never an id: arrays keep ``[P, N, ...]`` as long as they can.
A *problem* is a host object, a *prompt* its tokens, a *response* what the policy
wrote, a *rollout* a response with its log-probabilities, a *group* a k-subset of
the responses to one problem, a *step* one rollout batch, an *update* one optimizer
step. The pytrees here hold arrays only; no function lives here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prompts:
    """The prompts of a batch; a prompt exists once, whatever its rollouts.

    Attributes:
        tokens: ``[P, S]`` int32, right-padded; the pad id has no meaning.
        lengths: ``[P]`` int32, tokens of each prompt, at least 1.
        problem_ids: ``[P]`` int32, unique in a split; addresses the random keys.
    """

    tokens: jax.Array
    lengths: jax.Array
    problem_ids: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts:
    """N responses to each prompt, as they were sampled.

    Masks come from ``lengths``, never from token ids. The stop token that ended a
    response is inside its length, so that it is trained.

    Attributes:
        prompts: the prompts answered.
        tokens: ``[P, N, T]`` int32; positions at or past ``lengths`` are 0.
        lengths: ``[P, N]`` int32, response tokens including the stop token.
        stopped: ``[P, N]`` bool, ended by a stop token and not by the limit.
        sampler_log_probs: ``[P, N, T]`` float32, log-probability of each token under
            the distribution it was drawn from (temperature, top-k and top-p applied);
            0 for a greedy choice, which is a draw from a point mass.
        untruncated_log_probs: ``[P, N, T]`` float32, the same with the temperature
            but without top-k and top-p: what the learner's ratio needs. Greedy: that
            of temperature 1.
        entropies: ``[P, N, T]`` float32, nats, of the untruncated distribution.
    """

    prompts: Prompts
    tokens: jax.Array
    lengths: jax.Array
    stopped: jax.Array
    sampler_log_probs: jax.Array
    untruncated_log_probs: jax.Array
    entropies: jax.Array


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem of a task, on the host.

    Attributes:
        id: unique in its split, ``0 <= id < 2**31``.
        prompt: the user's text, before any chat template.
        data: what the task's verifier needs (for a maze: ``{'maze': text}``).
        category: what results are broken down by (for a maze: ``'9x9'``).
    """

    id: int
    prompt: str
    data: Mapping[str, Any]
    category: str


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a verifier says of one response.

    Attributes:
        correct: whether the response solves the problem.
        parsed: the answer read from the response, ``''`` where there was none.
        error: ``None``, or why the response is not correct, in a few words.
    """

    correct: bool
    parsed: str
    error: str | None


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """What a verifier says of a batch.

    Attributes:
        rewards: ``[P, N]`` float32, the verifier's own value, 0 or 1 for most tasks.
        correct: ``[P, N]`` bool, its own channel: never ``rewards == 1``.
        parsed: ``[P][N]`` the answers read, ``''`` where there was none.
    """

    rewards: np.ndarray
    correct: np.ndarray
    parsed: list[list[str]]
