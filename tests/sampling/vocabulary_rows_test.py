"""Blocks of rows: what published vocabularies and meshes get."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.sampling import distribution
from passk_jax.sampling.vocabulary_rows import Rows, rows_on_mesh


@pytest.mark.parametrize(
    # SmolLM2, Llama 3, Qwen2.5 to 3B, Qwen2.5 from 7B, Mistral 7B, Gemma 3, Code Llama.
    'vocab_size',
    [49_152, 128_256, 151_936, 152_064, 32_768, 262_208, 32_016],
)
def test_a_published_vocabulary_is_shared_without_pads(vocab_size):
    length = Rows(vocab_size).block_tokens
    assert vocab_size % length == 0
    assert vocab_size // length <= 256
    for tensor in (2, 4, 8):
        mesh = sharding.make_mesh(
            data=1, fsdp=1, rollout=1, tensor=tensor, devices=jax.devices()[:tensor]
        )
        with jax.set_mesh(mesh):
            assert rows_on_mesh(vocab_size).axes == ('tensor',)


@pytest.mark.parametrize('vocab_size', [1, 2, 64, 127, 128])
def test_a_small_vocabulary_is_one_block(vocab_size):
    assert Rows(vocab_size).block_tokens == vocab_size


@pytest.mark.parametrize('vocab_size', [129, 257, 1111, 50_257, 150_001])
def test_pads_fill_the_last_block(vocab_size):
    rows = Rows(vocab_size)
    x = jnp.arange(2 * vocab_size).reshape(2, vocab_size)
    blocks = np.asarray(rows.split(x, pad=-1))
    assert blocks.shape[1:] == (-(-vocab_size // rows.block_tokens), rows.block_tokens)
    assert blocks.shape[1] <= 256
    blocks = blocks.reshape(2, -1)
    np.testing.assert_array_equal(blocks[:, :vocab_size], x)
    assert (blocks[:, vocab_size:] == -1).all()


def test_a_greedy_row_of_nan_takes_a_token_of_the_vocabulary():
    logits = jnp.full((1, 300), jnp.nan)
    options = distribution.traced_options(sampling_options(), vocab_size=300)
    choice = distribution.choose(
        logits, jnp.zeros((1, 2)), options, greedy=True, truncate=False
    )
    assert 0 <= int(choice.tokens[0]) < 300
