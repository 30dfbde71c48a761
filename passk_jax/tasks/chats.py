"""Reads prompts of records: a text, the turns of a chat, or such turns as JSON text.

Turns have ``role`` and ``content``, as in data sets of verl and TRL, or ``from`` and
``value``, as in ShareGPT. The last turn is the user's and becomes the prompt of a
problem; the policy reads the earlier turns before it. A part of the last turn may be a
picture.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from passk_jax.errors import InputError
from passk_jax.tasks.rows import field_value, unwritten
from passk_jax.types import PICTURE, Turn

_ROLES = {
    'system': 'system',
    'developer': 'system',
    'user': 'user',
    'human': 'user',
    'assistant': 'assistant',
    'gpt': 'assistant',
    'model': 'assistant',
}
_KEYS = (('role', 'content'), ('from', 'value'))
_PICTURE_TYPES = ('image', 'image_url', 'input_image')


class Chat(NamedTuple):
    """A prompt.

    Attributes:
        text: the user's last turn, with ``<image>`` in the place of each picture.
        turns: the earlier turns.
        pictures: the parts of the last turn that are pictures, in order.
    """

    text: str
    turns: tuple[Turn, ...] = ()
    pictures: tuple[Mapping[str, Any], ...] = ()


def read_field(record: Mapping[str, Any], field: str) -> Chat:
    """Reads the prompt in a field of a record.

    Args:
        record: a row of a data set.
        field: the name of a text or a chat, or the path to a part,
            ``prompt.1.content``.

    Raises:
        ValueError: the field is missing, or it is the system's turn; the message says
            which field to name.
    """
    value = field_value(record, field)
    above, _, last = field.rpartition('.')
    if field not in record and last in ('content', 'value'):
        turn = _turn(field_value(record, above))
        chat = above.rpartition('.')[0]
        if turn and turn.role == 'system' and chat:
            raise InputError(
                f"field {field!r} is the system's turn: name the chat, {chat!r}, whose "
                'turns are then all read'
            )
    return read_prompt(value, field=field)


def read_prompt(value: Any, *, field: str = 'prompt') -> Chat:
    """Reads a prompt.

    Args:
        value: a text, a turn, a list of turns, or JSON of such turns.
        field: its name, for messages.

    Raises:
        ValueError: the value has another form, is empty, has a picture before the last
            turn, or does not end with the user's turn.
    """
    parsed = unwritten(value)
    items = parsed if isinstance(parsed, list) else [parsed]
    turns = [_turn(item) for item in items]
    pictures = [_pictures(item) for item in items]
    if not any(turns):
        if not isinstance(value, str) or not value.strip():
            raise InputError(
                f'field {field!r} must be text that is not empty, or a chat'
            )
        return Chat(value)
    read_turns = [turn for turn in turns if turn]
    if len(read_turns) < len(turns):
        raise InputError(f'field {field!r}: not all items of its list are turns')
    *before, asked_last = read_turns
    if any(pictures[:-1]):
        raise InputError(
            f"field {field!r}: a picture stands in an earlier turn; only the user's "
            'last turn may have pictures'
        )
    if asked_last.role != 'user':
        raise InputError(
            f'field {field!r}: the last turn is of the {asked_last.role}, not of the '
            f'user: leave it out, or name one turn, for example '
            f"'{field}.{max(len(before) - 1, 0)}.content'"
        )
    if not asked_last.content.strip():
        raise InputError(f"field {field!r}: the user's last turn is empty")
    return Chat(asked_last.content, tuple(before), tuple(pictures[-1]))


def _turn(value: Any) -> Turn | None:
    """Reads a turn of a chat; ``None`` if the value is not a turn."""
    for role_key, content_key in _KEYS:
        if not isinstance(value, Mapping) or not {role_key, content_key} <= set(value):
            continue
        role = _ROLES.get(str(value[role_key]).lower())
        if role is None:
            raise InputError(
                f'role {value[role_key]!r} of a turn is none of {sorted(_ROLES)}'
            )
        return Turn(role, _content(value[content_key]))
    return None


def _pictures(turn: Any) -> list[Mapping[str, Any]]:
    """Returns the parts of a turn that are pictures."""
    if not isinstance(turn, Mapping):
        return []
    parts = turn.get('content', turn.get('value'))
    return list(filter(_is_picture, parts)) if isinstance(parts, list) else []


def _is_picture(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get('type') in _PICTURE_TYPES


def _content(content: Any) -> str:
    """Returns the text of a turn, which may be a list of parts."""
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        text = part.get('text') if isinstance(part, Mapping) else part
        text = PICTURE if _is_picture(part) else text
        if not isinstance(text, str):
            raise InputError(f'a turn has a part that is no text: {str(part)[:60]!r}')
        texts.append(text)
    return ''.join(texts)
