"""``experiments/larger_k.py``: its statistics by hand, and a measurement of a run."""

import json
import shutil

import numpy as np
import pytest

from experiments import larger_k
from passk_jax.errors import InputError
from tests import tiny


def line(seed: int, policy: str, scale: float = 1.0) -> dict:
    """Gradients of one dimension; k counts as a share of 1 / k of the signal."""
    signals = np.array([1 / k for k in larger_k.KS] + [2.0, 3.0]) * scale
    signal = np.outer(signals, signals)
    # The shares of two chunks are half the signal each, and noise of 1 as a whole.
    chunks = signal / 2 + np.eye(len(signals))
    return {
        'seed': seed,
        'policy': policy,
        'num_chunks': 2,
        'problems': [0.5, 0.5, 0.25, 0.25],
        'whole': (signal + np.eye(len(signals))).tolist(),
        'chunks': chunks.tolist(),
    }


def test_statistics_are_those_of_a_hand():
    rows = [line(1, 'before RL', 2.0), line(0, 'before RL'), line(0, 'after RL')]
    columns = larger_k.of_policy(rows, 'before RL')
    ks = np.array(larger_k.KS)
    np.testing.assert_allclose(columns['snr'], [1 / ks**2, 4 / ks**2])
    rises = 2 / ks / np.sqrt(1 + 1 / ks**2)
    np.testing.assert_allclose(columns['pass_at_1'][0], rises)
    np.testing.assert_allclose(columns['pass_at_8'][0], 1.5 * rises)
    assert columns['problems'].tolist() == [[0.5, 0.5, 0.25, 0.25]] * 2
    with pytest.raises(InputError, match='no results of the policy'):
        larger_k.of_policy(rows[:2], 'after RL')


def test_the_table_has_relative_differences_with_intervals(tmp_path, capsys):
    rows = [line(s, p, 1 + s) for s in range(3) for p in larger_k.POLICIES]
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    (tmp_path / 'larger_k.jsonl').write_text(lines)
    larger_k.main(results=str(tmp_path))
    text = (tmp_path / 'larger_k.md').read_text()
    assert capsys.readouterr().out == text
    assert '| k = 2 | 0.5, +0% [+0%, +0%] | 1.2, -75% [-236%, +86%] |' in text
    assert text.count('| k = 1 | 0.5 | 4.7 |  |  |') == 3
    # The gradients lie on a line; at k = 8 half of the problems are lost.
    assert '| after 50 steps | +1.00 [+1.00, +1.00] | -48% [-' in text
    assert (tmp_path / 'larger_k.png').read_bytes().startswith(b'\x89PNG')


def test_without_results_or_runs_it_says_so(tmp_path):
    with pytest.raises(InputError, match='has no results: give --workdir'):
        larger_k.main(results=str(tmp_path))
    with pytest.raises(InputError, match='no directory pass_at_1_seed'):
        larger_k.main(workdir=str(tmp_path), results=str(tmp_path))


@pytest.mark.slow
def test_it_measures_both_policies_of_a_run_once(tmp_path, monkeypatch):
    # One group of more than k rollouts, for every k.
    config = tiny.make_config(sampling__num_rollouts=16, advantage__name='pass_at_1')
    assert tiny.run(config, tmp_path / 'runs' / 'pass_at_1_seed0')
    with tiny.devices(1):
        larger_k.main(workdir=str(tmp_path / 'runs'), results=str(tmp_path))
        path = tmp_path / 'larger_k.jsonl'
        rows = tiny.read_lines(path)
        monkeypatch.setattr(larger_k, 'measure', None)
        larger_k.main(workdir=str(tmp_path / 'runs'), results=str(tmp_path))
    assert tiny.read_lines(path) == rows
    # It kept no checkpoint of step 50.
    assert [row['policy'] for row in rows] == ['before RL', 'after RL']
    assert [row['steps'] for row in rows] == [0, 5]
    first, last = (np.array(row['whole']) for row in rows)
    assert not np.allclose(first, last)
    for row in rows:
        np.testing.assert_allclose(row['whole'], np.transpose(row['whole']), rtol=1e-5)
        # All of their advantages are zero together, except that k = 8 needs 8 wrong.
        problems = row['problems']
        assert problems == sorted(problems, reverse=True)
        assert 0 < problems[-1] <= problems[0] <= 1
    assert problems[-1] < problems[0]


def test_seeds_with_other_policies_have_tables_of_their_own(tmp_path, capsys):
    rows = [line(s, p) for s in (3, 4) for p in larger_k.POLICIES]
    rows += [line(0, p) for p in ('before RL', 'after RL')]
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    (tmp_path / 'larger_k.jsonl').write_text(lines)
    larger_k.main(results=str(tmp_path))
    text = capsys.readouterr().out
    first, second = text.split('Seeds 0:')
    assert first.startswith('Seeds 3, 4:')
    assert first.count('| k = 1 |') == 3
    assert second.count('| k = 1 |') == 2


def test_a_run_that_is_not_done_is_not_measured(tmp_path):
    config = tiny.make_config(sampling__num_rollouts=16, advantage__name='pass_at_1')
    workdir = tmp_path / 'runs' / 'pass_at_1_seed0'
    assert tiny.run(config, workdir)
    shutil.rmtree(workdir / 'checkpoints' / '5')
    with pytest.raises(InputError, match='has no checkpoint 5: let the sweep finish'):
        larger_k.main(workdir=str(tmp_path / 'runs'), results=str(tmp_path))
