import re

import pytest
import transformers

from passk_jax.models.families.table import FAMILIES, family_of


@pytest.mark.parametrize('name', FAMILIES)
def test_a_family_is_known_to_transformers_under_its_names(name):
    family = family_of(name)
    assert family.model_type == name
    config = getattr(transformers, family.architecture).config_class
    assert config.model_type == name
    # What is fixed or inert is a field of theirs: a misspelt one would never refuse.
    known = vars(config()).keys() | {'pretraining_tp', 'use_mrope'}
    assert family.fixed.keys() | family.inert <= known


@pytest.mark.parametrize('unknown', ['gpt2', '', None, ['qwen2'], {'qwen2': 1}])
def test_an_unknown_family_is_refused_with_the_choices(unknown):
    words = re.escape(f'model_type={unknown!r} is none of [') + ".*'llama', 'qwen2'"
    with pytest.raises(ValueError, match=words):
        family_of(unknown)
