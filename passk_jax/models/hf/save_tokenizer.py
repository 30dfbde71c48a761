"""A run's tokenizer as a directory from which ``AutoTokenizer`` reads the same one.

``AutoTokenizer`` of transformers 5 goes by the model's type: beside a Qwen2 it puts
Qwen2's own pre-tokenizer in place of the one in ``tokenizer.json``, whatever
``tokenizer_config.json`` says. A tokenizer of characters then loses its line breaks and
DeepSeek's the spaces (huggingface/transformers, issue 45488), and neither says so. So
what is written is read again, and where it is not the same, ``auto_map`` is added: it
takes ``AutoTokenizer`` past that replacement and back to the file, and names a class
that does so too if code beside a model is trusted.
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
        ValueError: transformers reads another tokenizer from what was written.
    """
    tokenizer.save_pretrained(directory)
    # The one name of this class that transformers 4 and 5 both know.
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
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    have, want = (json.loads(t.backend_tokenizer.to_str()) for t in (theirs, tokenizer))
    return have == want and theirs.chat_template == tokenizer.chat_template
