"""``experiments/horizon.py``: where runs are stopped, and which rates are chosen."""

import numpy as np
import pytest

from experiments import horizon
from experiments.sweeps.horizon import ARMS, CHOSEN, RATES, get_sweep
from passk_jax.sweeps.rows import compress_rows
from tests import tiny

SEEDS = (71, 72)


def test_a_run_is_stopped_where_it_first_comes_near_its_highest_pass_at_1():
    steps = {
        0: {'pass_at_1': np.array([0.1, 0.1])},
        100: {'pass_at_1': np.array([0.392, 0.3])},
        200: {'pass_at_1': np.array([0.4, 0.389])},
        300: {'pass_at_1': np.array([0.35, 0.4])},
    }
    for step, values in steps.items():
        values |= {'pass_at_8': step + values['pass_at_1'], 'pass_at_32': np.zeros(2)}
    stops, values = horizon.stopped_early(steps)
    assert stops.tolist() == [100, 300]
    assert values['pass_at_1'].tolist() == [0.392, 0.4]
    assert values['pass_at_8'].tolist() == [100.392, 300.4]


def write_rows(directory, argument, seeds, value_of):
    sweep = get_sweep(argument)
    rows = [
        {'arm': arm.name, 'seed': seed, 'split': split, 'step': step}
        | dict.fromkeys(horizon.MEASURES, value_of(arm.name, step) + seed / 1e4)
        for arm in sweep.arms
        for seed in seeds
        for split in ('validation', 'test')
        for step in (0, 300, 1_200)
    ]
    (directory / f'{sweep.name}.jsonl.gz').write_bytes(compress_rows(rows))


def test_the_table_has_three_ends_of_each_arm(tmp_path, capsys):
    write_rows(tmp_path, '', SEEDS, lambda arm, step: step / 1e4 - 0.02 * (arm > 'n'))
    horizon.main(results=str(tmp_path))
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert len(lines) == 2 + 3 * len(ARMS)
    assert lines[0].startswith('| validation, 2 seeds | Pass@1')
    assert [x for x in lines if x.startswith('| MaxRL, stopped early (at 1200)')]
    differences = '| +0.020 [+0.020, +0.020] |'
    assert next(x for x in lines if 'MaxRL, 300 steps' in x).endswith(differences)
    assert (tmp_path / 'horizon_steps.md').read_text() == text


@pytest.mark.parametrize('best', RATES)
def test_the_chosen_rate_has_the_highest_pass_at_1_at_the_end(best, tmp_path, capsys):
    # Halfway another rate is ahead.
    write_rows(
        tmp_path,
        'variant=rates',
        (70,),
        lambda arm, step: (arm.endswith(f'_{best:g}') == (step == 1_200)) * 0.5,
    )
    horizon.main(results=str(tmp_path), rates=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f'{arm}: {best:g}' for arm in ARMS]


def test_the_committed_rates_are_those_of_the_rows():
    results = tiny.ROOT / 'experiments' / 'results'
    assert horizon.chosen_rates(results) == CHOSEN
