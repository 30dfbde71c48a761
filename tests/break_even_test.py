"""``experiments/break_even.py`` on differences whose answer is known."""

import numpy as np
import pytest

from experiments import break_even
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.rows import compress_rows
from tests import legible, tiny


def test_the_break_even_lies_where_the_mean_crosses_zero():
    # -1 at k = 1 and 1 at k = 4: zero in the middle of log2 k, which is 2.
    line = np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 4.0])
    point, low, high = break_even.break_even(np.stack([line - 0.1, line + 0.1]))
    assert point == pytest.approx(2.0, rel=0.01)
    # The interval of two seeds .2 apart is 12.7 times .1 wide to either side.
    assert low == 1.0
    assert high == pytest.approx(2.0 ** (1 + 1.2706), rel=0.01)


def test_it_is_one_where_all_is_gained_and_infinite_where_nothing_is():
    gained = np.full((3, 6), 0.5) + np.arange(3)[:, None] / 100
    assert break_even.break_even(gained)[0] == 1.0
    assert np.isnan(break_even.break_even(gained)[1:]).all()
    assert break_even.break_even(-gained)[0] == np.inf


def test_a_gain_that_is_lost_again_does_not_count():
    line = np.array([0.2, 0.2, -0.1, -0.1, 0.1, 0.1])
    point, *_ = break_even.break_even(np.stack([line, line + 0.001]))
    assert 8 < point < 16


def _rows(sweep: Sweep, seeds: range):
    """Pass@k of the first policy is .1, of the trainings .2 and k / 100 more."""
    for arm in sweep.arms:
        for seed in seeds:
            for step, value in ((0, 0.1), (4, 0.2)):
                gain = step / 4 * (arm.name == 'pass_at_k')
                yield {'arm': arm.name, 'seed': seed, 'split': 'test', 'step': step} | {
                    f'pass_at_{k}': value + gain * (k - 2) / 100 + seed / 1000
                    for k in break_even.POWERS
                }


def test_it_reads_pairs_of_seeds_and_says_what_is_lacking(tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    with legible.texts():
        for config in break_even._SWEEPS.values():
            sweep = config_file.call(config, 'get_sweep', returns=Sweep)
            path = tmp_path / f'{sweep.name}.jsonl.gz'
            path.write_bytes(compress_rows([*_rows(sweep, range(3))]))
        break_even.main(results=str(tmp_path))
    text = (tmp_path / 'break_even.md').read_text()
    row = next(line for line in text.splitlines() if 'five puzzles, 3 seeds' in line)
    cells = [cell.strip() for cell in row.strip('|').split('|')]
    assert cells[1] == '-0.010 [-0.010, -0.010]'
    assert cells[6] == '+0.300 [+0.300, +0.300]'
    assert cells[7].startswith('2.0')
    assert (tmp_path / 'break_even.png').read_bytes().startswith(b'\x89PNG')
    rows = [row for row in _rows(sweep, range(3)) if row['step']]
    path.write_bytes(compress_rows(rows))
    with pytest.raises(
        InputError, match=r'no first evaluation of all the seeds \[0, 1'
    ):
        break_even.main(results=str(tmp_path))
    config = break_even._SWEEPS['hard mazes']
    sweep = config_file.call(config, 'get_sweep', returns=Sweep)
    path = tmp_path / f'{sweep.name}.jsonl.gz'
    rows = [row for row in _rows(sweep, range(3)) if row['arm'] != 'pass_at_k']
    path.write_bytes(compress_rows(rows))
    with pytest.raises(InputError, match=r"lacks seeds of \['pass_at_k'\]"):
        break_even.main(results=str(tmp_path))
