import json
import subprocess
import sys
import types

import numpy as np
import pytest
import tokenizers as hf_tokenizers
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from passk_jax.models import tokenizer as tokenizers

_ALPHABET = '*.SE\nUDLR'
_MAZE = '.S*..\n.....\n*.**.\n...*E\n.*...\n'


@pytest.fixture(scope='module')
def characters():
    return tokenizers.character_tokenizer(_ALPHABET)


def test_a_5x5_maze_has_30_tokens_of_11(characters):
    assert len(characters) == 11
    ids = tokenizers.encode_prompt(characters, _MAZE)
    assert len(ids) == 30
    assert characters.decode(ids) == _MAZE
    assert (characters.pad_token_id, characters.eos_token_id) == (0, 1)


@given(text=st.text(alphabet=_ALPHABET + ' \\{}aé→'))
def test_text_over_the_alphabet_comes_back_as_it_was(text):
    tokenizer = tokenizers.character_tokenizer(_ALPHABET + ' \\{}aé→')
    ids = tokenizers.encode_prompt(tokenizer, text)
    assert len(ids) == len(text)
    assert not {0, 1} & set(ids)
    tokens = np.array([[[*ids, 1]]])
    decoded = tokenizers.decode_responses(tokenizer, tokens, np.array([[len(ids) + 1]]))
    assert decoded == [[text]]
    assert tokenizer.decode(ids) == text


def test_a_character_outside_the_alphabet_is_an_error(characters):
    with pytest.raises(
        ValueError, match=r"cannot encode 'S\.x': .* alphabet has no 'x'$"
    ):
        tokenizers.encode_prompt(characters, 'S.x')


@pytest.mark.parametrize('alphabet', ['', 'abca'])
def test_an_alphabet_without_or_with_repeated_characters_is_refused(alphabet):
    with pytest.raises(ValueError, match='alphabet='):
        tokenizers.character_tokenizer(alphabet)


def test_characters_may_stand_around_pictures(tmp_path):
    tokenizer = tokenizers.character_tokenizer('ab?', pictures=True)
    plain = tokenizers.character_tokenizer('ab?')
    assert plain.get_vocab().items() <= tokenizer.get_vocab().items()
    place = ['<|vision_start|>', '<|image_pad|>', '<|vision_end|>']
    tokenizer.save_pretrained(tmp_path)
    for loaded in (tokenizer, tokenizers.load_tokenizer(str(tmp_path))):
        ids = tokenizers.encode_prompt(loaded, ('a', 'b', '?'))
        assert loaded.convert_ids_to_tokens(ids) == ['a', *place, 'b', *place, '?']
        assert tokenizers.encode_prompt(loaded, 'ab') == [2, 3]
        # A response has no such token.
        tokens = np.array([[[2, *loaded.convert_tokens_to_ids(place), 3, 1]]])
        assert tokenizers.decode_responses(loaded, tokens, np.array([[6]])) == [['ab']]
    assert tokenizers.encode_prompt(plain, 'ab') == [2, 3]


def test_a_saved_tokenizer_is_read_back_equal(characters, tmp_path):
    characters.save_pretrained(tmp_path)
    again = tokenizers.load_tokenizer(str(tmp_path))
    assert again.get_vocab() == characters.get_vocab()
    assert again.all_special_ids == characters.all_special_ids
    assert again.chat_template == characters.chat_template
    ids = tokenizers.encode_prompt(characters, _MAZE)
    assert tokenizers.encode_prompt(again, _MAZE) == ids
    assert again.decode(ids) == _MAZE
    with pytest.raises(ValueError, match='cannot encode'):
        tokenizers.encode_prompt(again, 'x')


def test_only_tokens_before_the_length_are_decoded(characters):
    up, down = characters.convert_tokens_to_ids(['U', 'D'])
    tokens = np.array([[[up, down, 1, down], [down, up, up, 1]], [[1, 0, 0, 0]] * 2])
    lengths = np.array([[3, 2], [1, 0]])
    decoded = tokenizers.decode_responses(characters, tokens, lengths)
    assert decoded == [['UD', 'DU'], ['', '']]


def _byte_level(tmp_path, chat_template=None):
    """A tokenizer like those of language models: byte-level, two special tokens."""
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = hf_tokenizers.Tokenizer(models.BPE(vocab, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = hf_tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token='<|im_end|>',
        additional_special_tokens=['<|im_start|>'],
        chat_template=chat_template,
    )
    tokenizer.save_pretrained(tmp_path)
    return tokenizers.load_tokenizer(str(tmp_path))


def test_a_chat_template_opens_the_answer(tmp_path):
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        '<|im_end|>\n{% endfor %}'
        '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
    )
    tokenizer = _byte_level(tmp_path, template)
    ids = tokenizers.encode_prompt(tokenizer, 'Hé\n')
    expected = '<|im_start|>user\nHé\n<|im_end|>\n<|im_start|>assistant\n'
    assert tokenizer.decode(ids) == expected
    start, end = tokenizer.convert_tokens_to_ids(['<|im_start|>', '<|im_end|>'])
    assert (ids.count(start), ids.count(end)) == (2, 1)


def test_without_a_chat_template_the_prompt_is_the_text(tmp_path):
    tokenizer = _byte_level(tmp_path)
    assert tokenizer.decode(tokenizers.encode_prompt(tokenizer, ' a\n')) == ' a\n'


def test_decoding_tidies_no_white_space(tmp_path):
    tokenizer = _byte_level(tmp_path)
    text = "do n't , ok .  \n"
    ids = tokenizer.encode(text)
    tokens = np.array([[[*ids, tokenizer.eos_token_id]]])
    decoded = tokenizers.decode_responses(tokenizer, tokens, np.array([[len(ids) + 1]]))
    assert decoded == [[text]]


def test_demonstrations_end_on_the_first_stop_token(characters):
    config = types.SimpleNamespace(eos_token_id=[7, 1, 5])
    assert tokenizers.stop_token_ids(characters) == (1,)
    assert tokenizers.stop_token_ids(characters, config) == (1, 7, 5)
    config.eos_token_id = 9
    assert tokenizers.stop_token_ids(characters, config) == (1, 9)
    config.eos_token_id = None
    assert tokenizers.stop_token_ids(characters, config) == (1,)


def test_a_tokenizer_without_an_end_token_is_refused():
    nothing = types.SimpleNamespace(eos_token_id=None, chat_template=None)
    with pytest.raises(ValueError, match='end token'):
        tokenizers.stop_token_ids(nothing)


def test_a_directory_without_a_tokenizer_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"no tokenizer in '{tmp_path}'"):
        tokenizers.load_tokenizer(str(tmp_path))


def test_a_hub_name_that_cannot_be_reached_is_named(monkeypatch):
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    with pytest.raises(ValueError, match="no tokenizer in 'nobody/nothing'"):
        tokenizers.load_tokenizer('nobody/nothing')


def test_a_generation_config_is_read_if_there_is_one(tmp_path):
    assert tokenizers.load_generation_config(str(tmp_path)) is None
    transformers.GenerationConfig(eos_token_id=[3, 4]).save_pretrained(tmp_path)
    config = tokenizers.load_generation_config(str(tmp_path))
    assert config.eos_token_id == [3, 4]


@pytest.mark.parametrize('stated', ['151645', '<|im_end|>', [3, '4'], True, 3.0])
def test_an_end_token_that_is_no_id_is_refused(tmp_path, stated):
    path = tmp_path / 'generation_config.json'
    path.write_text(json.dumps({'eos_token_id': stated}))
    with pytest.raises(
        ValueError, match=r'config\.json: eos_token_id=.* must be the id'
    ):
        tokenizers.load_generation_config(str(tmp_path))


def test_tokenizers_work_without_torch(tmp_path):
    script = """
import sys
sys.modules['torch'] = None  # Any import of it now fails.
from passk_jax.models import tokenizer as tokenizers
tokenizer = tokenizers.character_tokenizer('ab')
tokenizer.save_pretrained(sys.argv[1])
again = tokenizers.load_tokenizer(sys.argv[1])
assert tokenizers.encode_prompt(again, 'ba') == [3, 2]
"""
    command = [sys.executable, '-c', script, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
