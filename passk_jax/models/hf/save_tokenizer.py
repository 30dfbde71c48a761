"""Writes a run's tokenizer so that ``AutoTokenizer`` reads the same one.

Next to a Qwen2 model, ``AutoTokenizer`` of transformers 5 silently replaces the
pre-tokenizer of ``tokenizer.json`` with Qwen2's (see ``load_tokenizer``). So this
module reads back the files it wrote. If ids or texts differ, it adds ``auto_map``, so
that ``AutoTokenizer`` skips the replacement and reads the file. If remote code is
trusted, the class that ``auto_map`` names does the same.
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
    """Writes the tokenizer, with its chat template, next to a ``config.json``.

    Raises:
        InputError: transformers reads another tokenizer from the written files.
    """
    tokenizer.save_pretrained(directory)
    # transformers 4 and 5 both know the class by this name.
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
    """Returns whether ``AutoTokenizer`` reads this tokenizer from the directory."""
    reloaded: Any = transformers.AutoTokenizer.from_pretrained(directory)
    same = _deciding_fields(reloaded) == _deciding_fields(tokenizer)
    return same and reloaded.chat_template == tokenizer.chat_template


def _deciding_fields(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns ``tokenizer.json`` without options that change neither ids nor texts."""
    fields = json.loads(tokenizer.backend_tokenizer.to_str())
    # This option changes only the offsets of tokens in a text.
    unused = {'trim_offsets'}
    fields['pre_tokenizer'] = _byte_level_without(unused, fields['pre_tokenizer'])
    # These options change only the encoding of texts.
    unused |= {'add_prefix_space', 'use_regex'}
    fields['decoder'] = _byte_level_without(unused, fields['decoder'])
    return fields


def _byte_level_without(names: set[str], part: Any) -> Any:
    """Removes these options from the ``ByteLevel`` steps of a ``tokenizer.json``."""
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
