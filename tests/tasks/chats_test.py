import json

import pytest

from passk_jax.tasks.chats import Chat, read_field, read_prompt

SYSTEM = {'role': 'system', 'content': 'Be brief.'}
USER = {'role': 'user', 'content': 'What is 1+1?'}
ANSWER = {'role': 'assistant', 'content': '2'}


def _with_system(text):
    return Chat(text, (('system', 'Be brief.'),))


@pytest.mark.parametrize(
    ('value', 'chat'),
    [
        ('What?', Chat('What?')),
        ([USER], Chat('What is 1+1?')),
        (USER, Chat('What is 1+1?')),
        ([SYSTEM, USER], _with_system('What is 1+1?')),
        (json.dumps([SYSTEM, USER]), _with_system('What is 1+1?')),
        # The form in which pandas writes a list to CSV.
        (str([SYSTEM, USER]), _with_system('What is 1+1?')),
        (
            [{'from': 'human', 'value': 'Q'}, {'from': 'gpt', 'value': 'A'}, USER],
            Chat('What is 1+1?', (('user', 'Q'), ('assistant', 'A'))),
        ),
        ([{'role': 'user', 'content': [{'type': 'text', 'text': 'Q'}]}], Chat('Q')),
        (
            [{'role': 'developer', 'content': 'Be brief.'}, USER],
            _with_system(USER['content']),
        ),
        # Texts that look like lists.
        ('[1, 2] is what?', Chat('[1, 2] is what?')),
        ('{"a": 1}', Chat('{"a": 1}')),
        ('["a", "b"]', Chat('["a", "b"]')),
    ],
)
def test_a_prompt_is_a_text_or_a_chat(value, chat):
    assert read_prompt(value) == chat


def test_parts_of_the_last_turn_may_be_pictures():
    parts = [
        {'type': 'image', 'image': 'a.png'},
        {'type': 'text', 'text': 'or'},
        {'type': 'image_url', 'image_url': {'url': 'b.png'}},
    ]
    chat = read_prompt([SYSTEM, {'role': 'user', 'content': parts}])
    assert chat.text == '<image>or<image>'
    assert chat.pictures == (parts[0], parts[2])
    assert chat.turns == (('system', 'Be brief.'),)


@pytest.mark.parametrize(
    ('value', 'message'),
    [
        (' ', "'prompt' must be text that is not empty, or a chat"),
        (None, 'must be text'),
        (3, 'must be text'),
        ([], 'must be text'),
        (['a', 'b'], 'must be text'),
        ([USER, ANSWER], "last turn is of the assistant, .*'prompt.0.content'"),
        ([SYSTEM], 'last turn is of the system'),
        ([USER, 'a'], 'not all items of its list are turns'),
        ([{'role': 'user', 'content': ' '}], "user's last turn is empty"),
        ([{'role': 'judge', 'content': 'a'}], "role 'judge' of a turn is none of"),
        ([{'role': 'user', 'content': None}], 'a part that is no text'),
        ([{'role': 'user', 'content': [{'type': 'audio'}]}], 'a part that is no text'),
        (
            [{'role': 'user', 'content': [{'type': 'image'}]}, ANSWER, USER],
            'a picture stands in an earlier turn',
        ),
    ],
)
def test_what_is_no_prompt_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        read_prompt(value)


@pytest.mark.parametrize('write', [lambda turns: turns, json.dumps])
def test_one_turn_may_be_named_unless_it_is_the_systems(write):
    record = {'prompt': write([SYSTEM, USER]), 'a.content': 'plain'}
    assert read_field(record, 'prompt') == _with_system('What is 1+1?')
    assert read_field(record, 'prompt.1.content') == Chat('What is 1+1?')
    assert read_field(record, 'a.content') == Chat('plain')
    with pytest.raises(ValueError, match=r"is the system's turn: name .*'prompt'"):
        read_field(record, 'prompt.0.content')
