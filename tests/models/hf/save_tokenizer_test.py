"""AutoTokenizer reads from an exported directory what the run used."""

import json
import shutil
import sys

import pytest
import tokenizers as hf_tokenizers
import transformers
from tokenizers import models, pre_tokenizers

from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf import config, save_tokenizer
from tests.models import oracle

MAZE = '.S*..\n.....\n*.**.\n...*E\n'


def save(tokenizer, directory, family='qwen2'):
    parts = FAMILIES[family]
    fields = config.hf_config_fields(
        oracle.family_arch(family),
        parts,
        dtype='float32',
        max_positions=64,
        eos_token_ids=(1,),
        pad_token_id=0,
    )
    (directory / 'config.json').write_text(json.dumps(fields))
    save_tokenizer.save_tokenizer(tokenizer, directory)


def assert_reads(directory, tokenizer, text, **options):
    for read in (transformers.AutoTokenizer, transformers.PreTrainedTokenizerFast):
        reference = read.from_pretrained(directory, **options)
        ids = tokenizers.encode_prompt(tokenizer, text)
        turn = [{'role': 'user', 'content': text}]
        assert reference(text).input_ids == tokenizer(text).input_ids
        assert reference.decode(ids) == tokenizer.decode(ids)
        assert reference.all_special_ids == tokenizer.all_special_ids
        if tokenizer.chat_template:
            chat = reference.apply_chat_template(
                turn, add_generation_prompt=True, return_dict=False
            )
            assert chat == ids


@pytest.mark.parametrize('family', sorted(FAMILIES))
@pytest.mark.parametrize('trusted', [False, True])
def test_a_tokenizer_of_characters_keeps_its_line_breaks(
    family, trusted, tmp_path, monkeypatch
):
    # Where transformers copies the code that it is told to trust.
    modules = 'transformers.dynamic_module_utils.HF_MODULES_CACHE'
    monkeypatch.setattr(modules, str(tmp_path / 'modules'))
    monkeypatch.setattr(sys, 'path', [*sys.path])
    tokenizer = tokenizers.character_tokenizer('*.SE\nUDLR')
    save(tokenizer, tmp_path, family)
    assert_reads(tmp_path, tokenizer, MAZE, trust_remote_code=trusted)
    # Nothing more than needed: only beside a Qwen2 is another one read.
    plain = tmp_path / 'plain'
    shutil.copytree(tmp_path, plain, ignore=shutil.ignore_patterns('*.py', 'modules'))
    tokenizer.save_pretrained(plain)
    read = transformers.AutoTokenizer.from_pretrained(plain)
    is_another = read(MAZE).input_ids != tokenizer(MAZE).input_ids
    assert (tmp_path / 'tokenizer_of_file.py').exists() == is_another
    assert is_another or family != 'qwen2'


def test_spaces_are_kept_by_a_tokenizer_that_splits_as_its_model_does_not(tmp_path):
    """As DeepSeek's R1-Distill-Qwen, whose file has another pre-tokenizer."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab['Ġa'] = len(vocab)
    backend = hf_tokenizers.Tokenizer(models.BPE(vocab, [('Ġ', 'a')]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.ByteLevel(add_prefix_space=True),
        ]
    )
    backend.decoder = hf_tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token='<|end|>'
    )
    save(tokenizer, tmp_path)
    assert_reads(tmp_path, tokenizer, 'a a  12 é\n\n a')


def test_a_qwen2_tokenizer_needs_no_code_beside_it(tmp_path):
    """transformers' own has other options where they change nothing."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    reference = transformers.Qwen2Tokenizer(vocab | {'Ġa': len(vocab)}, [('Ġ', 'a')])
    fields = json.loads(reference.backend_tokenizer.to_str())
    for part in (fields['pre_tokenizer']['pretokenizers'][1], fields['decoder']):
        # As published.
        part |= {'add_prefix_space': False, 'trim_offsets': False, 'use_regex': False}
    backend = hf_tokenizers.Tokenizer.from_str(json.dumps(fields))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token='<|endoftext|>'
    )
    save(tokenizer, tmp_path)
    assert 'auto_map' not in (tmp_path / 'tokenizer_config.json').read_text()
    assert not (tmp_path / 'tokenizer_of_file.py').exists()
    assert_reads(tmp_path, tokenizer, " it's  a\t1234 a\n\nHé, Ħ ﬁ e\u0301 \n a")


def test_both_versions_of_transformers_know_the_class(tmp_path):
    save(tokenizers.character_tokenizer('ab'), tmp_path, 'llama')
    fields = json.loads((tmp_path / 'tokenizer_config.json').read_text())
    assert fields['tokenizer_class'] == 'PreTrainedTokenizerFast'
    assert 'auto_map' not in fields


def test_a_tokenizer_that_cannot_be_read_back_is_an_error(tmp_path, monkeypatch):
    other = tokenizers.character_tokenizer('ba')
    monkeypatch.setattr(
        transformers.AutoTokenizer, 'from_pretrained', lambda directory: other
    )
    with pytest.raises(ValueError, match='does not read back the tokenizer'):
        save(tokenizers.character_tokenizer('ab'), tmp_path)
