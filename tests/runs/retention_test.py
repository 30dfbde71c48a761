"""Which checkpoints stay."""

import math

import pytest

from passk_jax.runs.retention import Retention
from tests import tiny

STEPS = (0, 3, 4, 6, 8, 9)
METRICS = {0: {'a/b': 0.1, 'a/c': 9.0}, 4: {'a/b': 0.5}, 6: {'a/b': 0.5}}


@pytest.mark.parametrize(
    ('settings', 'expected'),
    [
        ({'latest': 1}, {9}),
        ({'latest': 3}, {6, 8, 9}),
        ({'latest': 9}, set(STEPS)),
        ({'latest': 1, 'every': 4}, {0, 4, 8, 9}),
        # The first of equals.
        ({'latest': 1, 'best': 'a/b'}, {4, 9}),
        ({'latest': 1, 'best': 'a/c'}, {0, 9}),
        ({'latest': 1, 'best': 'a/d'}, {9}),
        ({'latest': 2, 'every': 3, 'best': 'a/b'}, {0, 3, 4, 6, 8, 9}),
    ],
)
def test_the_newest_multiples_and_the_best_stay(settings, expected):
    retained = Retention(**settings).retain(STEPS, lambda step: METRICS.get(step, {}))
    assert retained == expected


def test_an_undefined_metric_is_never_the_best():
    values = {1: math.nan, 2: 0.0, 3: math.nan}
    retained = Retention(1, best='a').retain(
        (1, 2, 3), lambda step: {'a': values[step]}
    )
    assert retained == {2, 3}


def test_the_configuration_says_it():
    config = tiny.make_config(
        checkpoint__keep=5, checkpoint__keep_every=7, checkpoint__keep_best=''
    )
    assert Retention.of(config.checkpoint) == Retention(5, 7, '')
    best = {'checkpoint__keep_best': 'validation/pass_at_1'}
    config = tiny.make_config(**best)
    assert Retention.of(config.checkpoint).best == 'validation/pass_at_1'
