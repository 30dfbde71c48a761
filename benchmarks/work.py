"""What is measured: a model, prompts of one length, responses of one length.

Every side of a comparison gets the same: the weights (as a Hugging Face directory),
the prompts, the number of rollouts, no stop token, and a verifier that reads text. This
file is read under the peers' own pythons, so it needs numpy and no more.

1. :class:`Work`, the works of the benchmarks, and :func:`with_vocabularies`;
2. :func:`prompt_tokens` and :func:`check_tokens`, drawn by a fixed seed;
3. :func:`to_text`, :func:`to_tokens` and :func:`reward`: a token is its number.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping

import numpy as np

PAD = 0
"""Never in a prompt: peers tell pads by their id."""


@dataclasses.dataclass(frozen=True)
class Work:
    """A model of Qwen2's kind, float32 and tied, and the batch it is given.

    Attributes:
        layers, embed, heads, kv_heads, head_dim, mlp, vocab: sizes of the model.
        prompts: problems in a batch.
        rollouts: responses to each.
        prompt_tokens: tokens of every prompt.
        response_tokens: tokens of every response; nothing stops one earlier.
    """

    layers: int
    embed: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    prompts: int
    rollouts: int
    prompt_tokens: int
    response_tokens: int

    @property
    def sequences(self) -> int:
        """Responses in a batch."""
        return self.prompts * self.rollouts

    @property
    def new_tokens(self) -> int:
        """Response tokens in a batch."""
        return self.sequences * self.response_tokens

    @property
    def end(self) -> int:
        """A stop token that no model of this vocabulary can write."""
        return self.vocab

    def to_json(self) -> str:
        """For a command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> 'Work':
        """The inverse of :meth:`to_json`."""
        return cls(**json.loads(text))


GENERATION = Work(
    layers=4,
    embed=256,
    heads=4,
    kv_heads=4,
    head_dim=64,
    mlp=1024,
    vocab=512,
    prompts=32,
    rollouts=8,
    prompt_tokens=32,
    response_tokens=64,
)
"""4.33 M parameters, 256 sequences: generation beside tunix."""

STEP = dataclasses.replace(GENERATION, prompts=16)
"""The same with half of the prompts: an RL step beside tunix and TRL."""

GROUPS = Work(
    layers=4,
    embed=256,
    heads=4,
    kv_heads=2,
    head_dim=64,
    mlp=768,
    vocab=64,
    prompts=4,
    rollouts=32,
    prompt_tokens=100,
    response_tokens=64,
)
"""3.2 M parameters, 32 rollouts of long prompts: generation beside transformers, and
the group-aware learner beside the repeated prompt."""


QWEN = Work(
    layers=24,
    embed=896,
    heads=14,
    kv_heads=2,
    head_dim=64,
    mlp=4864,
    vocab=151_936,
    prompts=2,
    rollouts=4,
    prompt_tokens=32,
    response_tokens=12,
)
"""Qwen2.5-0.5B's shape and vocabulary, 8 sequences: generation beside transformers."""

VOCABULARIES: Mapping[str, int] = {'32k': 32_768, '152k': 151_936}
"""Sizes of real vocabularies, whose head is a large part of a small model."""


def with_vocabularies(work: Work) -> Iterator[tuple[str, Work]]:
    """The work, then 4 prompts x 8 rollouts of it with each real vocabulary.

    Yields:
        What to add to the name of the work, and the work.
    """
    yield '', work
    fewer = dataclasses.replace(work, prompts=4, rollouts=8)
    for name, vocab in VOCABULARIES.items():
        yield f', vocabulary {name}', dataclasses.replace(fewer, vocab=vocab)


def small(work: Work) -> Work:
    """The same kind of work in a moment, to see that a command runs."""
    return dataclasses.replace(
        work,
        layers=2,
        embed=16,
        heads=2,
        kv_heads=1,
        head_dim=8,
        mlp=24,
        vocab=32,
        prompts=8,
        rollouts=2,
        prompt_tokens=6,
        response_tokens=4,
    )


def prompt_tokens(work: Work) -> np.ndarray:
    """``[P, S]`` int32 tokens, none of which is a pad."""
    shape = (work.prompts, work.prompt_tokens)
    draw = np.random.default_rng(0)
    return draw.integers(PAD + 1, work.vocab, shape, dtype=np.int32)


def check_tokens(work: Work) -> np.ndarray:
    """``[P, T]`` int32: one response to each prompt, for all sides to score."""
    shape = (work.prompts, work.response_tokens)
    draw = np.random.default_rng(1)
    return draw.integers(PAD + 1, work.vocab, shape, dtype=np.int32)


def to_text(tokens: np.ndarray) -> str:
    """``[12, 7]`` -> ``'12 7'``."""
    return ' '.join(map(str, np.asarray(tokens).tolist()))


def to_tokens(text: str) -> list[int]:
    """The inverse of :func:`to_text`."""
    return [int(word) for word in text.split()]


def reward(text: str) -> float:
    """The verifier: half of all responses are right, by the sum of their tokens."""
    return float(sum(to_tokens(text)) % 2)
