"""Prompts with pictures, ours and as transformers takes them."""

from collections.abc import Sequence

import jax
import numpy as np
import torch
import transformers
from jax import numpy as jnp

from passk_jax.data.positions import picture_positions
from passk_jax.types import Images, Prompts
from tests.models.hf import oracle

Grids = Sequence[tuple[int, int]]
MERGE, SIDE = 2, oracle.VISION['patch_size']
GRIDS: tuple[Grids, ...] = (
    ((6, 10), (4, 4), (8, 2)),
    ((4, 12),),
    (),
    ((2, 2), (10, 6)),
)
"""Three pictures, one, none and two, of unequal sizes."""


def prompt_tokens(grids: Grids, rng: np.random.Generator) -> np.ndarray:
    """Text of unequal lengths around the pictures, and none at the beginning."""
    image, parts = oracle.IMAGE_TOKEN, []
    for rows, columns in grids:
        parts.append(np.full(rows * columns // MERGE**2, image))
        parts.append(rng.integers(0, image, rng.integers(1, 5)))
    return np.concatenate([*parts, rng.integers(0, image, rng.integers(2, 7))])


def make_prompts(
    grids: Sequence[Grids] = GRIDS, *, seed: int, pads: int = 4
) -> Prompts[np.ndarray]:
    """Random prompts and pictures, with numbers in the pads too."""
    rng = np.random.default_rng(seed)
    rows = [prompt_tokens(of_prompt, rng) for of_prompt in grids]
    P, S = len(rows), max(map(len, rows)) + pads
    X = max(sum(a * b for a, b in of_prompt) for of_prompt in grids) + 4 * pads
    I = max(1, *map(len, grids))  # noqa: E741
    tokens = rng.integers(0, oracle.IMAGE_TOKEN, (P, S)).astype(np.int32)
    positions = rng.integers(0, S, (P, S, 3)).astype(np.int32)
    shapes = np.zeros((P, I, 2), np.int32)
    for p, (row, of_prompt) in enumerate(zip(rows, grids, strict=True)):
        tokens[p, : len(row)] = row
        positions[p, : len(row)] = picture_positions(
            row, of_prompt, image_token=oracle.IMAGE_TOKEN, merge_size=MERGE
        )
        shapes[p, : len(of_prompt)] = np.reshape(of_prompt, (-1, 2))
    patches = rng.normal(size=(P, X, 3 * SIDE**2)).astype(np.float32)
    return Prompts(
        tokens=tokens,
        lengths=np.array([len(row) for row in rows], np.int32),
        problem_ids=np.arange(P, dtype=np.int32),
        positions=positions,
        images=Images(patches, shapes),
    )


def their_inputs(
    prompts: Prompts[np.ndarray], p: int, response: np.ndarray | None = None
) -> dict[str, torch.Tensor]:
    """A prompt and its response without padding, and its pictures."""
    ids = prompts.tokens[p, : prompts.lengths[p]]
    ids = ids if response is None else np.concatenate([ids, response])
    ids = torch.tensor(ids.astype(np.int64))[None]
    inputs = {'input_ids': ids, 'attention_mask': torch.ones_like(ids)}
    assert prompts.images is not None
    grids = [grid for grid in prompts.images.grids[p].tolist() if all(grid)]
    if grids:
        grids = torch.tensor([[1, *grid] for grid in grids])
        count = int(grids.prod(-1).sum())
        patches = prompts.images.patches[p, :count].reshape(count, 3, 1, -1)
        frames = torch.tensor(patches).repeat(1, 1, 2, 1)
        inputs |= {
            'pixel_values': frames.reshape(count, -1),
            'image_grid_thw': grids,
            'mm_token_type_ids': (ids == oracle.IMAGE_TOKEN).int(),
        }
    return inputs


def their_log_probs(
    model: transformers.PreTrainedModel,
    prompts: Prompts[np.ndarray],
    p: int,
    response: np.ndarray,
) -> torch.Tensor:
    """``[T, V]`` log-probabilities of the tokens of a response."""
    inputs = their_inputs(prompts, p, response)
    logits = model(**inputs).logits[0, prompts.lengths[p] - 1 : -1]
    return logits.log_softmax(-1)


def on_device(prompts: Prompts[np.ndarray]) -> Prompts:
    """The same as arrays of JAX."""
    return jax.tree.map(jnp.asarray, prompts)
