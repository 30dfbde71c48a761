"""``experiments/knobs.py`` on fronts whose distance is known."""

import numpy as np
import pytest

from experiments import knobs
from experiments.sweeps.knobs import get_sweep
from passk_jax.sweeps.rows import compress_rows
from tests import legible

SEEDS = np.arange(4) / 100


def point(x, y, of_seeds=SEEDS):
    """Pass@1 and Pass@32 of four seeds, around ``x`` and ``y``."""
    return np.stack([x + of_seeds, y + of_seeds])


FRONT = {'a': point(0.4, 0.6), 'b': point(0.2, 0.8), 'c': point(0.3, 0.75)}


def test_a_point_is_compared_with_the_front_at_its_pass_at_1():
    # Between b and c the front is at .775, between c and a at .675.
    for x, y, expected in ((0.25, 0.8, 0.025), (0.35, 0.66, -0.015)):
        difference = knobs.above(point(x, y), FRONT)
        assert difference == pytest.approx((expected,) * 3)


def test_its_interval_is_that_of_seeds_where_the_front_is_level():
    flat = {'a': point(0.2, 0.5, 0 * SEEDS), 'b': point(0.6, 0.5, 0 * SEEDS)}
    mean, low, high = knobs.above(point(0.4, 0.52), flat)
    # Student's t of three degrees of freedom.
    half = 3.1824 * SEEDS.std(ddof=1) / 2
    assert mean == pytest.approx(0.02 + SEEDS.mean())
    assert (high - mean, mean - low) == pytest.approx((half, half), rel=1e-3)


def test_what_the_front_does_not_reach_has_no_difference():
    assert np.isnan(knobs.above(point(0.1, 0.9), FRONT)).all()
    # Reached with all seeds, and not without one of them.
    jumping = np.stack([np.array([0.2, 0.2, 0.2, 0.3]), 0.9 + SEEDS])
    still = {name: np.stack([0 * x + x.mean(), y]) for name, (x, y) in FRONT.items()}
    mean, *ends = knobs.above(jumping, still)
    assert np.isfinite(mean)
    assert np.isnan(ends).all()


def write_rows(directory, difficulty, seeds):
    sweep = get_sweep(f'difficulty={difficulty}')
    rows = [
        {'arm': arm.name, 'seed': seed, 'split': 'test', 'step': step}
        | {
            'pass_at_1': 0.4 + (step - 150) / 1e4 - 0.02 * index,
            'pass_at_32': 0.6 - (step - 150) / 1e4 + 0.02 * index + seed / 1e4,
        }
        for index, arm in enumerate(sweep.arms)
        for seed in seeds
        for step in (0, 50, 100, 150)
    ]
    (directory / f'{sweep.name}.jsonl.gz').write_bytes(compress_rows(rows))


@pytest.mark.parametrize('difficulty', ['medium', 'hard'])
def test_the_table_has_each_point_of_each_front(difficulty, tmp_path):
    write_rows(tmp_path, difficulty, range(60, 63))
    with legible.texts():
        knobs.main(setting=difficulty, results=str(tmp_path))
    text = (tmp_path / f'knobs_{difficulty}_fronts.md').read_text()
    names = [line.split('|')[1].strip() for line in text.splitlines()[2:]]
    arms = [f'`{arm.name}`' for arm in get_sweep(f'difficulty={difficulty}').arms]
    assert sorted(names) == sorted([*arms, 'pass_at_1, step 50', 'pass_at_1, step 100'])
    # All points are on one line, and the front of k ends at the fifth arm.
    row = next(line for line in text.splitlines() if line.startswith('| `maxrl`'))
    assert row.endswith('| +0.000 [-0.000, +0.000] |') or row.endswith(
        '| +0.000 [+0.000, +0.000] |'
    )
    row = next(line for line in text.splitlines() if '`rs_grpo_8`' in line)
    assert row.endswith('| outside |')
