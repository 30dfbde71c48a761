import pytest

from passk_jax.models.hf import rope as hf_rope
from passk_jax.models.rope import KINDS, Rope

ROPES = [
    Rope('default', 1e6),
    Rope('linear', 1e4, 2.5),
    Rope('llama3', 5e5, 8.0, 8192, low_freq_factor=1.0, high_freq_factor=4.0),
    Rope('yarn', 1e6, 4.0, 32768, beta_fast=16.0, truncate=False, attention_factor=1.2),
]


def test_there_is_an_example_of_every_kind():
    assert tuple(rope.kind for rope in ROPES) == KINDS


@pytest.mark.parametrize('rope', ROPES, ids=lambda rope: rope.kind)
def test_a_rope_that_is_written_is_read_back(rope):
    stated = {'rope_type': 'default', **(hf_rope.rope_scaling(rope) or {})}
    stated['rope_theta'] = rope.theta
    assert hf_rope.read_rope(stated, max_positions=64) == rope


@pytest.mark.parametrize('rope', ROPES, ids=lambda rope: rope.kind)
@pytest.mark.parametrize('num_tokens', [1, 99, 100, 262_144])
def test_what_is_stated_addresses_at_least_as_much(rope, num_tokens):
    stated = hf_rope.stated_positions(rope, num_tokens=num_tokens)
    assert hf_rope.addressed(rope, max_positions=stated) >= num_tokens
    if rope.kind == 'linear':
        assert hf_rope.addressed(rope, max_positions=stated - 1) < num_tokens


def test_yarn_may_leave_its_factor_to_the_positions():
    stated = {
        'rope_type': 'yarn',
        'rope_theta': 1e4,
        'factor': None,
        'original_max_position_embeddings': 16,
    }
    assert hf_rope.read_rope(stated, max_positions=48).factor == 3.0


@pytest.mark.parametrize(
    ('stated', 'words'),
    [
        ({'rope_type': 'longrope'}, "longrope.*only rope types.*'llama3'"),
        ({'rope_type': 'linear', 'type': 'yarn'}, 'only rope types'),
        ({'full_attention': {'rope_type': 'default'}}, 'only rope types'),
        ({'rope_type': 'default', 'factor': 2.0}, r"has \['factor'\], which 'default'"),
        ({'rope_type': 'default', 'rope_theta': None}, 'None'),
        ({'rope_type': 'default', 'rope_theta': 0}, 'positive theta'),
        ({'rope_type': 'linear', 'rope_theta': 1e4, 'factor': None}, 'None'),
        ({'rope_type': 'llama3', 'rope_theta': 1e4}, 'original_max_positions'),
    ],
)
def test_what_makes_no_rope_is_refused(stated, words):
    with pytest.raises(ValueError, match=words):
        hf_rope.read_rope(stated, max_positions=64)
