"""Pictures in the forms that users' files have."""

import base64
import dataclasses

import numpy as np
import pytest

from passk_jax.errors import InputError
from passk_jax.tasks.picture_fields import picture_digests, read_pictures
from passk_jax.types import Problem

RAW = b'any bytes'
TEXT = base64.b64encode(RAW).decode()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'images').mkdir()
    (tmp_path / 'images' / '1.png').write_bytes(RAW)
    return tmp_path


@pytest.mark.parametrize(
    'value',
    [
        RAW,
        {'bytes': RAW, 'path': 'not/there.png'},
        {'bytes': TEXT},
        f'data:image/png;base64,{TEXT}',
        {'type': 'image_url', 'image_url': {'url': f'data:image/png;base64,{TEXT}'}},
        {'type': 'image', 'image': {'bytes': RAW, 'path': None}},
        [RAW],
    ],
)
def test_a_picture_may_be_its_bytes(value):
    assert read_pictures(value, ()) == [RAW]


@pytest.mark.parametrize(
    'value',
    [
        'images/1.png',
        {'bytes': None, 'path': 'images/1.png'},
        {'type': 'image', 'image': 'images/1.png', 'text': None},
        ('images/1.png', None),
    ],
)
def test_a_picture_may_be_a_path(value, folder):
    place = str(folder / 'images/1.png')
    assert read_pictures(value, (folder / 'other', folder)) == [place]
    assert read_pictures(f'file://{place}', [folder]) == [place]


@pytest.mark.parametrize(
    'value',
    [None, '', [], [None, ''], {'bytes': None, 'path': None}, {'type': 'image'}],
)
def test_an_empty_field_has_no_picture(value):
    assert read_pictures(value, ()) == []


def test_pictures_keep_their_order(folder):
    array = np.zeros((2, 2, 3), np.uint8)
    pictures = read_pictures(['images/1.png', RAW, array], [folder])
    assert pictures[0].endswith('1.png')
    assert pictures[1] == RAW
    assert pictures[2] is array


@pytest.mark.parametrize(
    ('value', 'words'),
    [
        ('images/2.png', "picture 'images/2.png' is absent: .*images/2.png"),
        ('images', "picture 'images' is absent"),
        ('https://a.org/1.png', 'is an address: download it'),
        ({'url': 'http://a.org/1.png'}, 'is an address'),
        (3, '3 is no path and no bytes'),
        ([[RAW]], 'is no path and no bytes'),
        ({'bytes': 'ä'}, 'no base64'),
        ('data:image/png;base64,x', 'no base64'),
    ],
)
def test_what_is_no_picture_is_refused(value, words, folder):
    with pytest.raises(InputError, match=words):
        read_pictures(value, [folder])


def test_equal_pictures_have_equal_digests(folder):
    array = np.zeros((2, 2, 3), np.uint8)
    images = (RAW, str(folder / 'images/1.png'), array, array.reshape(1, 4, 3))
    problem = Problem(0, '', {}, '', images=images)
    digests = picture_digests(problem)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    with pytest.raises(InputError, match='cannot be read'):
        picture_digests(dataclasses.replace(problem, images=('absent',)))
