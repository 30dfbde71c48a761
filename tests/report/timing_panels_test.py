"""Every second of a step is in one layer, and a spike hides nothing."""

import numpy as np
import pytest

from passk_jax.report import timing_panels
from passk_jax.report.run_data import Run
from passk_jax.runs import phases

PHASES = ('decode', 'verify', 'gather', 'estimate', 'update', 'wait')


def panels(rows):
    run = Run(
        path=None,
        config={},
        git={},
        train=[],
        evaluations={},
        timing=rows,
        diagnostics=[],
        dumps={},
    )
    return {x.title.partition(',')[0]: x for x in timing_panels.timing_panels(run)}


def steps(count, **seconds):
    """Steps of which the phases take 1, 2, ... seconds; the first compiles."""
    spent = {f'{name}_seconds': 1.0 + i for i, name in enumerate(PHASES)} | seconds
    row = {'seconds': sum(spent.values()), **spent}
    first = {'step': 0, 'start_seconds': 1.0, 'update_seconds': 900.0}
    return [first, *(row | {'step': step} for step in range(1, count + 1))]


def test_each_phase_has_a_layer_and_together_they_are_the_step():
    rows = steps(4)
    rows[2] |= {'seconds': 31.0, 'checkpoint_seconds': 10.0}
    panel = panels(rows)['Seconds of a step']
    assert panel.stacked
    assert [(s.label, s.y[0]) for s in panel.series] == [
        *((name, 1.0 + i) for i, name in enumerate(PHASES)),
        ('checkpoint', 0.0),
    ]
    assert {tuple(s.x) for s in panel.series} == {(1, 2, 3, 4)}
    totals = np.sum([s.y for s in panel.series], axis=0)
    np.testing.assert_allclose(totals, [21.0, 31.0, 21.0, 21.0])
    assert len({s.color for s in panel.series}) == len(panel.series)


def test_phases_that_are_next_to_nothing_share_a_layer():
    rows = steps(3, write_seconds=0.05, evaluate_seconds=0.01, new_seconds=0.04)
    *_, remainder = panels(rows)['Seconds of a step'].series
    assert remainder.label == 'rest'
    np.testing.assert_allclose(remainder.y, [0.1] * 3)


def test_every_phase_that_a_step_spends_time_in_has_a_colour():
    phase_names = {
        line.split()[0] for line in phases.__doc__.splitlines() if line[:4] == ' ' * 4
    }
    assert phase_names - {'evaluate'} == set(timing_panels._COLORS)


def test_bars_of_a_long_run_are_means_of_as_many_steps_and_lose_no_second():
    rows = steps(150)
    for row in rows[1:]:
        row['update_seconds'] = row['step'] / 10
    panel = panels(rows)['Seconds of a step']
    assert panel.title == 'Seconds of a step, means of 3'
    (update,) = (s for s in panel.series if s.label == 'update')
    assert update.x == [2 + 3 * i for i in range(50)]
    np.testing.assert_allclose(update.y, np.array(update.x) / 10)
    # Of a shorter last bar too.
    (update,) = (
        s for s in panels(rows[:-2])['Seconds of a step'].series if s.label == 'update'
    )
    assert (update.x[-1], update.y[-1]) == (148, pytest.approx(14.8))


def test_a_spike_is_cut_off_and_a_run_that_slows_down_is_not():
    rows = steps(30)
    assert panels(rows)['Seconds of a step'].top is None
    rows[7]['update_seconds'] = 500.0
    assert panels(rows)['Seconds of a step'].top == pytest.approx(2 * 21)
    for row in rows[1:]:
        row['update_seconds'] = row['step'] ** 2 / 10
    assert panels(rows)['Seconds of a step'].top is None


def test_the_first_step_of_each_process_is_left_out():
    rows = steps(5)
    # Resumed at step 3.
    rows[3] |= {'start_seconds': 60.0}
    assert panels(rows)['Seconds of a step'].series[0].x == [1, 2, 4, 5]
    # Older runs do not say so of the first.
    del rows[0]['start_seconds']
    assert panels(rows)['Seconds of a step'].series[0].x == [1, 2, 4, 5]


def test_rates_have_panels_where_they_were_measured():
    rows = steps(3, tokens_per_second_per_chip=1500.0)
    by_title = panels(rows)
    assert [*by_title] == ['Seconds of a step', 'Tokens a second and chip']
    (line,) = by_title['Tokens a second and chip'].series
    assert (line.x, line.y) == ([1, 2, 3], [1500.0] * 3)
    (line,) = panels(steps(3, mfu=0.25))['MFU (%)'].series
    assert line.y == [25.0] * 3


@pytest.mark.parametrize('rows', [[], [{}], steps(0)])
def test_a_young_run_has_no_panel(rows):
    assert panels(rows) == {}


def test_an_old_run_without_phases_has_no_panel():
    rows = [{'step': s, 'seconds': 3.0, 'tokens_per_second': 1e4} for s in range(9)]
    assert panels(rows) == {}


def test_shares_are_of_all_seconds():
    shares = timing_panels.phase_shares(steps(2)[1:])
    assert shares == pytest.approx({x: (1 + i) / 21 for i, x in enumerate(PHASES)})


def test_a_row_that_is_the_mean_of_several_steps_counts_as_many_in_the_shares():
    rows = [
        {'step': 1, 'decode_seconds': 1.0, 'update_seconds': 3.0, 'mean_of': 9},
        {'step': 10, 'decode_seconds': 4.0, 'update_seconds': 0.0},
    ]
    shares = timing_panels.phase_shares(rows)
    assert shares == pytest.approx({'decode': 13 / 40, 'update': 27 / 40})
