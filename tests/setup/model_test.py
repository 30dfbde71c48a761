"""The tokenizer and the architecture that a configuration names."""

import dataclasses
import json
from unittest import mock

import pytest

from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.setup import model as setup_model
from passk_jax.types import Problem
from tests import changed, tiny


def test_the_settings_of_a_source_are_those_of_its_file_but_for_the_callers(tmp_path):
    """The sizes come from the file, the types of numbers from the configuration."""
    sizes = dict.fromkeys(vars(tiny.make_config().model.arch), 0)
    del sizes['vision']
    sizes['tie_embeddings'] = sizes['norm_topk_prob'] = False
    overrides = {f'model__arch__{name}': size for name, size in sizes.items()}
    config = changed.make_config(model__source=str(tmp_path), **overrides).model
    with mock.patch('passk_jax.models.hf.config.arch_from_hf') as arch_from_hf:
        arch_from_hf.return_value = tiny.make_setup(tiny.make_config()).policy.arch
        setup_model.architecture(config, vocab_size=11, platform='cpu')
    arch_from_hf.assert_called_once_with(
        str(tmp_path),
        family='qwen3_moe',
        param_dtype='bfloat16',
        compute_dtype='bfloat16',
        remat='full',
        attention='plain',
    )


def config_of_table(directory, *, num_rows, alphabet):
    """The tiny experiment with a model of so many rows and another tokenizer."""
    config = tiny.make_config()
    arch = tiny.make_setup(config).policy.arch
    tokenizers.character_tokenizer(alphabet).save_pretrained(directory)
    fields = hf_config.hf_config_fields(
        dataclasses.replace(arch, vocab_size=num_rows),
        family_of('qwen2'),
        dtype='float32',
        max_positions=64,
        eos_token_ids=[1],
        pad_token_id=0,
    )
    (directory / 'config.json').write_text(json.dumps(fields))
    sizes = dict.fromkeys(config.model.arch.__dataclass_fields__, 0)
    del sizes['vision']
    sizes['tie_embeddings'] = sizes['norm_topk_prob'] = False
    overrides = {f'model__arch__{name}': size for name, size in sizes.items()}
    return tiny.make_config(
        model__source=str(directory), model__tokenizer='source', **overrides
    )


def test_a_tokenizer_larger_than_the_models_table_is_refused(tmp_path):
    config = config_of_table(tmp_path, num_rows=11, alphabet='SE.*\nUDLRabc')
    with pytest.raises(ValueError, match=r'ids up to 13, but .* has only 11 rows'):
        tiny.make_setup(config)


def test_added_tokens_need_no_row_unless_a_prompt_has_them(tmp_path):
    """Gemma 3's tokenizer has a token for pictures behind the table of 270M and 1B."""
    config = config_of_table(tmp_path, num_rows=11, alphabet='SE.*\nUDLR')
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    tokenizer.add_special_tokens({'additional_special_tokens': ['<picture>']})
    tokenizer.save_pretrained(tmp_path)
    setup = tiny.make_setup(config)
    assert (setup.policy.num_tokens, setup.policy.arch.vocab_size) == (11, 11)
    problem = Problem(0, 'S.E\n', {}, 'a')
    assert setup.encode(problem)
    problem = dataclasses.replace(problem, prompt='S.<picture>E\n')
    words = "the prompt has '<picture>', token 11, and the model has only 11 rows"
    with pytest.raises(ValueError, match=words):
        setup.encode(problem)
    # One that ends a response needs its row.
    fields = {'eos_token_id': [1, 11]}
    (tmp_path / 'generation_config.json').write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=r'ids up to 11, but .* has only 11 rows'):
        tiny.make_setup(config)


@pytest.mark.parametrize('num_rows', [11, 16])
def test_the_policy_knows_how_many_rows_are_tokens(num_rows, tmp_path):
    config = config_of_table(tmp_path, num_rows=num_rows, alphabet='SE.*\nUDLR')
    policy = tiny.make_setup(config).policy
    assert (policy.num_tokens, policy.arch.vocab_size) == (11, num_rows)
