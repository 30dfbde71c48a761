"""The work of a benchmark: a model, prompts of one length, responses of one length.

Every side of a comparison gets the same weights (a Hugging Face directory), prompts,
number of rollouts and verifier, which reads text. There is no stop token. The peers'
pythons import this module too, so it needs numpy alone.

1. :class:`Work`, the works of the benchmarks, and :func:`with_vocabularies`.
2. :func:`prompt_tokens` and :func:`check_tokens` draw with a fixed seed.
3. :func:`to_text`, :func:`to_tokens` and :func:`reward`: the text of a token is its id.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping

import numpy as np

PAD = 0
"""Never in a prompt, as peers recognise pads by their id."""


@dataclasses.dataclass(frozen=True)
class Work:
    """A model like Qwen2, float32 and with tied embeddings, and its batch.

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
        """A stop token outside the vocabulary, which no model can write."""
        return self.vocab

    def to_json(self) -> str:
        """Writes the work as JSON, for a command line."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> 'Work':
        """Reads what :meth:`to_json` wrote."""
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
"""4.33 M parameters, 256 sequences: generation compared with tunix."""

STEP = dataclasses.replace(GENERATION, prompts=16)
"""The same with half of the prompts: a step of RL compared with tunix and TRL."""

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
"""3.2 M parameters, 32 rollouts of long prompts: generation compared with transformers,
and the learner with shared prompts compared with repeated ones."""

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
"""Qwen2.5-0.5B's shape and vocabulary, 8 sequences: compared with transformers."""

SMOLLM2 = Work(
    layers=30,
    embed=576,
    heads=9,
    kv_heads=3,
    head_dim=64,
    mlp=1536,
    vocab=49_152,
    prompts=8,
    rollouts=16,
    prompt_tokens=88,
    response_tokens=10,
)
"""SmolLM2-135M's shape and vocabulary, and a step of configs/smollm2.py: its longest
prompt, to which all are padded, and the mean of its responses after the warm start."""

VOCABULARIES: Mapping[str, int] = {'32k': 32_768, '152k': 151_936}
"""Sizes of real vocabularies, whose head is a large part of a small model."""


def with_vocabularies(work: Work) -> Iterator[tuple[str, Work]]:
    """Yields the work, then 4 prompts x 8 rollouts of it with each real vocabulary.

    Each comes with a suffix for its name.
    """
    yield '', work
    fewer = dataclasses.replace(work, prompts=4, rollouts=8)
    for name, vocab in VOCABULARIES.items():
        yield f', vocabulary {name}', dataclasses.replace(fewer, vocab=vocab)


def small(work: Work) -> Work:
    """Shrinks a work to a moment, to see that a command runs."""
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
    """Draws ``[P, S]`` int32 tokens, none of which is a pad."""
    shape = (work.prompts, work.prompt_tokens)
    draw = np.random.default_rng(0)
    return draw.integers(PAD + 1, work.vocab, shape, dtype=np.int32)


def check_tokens(work: Work) -> np.ndarray:
    """Draws ``[P, T]`` int32: a response to each prompt, which all sides score."""
    shape = (work.prompts, work.response_tokens)
    draw = np.random.default_rng(1)
    return draw.integers(PAD + 1, work.vocab, shape, dtype=np.int32)


def to_text(tokens: np.ndarray) -> str:
    """Writes tokens as text: ``[12, 7]`` as ``'12 7'``."""
    return ' '.join(map(str, np.asarray(tokens).tolist()))


def to_tokens(text: str) -> list[int]:
    """Reads what :func:`to_text` wrote."""
    return [int(word) for word in text.split()]


def reward(text: str) -> float:
    """Verifies a response: half of all are right, those with an odd sum of tokens."""
    return float(sum(to_tokens(text)) % 2)
