"""Rotary positions, and every kind's frequencies against transformers' own."""

import jax
import numpy as np
import pytest
import transformers
from jax import numpy as jnp
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from passk_jax.models import rope
from passk_jax.models.rope import Rope

PLAIN = Rope(kind='default', theta=1e4)
ORIGINAL = 'original_max_position_embeddings'

STRETCHED = {
    'linear': ({'factor': 4.0}, {'factor': 4.0}),
    'llama3': (
        {
            'factor': 8.0,
            'low_freq_factor': 1.0,
            'high_freq_factor': 4.0,
            ORIGINAL: 64,
        },
        {
            'factor': 8.0,
            'low_freq_factor': 1.0,
            'high_freq_factor': 4.0,
            'original_max_positions': 64,
        },
    ),
    'yarn': (
        {'factor': 4.0, ORIGINAL: 64},
        {
            'factor': 4.0,
            'original_max_positions': 64,
            'attention_factor': 0.1 * np.log(4.0) + 1,
        },
    ),
}


@pytest.mark.parametrize('kind', STRETCHED)
@pytest.mark.parametrize('head_dim', [8, 64, 128])
def test_frequencies_are_those_of_transformers(kind, head_dim):
    parameters, ours = STRETCHED[kind]
    config = transformers.LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        head_dim=head_dim,
        max_position_embeddings=256,
        rope_parameters={'rope_type': kind, 'rope_theta': 1e4, **parameters},
    )
    want, factor = ROPE_INIT_FUNCTIONS[kind](config, 'cpu')
    setting = Rope(kind=kind, theta=1e4, **ours)
    have = rope.frequencies(setting, head_dim=head_dim)
    np.testing.assert_allclose(have, want.numpy(), rtol=3e-7)
    assert setting.attention_factor == pytest.approx(factor)
    # A test of a stretch that stretches nothing would pass with any.
    assert not np.allclose(have, rope.frequencies(PLAIN, head_dim=head_dim), rtol=0.1)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'kind': 'longrope'}, "'longrope' is none of .*'llama3'"),
        ({'theta': -1.0}, 'theta=-1.0.* positive'),
        ({'factor': 0.0}, 'factor=0.0.* positive'),
        ({'kind': 'yarn', 'factor': 2.0}, 'must say original_max_positions'),
        (
            {'kind': 'llama3', 'original_max_positions': 8},
            'low_freq_factor < high_freq_factor',
        ),
    ],
)
def test_impossible_settings_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        Rope(**({'kind': 'default', 'theta': 1e4} | change))


def test_rotation_depends_on_relative_positions_only():
    draw = iter(jax.random.split(jax.random.key(0), 2))
    query = jax.random.normal(next(draw), (1, 1, 1, 1, 8))
    key = jax.random.normal(next(draw), (1, 1, 1, 1, 8))

    def score(query_at, key_at):
        def turned(x, at):
            turn = rope.rotary(jnp.full((1, 1, 1), at), PLAIN, head_dim=8)
            return rope.rotate(x, turn)

        return float((turned(query, query_at) * turned(key, key_at)).sum())

    assert score(7, 3) == pytest.approx(score(104, 100), abs=1e-4)
    assert score(7, 3) != pytest.approx(score(8, 3), abs=1e-2)
    assert score(0, 0) == pytest.approx(float((query * key).sum()), abs=1e-6)


def test_rotation_scales_in_float32():
    x = jnp.ones((1, 1, 1, 1, 4), jnp.bfloat16)
    turn = rope.rotary(jnp.zeros((1, 1, 1)), PLAIN, head_dim=4)
    y = rope.rotate(x, turn, scale=0.3)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, jnp.full_like(y, 0.3))


@pytest.mark.parametrize('sections', [(24, 20, 20), (4, 2, 2), (2, 3, 3), (3, 1, 0)])
def test_pairs_take_turns_in_time_row_and_column(sections):
    pairs = sum(sections)
    settings = Rope('default', 1e4, sections=sections)
    parts = rope.components(settings, head_dim=2 * pairs)
    # As transformers overwrites the frequencies of time.
    want = np.zeros(pairs, int)
    for part in (1, 2):
        want[slice(part, sections[part] * 3, 3)] = part
    np.testing.assert_array_equal(parts, want)
    positions = np.random.default_rng(0).integers(0, 50, (2, 1, 4, 3))
    turns = rope.rotary(positions, settings, head_dim=2 * pairs)
    for part in range(3):
        alone = rope.rotary(positions[..., part], settings, head_dim=2 * pairs)
        for have, of_part in zip(turns, alone, strict=True):
            have, of_part = (x[..., parts == part] for x in (have, of_part))
            np.testing.assert_array_equal(have, of_part)


def test_sections_may_follow_one_another():
    settings = Rope('default', 1e4, sections=(1, 2, 3), interleaved=False)
    assert rope.components(settings, head_dim=12).tolist() == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize('sections', [(4, 4), (5, 4, -1), (1, 1, 1, 1)])
def test_sections_are_three(sections):
    with pytest.raises(ValueError, match='must have three sections'):
        Rope('default', 1e4, sections=sections)
