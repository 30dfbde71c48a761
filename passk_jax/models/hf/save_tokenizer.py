"""Writes a run's tokenizer so that ``AutoTokenizer`` reads the same one.

Beside a Qwen2, ``AutoTokenizer`` of transformers 5 replaces the pre-tokenizer of
``tokenizer.json`` with Qwen2's own and does not say so (see ``load_tokenizer``). So
what is written is read again. If that gives other ids or texts, ``auto_map`` is added:
``AutoTokenizer`` then skips the replacement and reads the file, and the class that it
names does the same where code beside a model is trusted.
"""

import json
import pathlib
from typing import Any

import transformers

from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.models.hf.config import read_json
from passk_jax.models.tokenizer import Tokenizer

_MODULE = 'tokenizer_of_file'
_CODE = '''"""Reads tokenizer.json as it is, whatever model lies beside it."""

from transformers import PreTrainedTokenizerFast


class TokenizerOfFile(PreTrainedTokenizerFast):
    pass
'''


def save_tokenizer(tokenizer: Tokenizer, directory: pathlib.Path) -> None:
    """Writes the tokenizer, with its chat template, beside a ``config.json``.

    Raises:
        InputError: transformers reads another tokenizer from what was written.
    """
    tokenizer.save_pretrained(directory)
    # Both transformers 4 and 5 know the class by this name.
    _update(directory, {'tokenizer_class': 'PreTrainedTokenizerFast'})
    if _same(tokenizer, directory):
        return
    atomic_write_text(directory / f'{_MODULE}.py', _CODE)
    name = f'{_MODULE}.TokenizerOfFile'
    _update(directory, {'auto_map': {'AutoTokenizer': [None, name]}})
    if not _same(tokenizer, directory):
        raise InputError(
            f'AutoTokenizer of transformers {transformers.__version__} does not read '
            'back the tokenizer that was written'
        )


def _update(directory: pathlib.Path, fields: dict[str, Any]) -> None:
    path = directory / 'tokenizer_config.json'
    text = json.dumps(read_json(path) | fields, indent=2, ensure_ascii=False)
    atomic_write_text(path, text + '\n')


def _same(tokenizer: Tokenizer, directory: pathlib.Path) -> bool:
    """Whether ``AutoTokenizer`` reads this tokenizer from the directory."""
    reloaded = transformers.AutoTokenizer.from_pretrained(directory)
    same = _deciding_fields(reloaded) == _deciding_fields(tokenizer)
    return same and reloaded.chat_template == tokenizer.chat_template


def _deciding_fields(tokenizer: Tokenizer) -> dict[str, Any]:
    """``tokenizer.json`` without the options that change neither ids nor texts."""
    fields = json.loads(tokenizer.backend_tokenizer.to_str())
    # It affects only the offsets of tokens in a text.
    unused = {'trim_offsets'}
    fields['pre_tokenizer'] = _byte_level_without(unused, fields['pre_tokenizer'])
    # These affect only the way from text to tokens.
    unused |= {'add_prefix_space', 'use_regex'}
    fields['decoder'] = _byte_level_without(unused, fields['decoder'])
    return fields


def _byte_level_without(names: set[str], part: Any) -> Any:
    """A part of ``tokenizer.json`` whose ``ByteLevel`` steps lack these options."""
    if isinstance(part, list):
        return [_byte_level_without(names, item) for item in part]
    if not isinstance(part, dict):
        return part
    unused = names if part.get('type') == 'ByteLevel' else set()
    return {
        name: _byte_level_without(names, value)
        for name, value in part.items()
        if name not in unused
    }
