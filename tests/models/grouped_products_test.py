"""Which one runs where, and the blocks; expert_products_test.py has the values."""

import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import grouped_products


@pytest.mark.parametrize(
    ('name', 'platform', 'meant'),
    [
        ('auto', 'cpu', 'blocks'),
        ('auto', 'gpu', 'blocks'),
        ('auto', 'tpu', 'ragged'),
        ('blocks', 'tpu', 'blocks'),
        ('ragged', 'tpu', 'ragged'),
    ],
)
def test_the_platform_chooses_the_implementation(name, platform, meant):
    choose = grouped_products.choose_implementation
    assert choose(name, platform=platform) == meant


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('dense', "experts 'dense' is none of .*'auto', 'blocks', 'ragged'"),
        ('ragged', "'ragged' cannot run on platform='cpu'; have .'blocks'"),
    ],
)
def test_what_cannot_run_there_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        grouped_products.choose_implementation(name, platform='cpu')


def test_blocks_cover_the_rows_of_each_expert_once():
    sizes = jnp.asarray([3, 0, 17, 8, 0, 1])
    width, count, place = grouped_products._blocks(sizes, 48)
    rows = []
    for i in range(int(count)):
        expert, first, size = map(int, place(i))
        rows += [(expert, first + j) for j in range(min(width, size))]
    experts = np.repeat(np.arange(6), np.asarray(sizes))
    assert rows == list(zip(experts.tolist(), range(29), strict=True))
