"""What of a model's files would differ by the day or the version of transformers."""

import dataclasses
import json

import pytest

from passk_jax.errors import InputError
from passk_jax.models import tokenizer as tokenizers
from tests.models.tokenizer_chat_test import QWEN, write

# How SmolLM3, Mistral Small 3 and gpt-oss ask for the day, and other ways.
DATED = {
    '{{ strftime_now("%d %B %Y") }}': '26 July 2024',
    "{%- set today = strftime_now('%Y-%m-%d') %}Today is {{ today }}.": (
        'Today is 2024-07-26.'
    ),
    '{% if strftime_now is defined %}{{ strftime_now("%-d %b %y") }}{% endif %}': (
        '26 Jul 24'
    ),
    '{% macro head() %}{{ strftime_now("%A %H:%M") }}{% endmacro %}{{ head() }}': (
        'Friday 00:00'
    ),
    '{% if x is not defined %}{% set x = strftime_now("%m/%d") %}{% endif %}'
    '{{ date_string }} {{ x }}': '26 Jul 2024 07/26',
}


@pytest.mark.parametrize('template', DATED)
def test_a_template_that_writes_today_gets_the_date_of_the_run(tmp_path, template):
    dated_template = (
        template + "|\n{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    write(dataclasses.replace(QWEN, template=dated_template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    ids = tokenizers.encode_prompt(tokenizer, 'Q')
    assert tokenizer.decode(ids) == f'{DATED[template]}|\nQ'
    ids = tokenizers.encode_prompt(tokenizer, 'Q', date='2031-02-03')
    assert tokenizer.decode(ids) != f'{DATED[template]}|\nQ'


@pytest.mark.parametrize('start', ['', '\n', '\n  ', '  {% if true %}\nA{% endif %}\n'])
def test_blanks_before_a_template_stay(tmp_path, start):
    template = start + "{% for m in messages %}\n{{ m['content'] }}{% endfor %}"
    write(dataclasses.replace(QWEN, template=template), tmp_path)
    tokenizer = tokenizers.load_tokenizer(str(tmp_path))
    turns = [{'role': 'user', 'content': 'Q'}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    assert tokenizer.decode(tokenizers.encode_prompt(tokenizer, 'Q')) == text


def test_an_unknown_cache_is_no_matter(tmp_path):
    fields = {'eos_token_id': 3, 'cache_implementation': 'nonsense'}
    (tmp_path / 'generation_config.json').write_text(json.dumps(fields))
    assert tokenizers.load_generation_config(str(tmp_path)).eos_token_id == 3


def test_a_generation_config_that_transformers_refuses_is_named(tmp_path):
    fields = {'eos_token_id': 3, 'early_stopping': 'perhaps'}
    (tmp_path / 'generation_config.json').write_text(json.dumps(fields))
    with pytest.raises(InputError, match=r'generation_config.json: transformers ref'):
        tokenizers.load_generation_config(str(tmp_path))
