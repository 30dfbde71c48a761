import pytest
import transformers

from passk_jax.models.families import FAMILIES, family_of


@pytest.mark.parametrize('name', FAMILIES)
def test_a_family_is_known_to_transformers_under_its_names(name):
    family = family_of(name)
    assert family.model_type == name
    config = getattr(transformers, family.architecture).config_class
    assert config.model_type == name
    # What is fixed or inert is a field of theirs: a misspelt one would never refuse.
    known = vars(config()).keys() | {'pretraining_tp', 'use_mrope'}
    assert family.fixed.keys() | family.inert <= known


def test_an_unknown_family_is_refused_with_the_choices():
    with pytest.raises(ValueError, match=r"'gpt2' is none of .*'llama', 'qwen2'"):
        family_of('gpt2')
