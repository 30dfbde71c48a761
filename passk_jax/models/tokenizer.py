"""Makes and loads tokenizers: a character tokenizer, or any of Hugging Face.

All are fast transformers tokenizers: ``tokenizer.save_pretrained(directory)`` saves one
and :func:`load_tokenizer` reads it back. Nothing here needs torch. Only a tokenizer of
the hub needs a network.

A chat template works as in the model's tuning. It writes every special token of a
prompt, so the tokenizer adds none. The token that it writes after an assistant's turn
ends a response.
"""

import datetime
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
import transformers
from absl import logging
from tokenizers import decoders, models, pre_tokenizers

from passk_jax.errors import InputError
from passk_jax.models.hf import config
from passk_jax.types import Turn

Tokenizer = transformers.PreTrainedTokenizerFast

PAD, EOS = '<pad>', '<eos>'
IMAGE_TOKEN = '<|image_pad|>'
"""The token in the place of a picture, as in Qwen's tokenizers."""
_PICTURE_TOKENS = ('<|vision_start|>', IMAGE_TOKEN, '<|vision_end|>')

TEMPLATE_FILE = 'chat_template.json'
"""A processor's chat template, which marks pictures; Qwen2.5-VL has it here alone."""
TOKENIZER_FILES = (
    *('tokenizer.json', 'tokenizer_config.json', TEMPLATE_FILE),
    *('special_tokens_map.json', 'added_tokens.json', '*.jinja'),
)

# Templates write a date: Llama 3.1's writes this one; Llama 3.2's, SmolLM3's and
# Mistral's write today's. But a run that resumes tomorrow must have the same prompts.
CHAT_DATE = '2024-07-26'
_DATE_PARTS = [f'%{flag}{letter}' for flag in ('', '-') for letter in 'aAbBdejmyYHIMSp']
# Put before a template, it replaces transformers' clock.
_TODAY = (
    '{% macro strftime_now(format) %}{% set text = namespace(now=format) %}'
    '{% for part, value in parts_of_today.items() %}'
    '{% set text.now = text.now.replace(part, value) %}{% endfor %}'
    '{{ text.now }}{% endmacro %}\n'
)

# The prompt is the user's text, unchanged; the response follows it.
_PLAIN_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_PICTURED_TEMPLATE = (
    "{% for message in messages %}{% if message['content'] is string %}"
    "{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}" + ''.join(_PICTURE_TOKENS) + '{% else %}'
    "{{ part['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)


def character_tokenizer(alphabet: str, *, pictures: bool = False) -> Tokenizer:
    """Makes a tokenizer of characters, after ``<pad>`` 0 and ``<eos>`` 1.

    Decoding restores texts over the alphabet exactly. Any other character is an error,
    because a policy cannot learn from text that it cannot read.

    Args:
        alphabet: characters in the order of their ids, from 2.
        pictures: whether three more tokens mark the place of a picture.

    Raises:
        InputError: an empty alphabet, or a repeated character.
    """
    if not alphabet or len(set(alphabet)) != len(alphabet):
        raise InputError(f'{alphabet=} must hold characters, and each only once')
    vocab = {token: i for i, token in enumerate((PAD, EOS, *alphabet))}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token='<unknown>'))
    one_character = tokenizers.Regex(r'[\s\S]')
    backend.pre_tokenizer = pre_tokenizers.Split(one_character, behavior='isolated')
    backend.decoder = decoders.Fuse()
    if pictures:
        backend.add_special_tokens([*_PICTURE_TOKENS])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=EOS,
        chat_template=_PICTURED_TEMPLATE if pictures else _PLAIN_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side='right',
    )


def load_tokenizer(source: str) -> Tokenizer:
    """Loads the tokenizer of a Hugging Face directory or hub name.

    It reads ``tokenizer.json``. ``AutoTokenizer`` of transformers 5 decides by class
    names and may replace the file's pre-tokenizer. Then DeepSeek's models lose the
    spaces of their prompts (huggingface/transformers, issue 45488), and a character
    tokenizer loses its line breaks.

    Raises:
        InputError: there is no tokenizer, or it cannot be reached.
    """
    try:
        directory = config.source_directory(source, TOKENIZER_FILES)
        config.read_json(directory / 'tokenizer.json')
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
        if (path := directory / TEMPLATE_FILE).is_file():
            # As transformers' processors do.
            template = config.read_json(path).get('chat_template')
            if not isinstance(template, str):
                raise ValueError(f'{path} has no text chat_template')
            tokenizer.chat_template = template
    except (OSError, ValueError, KeyError) as e:
        raise InputError(
            f'no tokenizer in {source!r}, which must be a directory with a '
            f'tokenizer.json or a reachable name on the Hugging Face hub: {e}'
        ) from e
    # The file may request truncation or padding, but prompts must stay whole.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def load_generation_config(source: str) -> transformers.GenerationConfig | None:
    """Loads the generation config of a directory or hub name; ``None`` without one.

    Like transformers, it takes the tokens that end a response from ``config.json`` if
    there is no ``generation_config.json``.

    Raises:
        InputError: no such source, or a file that cannot be read.
    """
    names = 'generation_config.json', 'config.json'
    directory = config.source_directory(source, names)
    path = next((x for x in (directory / name for name in names) if x.exists()), None)
    if path is None:
        return None
    fields = config.read_json(path)
    if path.name == names[1]:
        fields = _ends_of_config(fields)
    stated = fields.get('eos_token_id')
    ids = stated if isinstance(stated, list) else [stated]
    # type(), because a bool is an int.
    if not all(i is None or type(i) is int for i in ids):
        raise InputError(
            f'{path}: eos_token_id={stated!r} must be the id of a token or a list'
        )
    # Our sampler has its own cache, so an unknown one does not matter.
    fields.pop('cache_implementation', None)
    try:
        return transformers.GenerationConfig.from_dict(fields)
    except (TypeError, ValueError) as error:
        raise InputError(f'{path}: transformers refuses it: {error}') from error


def _ends_of_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the end tokens of a ``config.json``, as a generation config has them."""
    inner = fields.get('text_config')
    for part in (fields, inner if isinstance(inner, Mapping) else {}):
        stated = part.get('eos_token_id')
        ids = stated if isinstance(stated, list) else [stated]
        if ends := [i for i in ids if type(i) is int and i >= 0]:
            return {'eos_token_id': ends}
    return {}


def check_chat(
    tokenizer: Tokenizer, *, system_prompt: str, template_kwargs: Mapping[str, Any]
) -> None:
    """Checks that the chat template honors the arguments of :func:`encode_prompt`.

    Raises:
        InputError: there is no template, it does not read a switch, or it drops or
            rejects the system prompt.
    """
    # If there are several named templates, this text contains all of them.
    template = str(tokenizer.chat_template or '')
    if not template and (system_prompt or template_kwargs):
        raise InputError(
            'data.system_prompt and data.chat_template_kwargs need a chat template, '
            'and the tokenizer (model.tokenizer) has none'
        )
    # A template does not declare its variables, but it must name them.
    words = set(re.findall(r'\w+', template))
    if unread := sorted(template_kwargs.keys() - words):
        raise InputError(
            f'data.chat_template_kwargs has {unread}, which the chat template of the '
            'tokenizer (model.tokenizer) never reads'
        )
    if system_prompt:
        turns = Turn('system', system_prompt), Turn('user', '')
        write = functools.partial(
            _chat, tokenizer, opens_answer=True, template_kwargs=template_kwargs
        )
        written = write(turns)
        if system_prompt.strip() not in written:
            message = f'the chat template leaves out data.{system_prompt=}: {written!r}'
            if written == write(turns[1:]):
                raise InputError(message)
            # SmolLM3's reads switches such as /no_think, and leaves these out.
            logging.warning('%s, a part of it at least', message)
        _encode(tokenizer, written, add_special_tokens=False)


def encode_prompt(
    tokenizer: Tokenizer,
    text: str | Sequence[str],
    *,
    turns: Sequence[Turn] = (),
    system_prompt: str = '',
    template_kwargs: Mapping[str, Any] | None = None,
    date: str = CHAT_DATE,
) -> list[int]:
    """Encodes a user's text as the tokens of a prompt.

    With a chat template the prompt has the system's turn, earlier turns, the user's
    turn and the start of the answer. Without one it has the texts of the turns, with
    blank lines between them, and the tokenizer's special tokens.

    Args:
        tokenizer: the policy's.
        text: the user's turn; between two parts is a picture, which the chat template
            marks.
        turns: earlier turns.
        system_prompt: replaces the system's turns; ``''``: keeps them, or the
            template's default.
        template_kwargs: further variables of the template.
        date: today's date for the template, as in 2024-07-26.

    Raises:
        InputError: the tokenizer has no token for a part of the text, or its chat
            template rejects a turn.
    """
    chat = bool(tokenizer.chat_template)
    pictured = None if isinstance(text, str) else _with_pictures(text)
    every = (*turns, Turn('user', text if isinstance(text, str) else ''.join(text)))
    if pictured is not None and not chat:
        raise InputError('a prompt with a picture needs a chat template')
    if system_prompt:
        every = (
            Turn('system', system_prompt),
            *(t for t in every if t.role != 'system'),
        )
    if chat:
        text = _chat(
            tokenizer,
            every,
            opens_answer=True,
            template_kwargs=template_kwargs or {},
            date=date,
            pictured=pictured,
        )
    else:
        text = '\n\n'.join(turn.content for turn in every)
    return _encode(tokenizer, text, add_special_tokens=not chat)


def _encode(tokenizer: Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
    try:
        # The Rust tokenizer is five times as fast for a short text.
        backend = tokenizer.backend_tokenizer
        return backend.encode(text, add_special_tokens=add_special_tokens).ids
    except Exception as e:
        # The Rust side raises no narrower type.
        cause = _describe_unknown(tokenizer, text) or e
        raise InputError(f'the tokenizer cannot encode {text!r}: {cause}') from e


def _describe_unknown(tokenizer: Tokenizer, text: str) -> str:
    """Names what a tokenizer of characters lacks; ``''`` for another tokenizer."""
    if not isinstance(tokenizer.backend_tokenizer.model, models.WordLevel):
        return ''
    vocabulary = tokenizer.get_vocab()
    for special in tokenizer.all_special_tokens:
        text = text.replace(special, '')
    unknown = ''.join(sorted({*text} - vocabulary.keys()))
    return f"the task's alphabet has no {unknown!r}" if unknown else ''


def decode_responses(
    tokenizer: Tokenizer, tokens: np.ndarray, lengths: np.ndarray
) -> list[list[str]]:
    """Decodes responses to texts, without special tokens.

    Args:
        tokenizer: the policy's.
        tokens: ``[P, N, T]`` integers.
        lengths: ``[P, N]``; later tokens are ignored.

    Returns:
        ``[P][N]`` texts.
    """
    P, N, T = tokens.shape
    pairs = zip(tokens.reshape(P * N, T), lengths.reshape(-1), strict=True)
    rows = [row[:length].tolist() for row, length in pairs]
    # The Rust tokenizer is ten times as fast and keeps white space as it is.
    texts = tokenizer.backend_tokenizer.decode_batch(rows, skip_special_tokens=True)
    return [texts[p * N : (p + 1) * N] for p in range(P)]


def stop_token_ids(
    tokenizer: Tokenizer, generation_config: Any | None = None
) -> tuple[int, ...]:
    """Returns the distinct tokens that end a response.

    Args:
        tokenizer: the token that its chat template writes after an assistant's turn
            comes first, because demonstrations end with it. Its end-of-sequence token
            is next; the two differ if the tuning changed only the template.
        generation_config: anything with ``eos_token_id``, one id or several; for
            instruct models it has more tokens than the tokenizer.

    Raises:
        InputError: there is no such token.
    """
    more = getattr(generation_config, 'eos_token_id', None)
    more = more if isinstance(more, Sequence) else [more]
    every = (*_end_of_turn(tokenizer), tokenizer.eos_token_id, *more)
    ids = tuple(dict.fromkeys(int(i) for i in every if i is not None))
    if not ids:
        raise InputError(
            'neither tokenizer, chat template nor generation config has an end token'
        )
    return ids


def _chat(
    tokenizer: Tokenizer,
    turns: Sequence[Turn],
    *,
    opens_answer: bool,
    template_kwargs: Mapping[str, Any],
    date: str = CHAT_DATE,
    pictured: Sequence[Mapping[str, str]] | None = None,
) -> str:
    """Writes the turns by the chat template; the last one may be ``pictured``."""
    chat: list[dict[str, Any]] = [turn._asdict() for turn in turns]
    if pictured is not None:
        chat[-1]['content'] = pictured
    try:
        text: Any = tokenizer.apply_chat_template(
            chat,
            chat_template=_TODAY + tokenizer.get_chat_template(),
            add_generation_prompt=opens_answer,
            tokenize=False,
            **{**_dated(date), **template_kwargs},
        )
    except Exception as e:
        # A template is a program and may raise anything.
        turns_text = [tuple(turn) for turn in turns]
        raise InputError(f'the chat template cannot write {turns_text}: {e}') from e
    return text


def _with_pictures(texts: Sequence[str]) -> list[dict[str, str]]:
    """Makes the content of a turn with a picture between each two texts."""
    content = [part for x in texts for part in ({'type': 'image'}, _text_part(x))]
    return [part for part in content[1:] if part.get('text') != '']


def _text_part(text: str) -> dict[str, str]:
    return {'type': 'text', 'text': text}


@functools.lru_cache(maxsize=16)
def _dated(date: str) -> Mapping[str, Any]:
    """Returns the template variables for today's date."""
    today = datetime.date.fromisoformat(date)
    return {
        # Llama 3's templates read it; others call strftime_now.
        'date_string': today.strftime('%d %b %Y'),
        'parts_of_today': {part: today.strftime(part) for part in _DATE_PARTS},
    }


def _end_of_turn(tokenizer: Tokenizer) -> list[int]:
    """Returns the special token that the chat template writes after an answer."""
    if not tokenizer.chat_template:
        return []
    answer = 'ANSWER'
    turns = Turn('user', 'QUESTION'), Turn('assistant', answer)
    text = _chat(tokenizer, turns, opens_answer=False, template_kwargs={})
    _, separator, after = text.rpartition(answer)
    if not separator:
        raise InputError(f'the chat template leaves out what {turns} answers: {text!r}')
    added_tokens = tokenizer.added_tokens_decoder
    ids = tokenizer.encode(after, add_special_tokens=False)
    return [i for i in ids if i in added_tokens and added_tokens[i].special][:1]
