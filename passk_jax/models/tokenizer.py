"""Tokenizers: one of characters built offline, or any of Hugging Face.

All of them are fast transformers tokenizers, so a run saves its own with
``tokenizer.save_pretrained(directory)`` and :func:`load_tokenizer` reads it back.
Nothing here needs torch or, for a tokenizer of characters or in a directory, a network.

A tokenizer with a chat template is used as the model was tuned: the template writes
every special token of a prompt itself, so the tokenizer adds none, and what it writes
after an assistant's turn ends a response.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers

from passk_jax.errors import InputError
from passk_jax.models.hf import config

Tokenizer = transformers.PreTrainedTokenizerFast

PAD, EOS = '<pad>', '<eos>'

_TOKENIZER_FILES = (
    'tokenizer.json',
    'tokenizer_config.json',
    'special_tokens_map.json',
    'added_tokens.json',
    '*.jinja',
)

# Llama 3's templates write a date: this one (Llama 3.1) or today's (3.2), if they are
# not given any. A run that is resumed tomorrow has to go on with the same prompts.
_DATE = '26 Jul 2024'

# The prompt is the user's text as it is: what comes after it is the response.
_PLAIN_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def character_tokenizer(alphabet: str) -> Tokenizer:
    """A tokenizer with one token for each character, after ``<pad>`` 0 and ``<eos>`` 1.

    Text over the alphabet comes back exactly as it was. Any other character is an
    error, because a policy cannot be trained on what it cannot read.

    Args:
        alphabet: characters in the order of their ids, from 2.

    Raises:
        ValueError: an empty alphabet, or a character twice.
    """
    if not alphabet or len(set(alphabet)) != len(alphabet):
        raise InputError(f'{alphabet=} must hold characters, and each only once')
    vocab = {token: i for i, token in enumerate((PAD, EOS, *alphabet))}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token='<unknown>'))
    one_character = tokenizers.Regex(r'[\s\S]')
    backend.pre_tokenizer = pre_tokenizers.Split(one_character, behavior='isolated')
    backend.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=EOS,
        chat_template=_PLAIN_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side='right',
    )


def load_tokenizer(source: str) -> Tokenizer:
    """The tokenizer in a Hugging Face directory, or of a hub name.

    It is what ``tokenizer.json`` says. ``AutoTokenizer`` of transformers 5 goes by the
    names of classes and puts their own pre-tokenizer in place of the file's, by which
    DeepSeek's models lose the spaces of their prompts (huggingface/transformers, issue
    45488) and a tokenizer of characters its line breaks.

    Raises:
        ValueError: there is none, or it cannot be reached.
    """
    try:
        directory = config.source_directory(source, _TOKENIZER_FILES)
        config.read_json(directory / 'tokenizer.json')
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
    except (OSError, ValueError, KeyError) as e:
        raise InputError(
            f'no tokenizer in {source!r}, which is to be a directory with a '
            f'tokenizer.json or a name on the Hugging Face hub that can be reached '
            f'from here: {e}'
        ) from e
    # The file may say to cut or pad every text; prompts are whole here.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def load_generation_config(source: str) -> transformers.GenerationConfig | None:
    """The generation config of a directory or hub name; ``None`` if it has none.

    Raises:
        ValueError: no such source, or a file that cannot be read.
    """
    name = 'generation_config.json'
    path = config.source_directory(source, [name]) / name
    if not path.exists():
        return None
    fields = config.read_json(path)
    return transformers.GenerationConfig.from_dict(fields)


def encode_prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    """Tokens of a user's text, as the policy is to go on from.

    A tokenizer with a chat template gives the user's turn and the opening of the
    answer; one without gives the plain text with its own special tokens.

    Raises:
        ValueError: the tokenizer has no token for a part of the text, or its chat
            template takes no user's turn.
    """
    chat = bool(tokenizer.chat_template)
    if chat:
        turn = {'role': 'user', 'content': text}
        text = _chat(tokenizer, [turn], opens_answer=True)
    try:
        # The Rust tokenizer itself: five times quicker for a short text.
        backend = tokenizer.backend_tokenizer
        return backend.encode(text, add_special_tokens=not chat).ids
    except Exception as e:
        # What the Rust side raises has no narrower type.
        raise InputError(f'the tokenizer cannot encode {text!r}: {e}') from e


def decode_responses(
    tokenizer: Tokenizer, tokens: np.ndarray, lengths: np.ndarray
) -> list[list[str]]:
    """Responses as text, without special tokens.

    Args:
        tokenizer: the policy's.
        tokens: ``[P, N, T]`` integers.
        lengths: ``[P, N]``; tokens at or past them are not looked at.

    Returns:
        ``[P][N]`` texts.
    """
    num_prompts, num_rollouts, _ = tokens.shape
    rows = [
        row[:length].tolist()
        for row, length in zip(
            tokens.reshape(num_prompts * num_rollouts, -1),
            lengths.reshape(-1).tolist(),
            strict=True,
        )
    ]
    # The Rust tokenizer itself: ten times quicker, and it tidies no white space.
    texts = tokenizer.backend_tokenizer.decode_batch(rows, skip_special_tokens=True)
    return [
        texts[p * num_rollouts : (p + 1) * num_rollouts] for p in range(num_prompts)
    ]


def stop_token_ids(
    tokenizer: Tokenizer, generation_config: Any | None = None
) -> tuple[int, ...]:
    """Tokens that end a response, each once.

    Args:
        tokenizer: the token that its chat template writes after an assistant's turn
            comes first: the one demonstrations end on. Then its end-of-sequence token,
            which is another one where only the template was changed by the tuning.
        generation_config: anything with ``eos_token_id``, one id or several; instruct
            models name there more tokens than their tokenizer does.

    Raises:
        ValueError: there is no such token.
    """
    more = getattr(generation_config, 'eos_token_id', None)
    if more is None:
        more = []
    elif not isinstance(more, Sequence):
        more = [more]
    first = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    every = (*_end_of_turn(tokenizer), *first, *more)
    if not (ids := tuple(dict.fromkeys(int(i) for i in every))):
        raise InputError(
            'neither tokenizer, chat template nor generation config has an end token'
        )
    return ids


def _chat(
    tokenizer: Tokenizer, turns: list[Mapping[str, str]], *, opens_answer: bool
) -> str:
    """The turns as the chat template writes them."""
    try:
        return tokenizer.apply_chat_template(
            turns,
            add_generation_prompt=opens_answer,
            tokenize=False,
            date_string=_DATE,
        )
    except Exception as e:
        # A template is a program, which may raise anything.
        raise InputError(f'the chat template cannot write {turns}: {e}') from e


def _end_of_turn(tokenizer: Tokenizer) -> list[int]:
    """The special token that the chat template writes after an answer, if any."""
    if not tokenizer.chat_template:
        return []
    answer = 'ANSWER'
    turns = [
        {'role': 'user', 'content': 'QUESTION'},
        {'role': 'assistant', 'content': answer},
    ]
    text = _chat(tokenizer, turns, opens_answer=False)
    _, found, after = text.rpartition(answer)
    if not found:
        raise InputError(f'the chat template leaves out what {turns} answers: {text!r}')
    known = tokenizer.added_tokens_decoder
    ids = tokenizer.encode(after, add_special_tokens=False)
    return [i for i in ids if i in known and known[i].special][:1]
