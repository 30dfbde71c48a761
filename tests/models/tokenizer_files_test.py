"""Files of published tokenizers: templates and ends of responses elsewhere."""

import dataclasses
import json

import pytest

from passk_jax.models import tokenizer as tokenizers
from tests.models.tokenizer_chat_test import QWEN, write


def test_a_switch_in_a_system_prompt_is_taken(tmp_path, caplog):
    """SmolLM3's template reads a switch there, and leaves it out of the text."""
    template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ m['content'].replace('/no_think', '') }}{% else %}"
        "{{ m['content'] }}{% endif %}{% endfor %}"
    )
    write(dataclasses.replace(QWEN, template=template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    text = 'Be brief. /no_think'
    tokenizers.check_chat(tokenizer, system_prompt=text, template_kwargs={})
    assert 'leaves out data.system_prompt' in caplog.text
    with pytest.raises(ValueError, match='leaves out'):
        tokenizers.check_chat(tokenizer, system_prompt='/no_think', template_kwargs={})


def test_the_template_of_a_processor_is_the_one(tmp_path):
    """Qwen2.5-VL's marks pictures; that of its tokenizer does not."""
    write(QWEN, tmp_path)
    pictured = (
        "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}"
        "{% else %}{% for part in m['content'] %}"
        "{% if part['type'] == 'image' %}PICTURE{% else %}{{ part['text'] }}{% endif %}"
        '{% endfor %}{% endif %}{% endfor %}'
    )
    text = json.dumps({'chat_template': pictured})
    (tmp_path / tokenizers.TEMPLATE_FILE).write_text(text)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    ids = tokenizers.encode_prompt(tokenizer, ('a', 'b'))
    assert tokenizer.decode(ids) == 'aPICTUREb'
    (tmp_path / tokenizers.TEMPLATE_FILE).write_text('{}')
    with pytest.raises(ValueError, match=r'no tokenizer in .*chat_template'):
        tokenizers.load_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ({'eos_token_id': [3, 4]}, [3, 4]),
        ({'text_config': {'eos_token_id': 5}}, [5]),
        ({'eos_token_id': 0, 'text_config': {'eos_token_id': 5}}, [0]),
        ({'text_config': 'x', 'eos_token_id': -1}, None),
        ({'text_config': None, 'eos_token_id': True}, None),
    ],
)
def test_without_a_generation_config_the_config_names_the_end(
    fields, expected, tmp_path
):
    (tmp_path / 'config.json').write_text(json.dumps(fields))
    generation = tokenizers.load_generation_config(str(tmp_path))
    assert generation.eos_token_id == expected
    (tmp_path / 'config.json').unlink()
    assert tokenizers.load_generation_config(str(tmp_path)) is None
