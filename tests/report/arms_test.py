import math

import numpy as np

from passk_jax.evaluation import metrics
from passk_jax.report import arms


def test_every_colour_and_every_marker_is_another():
    assert len(set(arms.COLORS)) == len(arms.COLORS)
    assert len(set(arms.MARKERS)) == len(arms.MARKERS) == len(arms.COLORS)


def test_a_difference_is_paired_and_nan_where_it_is_undefined():
    first, second = np.array([3.0, 5.0]), np.array([1.0, 1.0])
    assert arms.difference(first, second) == metrics.paired_interval(first, second)
    mean, *ends = arms.difference(first[:1], second[:1])
    assert mean == 2.0
    assert np.isnan(ends).all()
    undefined = arms.difference(first, np.array([1.0, math.nan]))
    assert np.isnan(undefined).all()
    assert arms.format_difference(undefined) == 'undefined'
    assert arms.mean_interval(first - second) == arms.difference(first, second)
