"""The types that modules share, and the glossary.

These letters name the axes of shapes everywhere in this package:

    P  prompts (problems) in a batch            N  rollouts of one prompt
    S  prompt tokens, right-padded              T  response tokens, right-padded
    V  vocabulary    D  embedding    J  query heads    C  key/value heads
    H  head dimension    F  MLP width    L  layers    k  size of a group
    B  sequences, P * N    R  rows that a prompt's responses are packed into
    X  patches of a prompt's pictures           M  tokens that they become

Of the N responses to a problem, ``c`` are correct and ``w`` wrong. ``p`` is the
probability that a response is correct, and ``omega`` the weight of an advantage on the
gradient of p.

Groups are an axis, never an id: arrays stay ``[P, N, ...]`` as long as possible. A
*problem* is a host object, a *prompt* its tokens, a *response* the policy's text, a
*rollout* a response with its log-probabilities, a *group* a k-subset of the responses
to a problem, a *step* one rollout batch, an *update* one optimizer step.

The pytrees here hold only arrays. ``Prompts`` has arrays on devices,
``Prompts[np.ndarray]`` arrays on the host, and ``Prompts[jax.ShapeDtypeStruct]`` only
shapes; the other pytrees likewise. This module has no functions.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple

import jax
import numpy as np
from typing_extensions import TypeVar

Leaf = TypeVar('Leaf', default=jax.Array)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Images(Generic[Leaf]):
    """The pictures of a batch of prompts, cut into patches.

    Attributes:
        patches: ``[P, X, 3 * side ** 2]`` float32, normalized; the patches of a
            prompt's pictures one after another, then pads. Patches that become one
            token are neighbours.
        grids: ``[P, pictures, 2]`` int32, rows and columns of patches of each picture
            in the order of the prompt; 0 where there is none.
    """

    patches: Leaf
    grids: Leaf


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prompts(Generic[Leaf]):
    """The prompts of a batch, each stored once for all of its rollouts.

    Attributes:
        tokens: ``[P, S]`` int32, right-padded; the pad id has no meaning.
        lengths: ``[P]`` int32, tokens in each prompt, at least 1.
        problem_ids: ``[P]`` int32, unique in a split; they address the random keys.
        routing: ``[P, S, L, k]``, the experts that ran each token in sampling;
            ``None``: the learner's router chooses.
        positions: ``[P, S, 3]`` int32, time, row and column of each token; the last
            token of a prompt is text, where all are equal. ``None``: the prompts are
            text, and a token's position is its index.
        images: the pictures; ``None``: there are none, or ``features`` replace them.
        features: ``[P, K, M, D]``, the vision tower's output for the pictures
            (vision.py); ``None``: the tower still has to read them.
    """

    tokens: Leaf
    lengths: Leaf
    problem_ids: Leaf
    routing: Leaf | None = None
    positions: Leaf | None = None
    images: Images[Leaf] | None = None
    features: Leaf | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rollouts(Generic[Leaf]):
    """N sampled responses to each prompt.

    Masks come from ``lengths``, never from token ids. A length includes the stop token
    that ended the response, so that this token is trained.

    Attributes:
        prompts: the prompts answered.
        tokens: ``[P, N, T]`` int32; 0 at and past ``lengths``.
        lengths: ``[P, N]`` int32, response tokens including the stop token.
        stopped: ``[P, N]`` bool, whether a stop token ended it, not the limit.
        sampler_log_probs: ``[P, N, T]`` float32, log-probability of each token under
            the distribution it was drawn from, with all sampling options; 0 for greedy
            choices.
        untruncated_log_probs: ``[P, N, T]`` float32, the same with the temperature but
            without truncation (top-k, top-p, min-p), to compare with the learner; for
            greedy choices, at temperature 1.
        entropies: ``[P, N, T]`` float32, in nats, of the untruncated distribution.
        routing: ``[P, N, T, L, k]``, the experts that ran the token before each
            response token; ``None``: the learner's router chooses.
    """

    prompts: Prompts[Leaf]
    tokens: Leaf
    lengths: Leaf
    stopped: Leaf
    sampler_log_probs: Leaf
    untruncated_log_probs: Leaf
    entropies: Leaf
    routing: Leaf | None = None


Picture = str | bytes | np.ndarray
"""A file's path, the bytes of one, or uint8 ``[rows, columns, 3]``."""
PICTURE = '<image>'
"""The marker of a picture in a prompt's text."""


class Turn(NamedTuple):
    """A turn of a chat: ``'system'``, ``'user'`` or ``'assistant'``, and its text."""

    role: str
    content: str


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem of a task, on the host.

    Attributes:
        id: unique in its split, ``0 <= id < 2**31``.
        prompt: the user's text, before any chat template.
        data: the verifier's input (for a maze: ``{'maze': text}``).
        category: the key for results by category (for a maze: ``'9x9'``). In a mixture
            it begins with the part's name and a slash.
        turns: the earlier turns of the chat, before the user's text.
        images: the pictures of the prompt, in the order of the markers
            :data:`PICTURE` in its text. A text-only policy reads the markers as text.
    """

    id: int
    prompt: str
    data: Mapping[str, Any]
    category: str
    turns: tuple[Turn, ...] = ()
    images: tuple[Picture, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A verifier's verdict on one response.

    Attributes:
        correct: whether the response solves the problem.
        parsed: the answer read from the response; ``''`` if there is none.
        error: why the response is not correct, in a few words; else ``None``.
    """

    correct: bool
    parsed: str
    error: str | None


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """A verifier's verdicts on a batch.

    Attributes:
        rewards: ``[P, N]`` float32, the verifier's values; 0 or 1 in most tasks.
        correct: ``[P, N]`` bool, decided by the verifier, never by ``rewards == 1``.
        parsed: ``[P][N]`` the answers read; ``''`` where there is none.
        failures: kind -> ``[P, N]`` bool, responses that are wrong because the verifier
            failed. A kind without failures may be present to record its share of 0;
            hosts and batches may have different kinds.
    """

    rewards: np.ndarray
    correct: np.ndarray
    parsed: list[list[str]]
    failures: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
