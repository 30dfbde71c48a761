"""``experiments/warm_starts.py`` on results whose slope is known."""

import numpy as np
import pytest

from experiments import warm_starts
from experiments.sweeps.warm_starts import STEPS, get_sweep
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows
from tests import legible

SEEDS = range(40, 43)


def write_rows(directory, steps, share, price, seeds=SEEDS):
    """Pass@4 Training ends ``price`` below in every measure, and a bit by seed."""
    rows = []
    for seed in seeds:
        shared = {'seed': seed, 'split': 'test'}
        first = dict.fromkeys(warm_starts.MEASURES, 0.1) | {warm_starts.SOLVED: share}
        for arm in ('pass_at_1', 'pass_at_k'):
            rows.append({'arm': arm, 'step': 0, **shared, **first})
            last = 0.5 - (price + seed / 1e4) * (arm == 'pass_at_k')
            measures = dict.fromkeys(warm_starts.MEASURES, last)
            rows.append({'arm': arm, 'step': 4, **shared, **measures})
    path = directory / f'{get_sweep(f"steps={steps}").name}.jsonl.gz'
    path.write_bytes(compress_rows(rows))


def test_the_slope_is_that_of_the_price_over_the_solved_share(tmp_path):
    shares = [0.0, 0.1, 0.3, 0.6]
    for steps, share in zip(STEPS, shares, strict=True):
        write_rows(tmp_path, steps, share, price=0.01 + 0.2 * share)
    with legible.texts():
        warm_starts.main(results=str(tmp_path))
    by_steps = {steps: warm_starts.read(steps, tmp_path) for steps in STEPS}
    mean, low, high = warm_starts.slope(by_steps, 'pass_at_1')
    assert [mean, low, high] == pytest.approx([-0.02, -0.02, -0.02])
    lines = (tmp_path / 'warm_starts.md').read_text().splitlines()
    assert lines[0].startswith('| warm start, test split, 3 seeds | first Pass@1')
    cells = [cell.strip() for cell in lines[5].strip('|').split('|')]
    assert cells[:4] == ['800', '0.100', '0.100', '0.600']
    assert cells[4].startswith('-0.134 [')
    assert (tmp_path / 'warm_starts.png').read_bytes().startswith(b'\x89PNG')


def test_the_slope_is_of_each_seed_by_itself():
    # Two seeds with opposite slopes: none in the mean, and a wide interval.
    by_steps = {
        steps: warm_starts.WarmStart(
            {warm_starts.SOLVED: np.array([share, share])},
            {'pass_at_1': np.array([share, -share])},
        )
        for steps, share in zip(STEPS, (0.0, 0.1, 0.2, 0.3), strict=True)
    }
    mean, low, high = warm_starts.slope(by_steps, 'pass_at_1')
    assert mean == pytest.approx(0)
    assert (low, high) == pytest.approx((-1.2706, 1.2706), rel=1e-3)


def test_a_sweep_without_results_is_refused(tmp_path):
    with pytest.raises(InputError, match='warm_starts_100'):
        warm_starts.main(results=str(tmp_path))
