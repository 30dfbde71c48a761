"""Lengths that a simulated step may have."""

import json

import numpy as np
import pytest

from passk_jax.errors import InputError
from passk_jax.planning import lengths


def test_without_a_word_every_response_has_the_limit():
    assert lengths.read('', limit=9).draw(2, 3).tolist() == [[9] * 3] * 2


def test_constant_lengths_are_constant():
    distribution = lengths.read('constant:7', limit=9)
    assert (distribution.mean, set(distribution.draw(50).tolist())) == (7, {7})


@pytest.mark.parametrize(
    ('text', 'mean', 'limit'),
    [
        ('lognormal:979', 979, 4096),
        ('lognormal:979,0.5', 979, 4096),
        ('lognormal:3000', 3000, 4096),
        ('lognormal:12', 12, 10**5),
    ],
)
def test_the_mean_is_that_under_the_limit(text, mean, limit):
    distribution = lengths.read(text, limit=limit)
    assert distribution.mean == pytest.approx(mean, rel=0.01)
    assert 1 <= distribution.values.min() <= distribution.values.max() <= limit
    drawn = distribution.draw(100, 40)
    assert drawn.mean() == pytest.approx(mean, rel=0.06)
    np.testing.assert_array_equal(drawn, distribution.draw(100, 40))


def test_a_smaller_deviation_has_shorter_tails():
    wide, narrow = (
        lengths.read(text, limit=4096)
        for text in ('lognormal:500', 'lognormal:500,0.5')
    )
    assert wide.values.std() > 1.3 * narrow.values.std()


def test_recorded_lengths_are_drawn_again(tmp_path):
    rows = [json.dumps({'length': n}) + '\n' for n in (3, 5, 5)]
    (tmp_path / 'step_00000000.jsonl').write_text(''.join(rows))
    (tmp_path / 'step_00000001.jsonl').write_text(json.dumps({'length': 50}))
    distribution = lengths.read(str(tmp_path), limit=20)
    assert sorted(distribution.values) == [3, 5, 5, 20]


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('constant:0', r'0 must lie in \[1, 9\]'),
        ('constant:10', r'10 must lie in \[1, 9\]'),
        ('lognormal:9', 'between 1 and 9'),
        ('lognormal:5,0', 'deviation above 0'),
        ('normal:5', 'must be constant:TOKENS, lognormal:MEAN'),
        ('/nowhere', 'a directory rollouts/'),
    ],
)
def test_other_lengths_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        lengths.read(text, limit=9)


def test_several_distributions_are_read_in_order():
    distributions = lengths.read_all('constant:4; lognormal:5,0.8', limit=9)
    assert [x.name.partition(',')[0] for x in distributions] == [
        'all of 4 tokens',
        'log-normal',
    ]
    (alone,) = lengths.read_all('', limit=9)
    assert alone.mean == 9


@pytest.mark.parametrize('text', ['constant:4;', ';', 'constant:4;;constant:5'])
def test_none_of_several_is_empty(text):
    with pytest.raises(InputError, match='one of these distributions is empty'):
        lengths.read_all(text, limit=9)


def test_a_directory_without_rollouts_is_refused(tmp_path):
    with pytest.raises(InputError, match='no rollouts'):
        lengths.read(str(tmp_path), limit=9)
    (tmp_path / 'step_00000000.jsonl').write_text('{"size": 3}\n')
    with pytest.raises(InputError, match='no rollouts'):
        lengths.read(str(tmp_path), limit=9)
