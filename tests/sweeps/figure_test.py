import dataclasses

import numpy as np
import pytest

from passk_jax.evaluation.metrics import paired_interval
from passk_jax.sweeps import Arm, figure
from tests import legible
from tests.sweeps.declarations_test import make_sweep
from tests.sweeps.directories_test import write_rows
from tests.sweeps.results_test import make_job, make_jobs


def test_an_arm_is_the_mean_of_its_seeds(tmp_path):
    panel = figure._panel(make_sweep(), make_jobs(tmp_path), 'pass_at_1')
    assert panel.title == 'Pass@1'
    lines = {line.label: line for line in panel.series if not line.faint}
    assert list(lines) == ['A', 'B']
    assert list(lines['A'].x) == [0, 4]
    assert [round(y, 3) for y in lines['A'].y] == [0.015, 0.04]
    # A later stage follows the one before.
    assert list(lines['B'].x) == [0, 4, 8]
    assert [round(y, 3) for y in lines['B'].y] == [0.015, 0.09, 0.065]
    assert lines['A'].color != lines['B'].color


def test_the_band_is_the_interval_of_the_differences_around_the_mean(tmp_path):
    panel = figure._panel(make_sweep(), make_jobs(tmp_path), 'pass_at_1')
    (band,) = (line for line in panel.series if line.faint)
    means = {line.label: line for line in panel.series if not line.faint}
    assert band.color == means['B'].color
    # The baseline has no step 8.
    assert list(band.x) == [0, 4]
    mean, low, high = paired_interval(np.array([0.09, 0.09]), np.array([0.03, 0.05]))
    assert mean == pytest.approx(means['B'].y[1] - means['A'].y[1])
    assert band.y[1] == means['B'].y[1]
    assert (band.low[1], band.high[1]) == pytest.approx((0.04 + low, 0.04 + high))
    # Both arms began with the same policies.
    assert (band.low[0], band.high[0]) == pytest.approx((0.015, 0.015))


def test_one_seed_has_no_band(tmp_path):
    jobs = [job for job in make_jobs(tmp_path) if job.run.seed == 0]
    panel = figure._panel(make_sweep(), jobs, 'pass_at_1')
    assert [line.label for line in panel.series] == ['A', 'B']


def test_a_line_below_says_what_the_bands_are_where_there_are_some(
    tmp_path, monkeypatch
):
    captions = []
    monkeypatch.setattr(
        figure, 'draw_figure', lambda *_, below, **__: captions.append(below)
    )
    jobs = make_jobs(tmp_path)
    for job in jobs:
        write_rows(job, {'step': 2, 'split': 'validation', 'pass_at_1': 0.5})
    figure.draw(make_sweep(), jobs)
    figure.draw(make_sweep(), [job for job in jobs if job.run.seed == 0])
    (with_bands, without) = captions
    assert 'bands: 95 % intervals of the paired difference from A' in with_bands
    assert without == 'lines: means over seeds'


def test_several_arms_stand_side_by_side_with_a_bar_each(tmp_path):
    arms = tuple(Arm(name, name.upper(), 'tests/tiny.py') for name in 'abc')
    sweep = make_sweep(arms=arms, curves='test')
    panel = figure._panel(sweep, jobs_of(tmp_path, 'abc', pass_at_1=0.1), 'pass_at_1')
    lines = [line for line in panel.series if not line.faint]
    assert [line.offset for line in lines] == [-2.5, 0.0, 2.5]
    bands = [line for line in panel.series if line.faint]
    assert [(band.bars, band.offset) for band in bands] == [(True, 0.0), (True, 2.5)]


def test_an_interval_of_a_share_ends_at_one(tmp_path):
    arms = tuple(Arm(name, name.upper(), 'tests/tiny.py') for name in 'ab')
    measures = {'pass_at_1': 'Pass@1', 'entropy': 'entropy (nats a token)'}
    sweep = make_sweep(arms=arms, measures=measures, curves='test')
    jobs = jobs_of(tmp_path, 'ab', pass_at_1=0.9, entropy=0.9)
    ends = [
        [line.high[-1] for line in figure._panel(sweep, jobs, name).series if line.high]
        for name in measures
    ]
    assert ends[0] == [1.0]
    assert ends[1][0] > 1.0


def test_what_has_only_a_beginning_and_an_end_is_a_forest(tmp_path, forests):
    figure.draw(make_sweep(), make_jobs(tmp_path))
    (forest, words) = forests
    assert forest.rows == ['B']
    assert words['below'].startswith('B minus the baseline, A, at the end')


def test_a_measure_without_a_course_hides_that_of_no_other(tmp_path, forests):
    jobs = make_jobs(tmp_path)
    for job in jobs:
        write_rows(job, {'step': 2, 'split': 'validation', 'pass_at_4': 0.5})
        write_rows(job, {'step': 3, 'split': 'validation', 'pass_at_4': 0.5})
        write_rows(job, {'step': 4, 'split': 'validation', 'pass_at_4': 0.5})
    measures = {'pass_at_1': 'Pass@1', 'pass_at_4': 'Pass@4'}
    figure.draw(dataclasses.replace(make_sweep(), measures=measures), jobs)
    assert not forests


def test_a_baseline_alone_has_curves_and_no_differences(tmp_path, forests):
    sweep = make_sweep()
    alone = dataclasses.replace(sweep, arms=sweep.arms[:1])
    figure.draw(alone, [job for job in make_jobs(tmp_path) if job.run.arm == 'a'])
    assert not forests


def test_a_mean_is_of_all_seeds_or_of_none(tmp_path):
    jobs = make_jobs(tmp_path)
    write_rows(jobs[0], {'step': 2, 'split': 'validation', 'pass_at_1': 5.0})
    panel = figure._panel(make_sweep(), jobs, 'pass_at_1')
    (mean,) = (line for line in panel.series if line.label == 'A')
    assert list(mean.x) == [0, 4]


def test_a_figure_is_a_picture_and_equal_runs_have_equal_ones(tmp_path):
    sweep, jobs = make_sweep(), make_jobs(tmp_path)
    picture = figure.draw(sweep, jobs)
    assert picture.startswith(b'\x89PNG')
    assert picture == figure.draw(sweep, jobs)


@pytest.fixture
def forests(monkeypatch):
    """What is drawn, in place of the picture; the figure's words come last."""
    drawn = []

    def draw(panels, **words):
        drawn.extend([*panels, words])
        return b''

    monkeypatch.setattr(figure, 'draw_forests', draw)
    return drawn


def jobs_of(root, names, **measures):
    """Two seeds of each arm, which ends with its number, and a little more."""
    jobs = []
    for number, name in enumerate(names):
        for seed in (0, 1):
            job = make_job(root, f'{name}_seed{seed}', arm=name, seed=seed)
            value = number + seed * number / 10
            for step, at in ((0, 0.0), (2, value), (4, value)):
                row = {measure: factor * at for measure, factor in measures.items()}
                write_rows(job, {'step': step, 'split': 'test'} | row)
            jobs.append(job)
    return jobs


def test_of_many_arms_each_is_a_row_with_its_interval(tmp_path, forests):
    names = 'abcdefg'
    arms = tuple(Arm(name, name.upper(), 'tests/tiny.py') for name in names)
    sweep = make_sweep(arms=arms, baseline='c')
    figure.draw(sweep, jobs_of(tmp_path, names, pass_at_1=1))
    (forest, words) = forests
    assert (forest.title, forest.x_label) == (
        'Pass@1',
        'difference (share of problems)',
    )
    # The baseline has none.
    assert forest.rows == [*'ABDEFG']
    (dots,) = forest.dots
    pairs = ([number, 1.1 * number] for number in (0, 1, 3, 4, 5, 6))
    for value, pair in zip(dots.values, pairs, strict=True):
        want = paired_interval(np.array(pair), np.array([2.0, 2.2]))
        assert value == pytest.approx(want)
    assert words['below'].startswith('each arm minus the baseline, C, at the end')


def test_of_many_measures_each_is_a_row_and_units_have_panels(tmp_path, forests):
    shares = {f'{part}/pass_at_1': f'{part}, Pass@1' for part in 'uvwxyz'}
    sweep = make_sweep(
        arms=tuple(Arm(name, name.upper(), 'tests/tiny.py') for name in 'abc'),
        measures=shares | {'entropy': 'entropy (nats a token)'},
    )
    jobs = jobs_of(tmp_path, 'abc', entropy=2, **dict.fromkeys(shares, 1))
    figure.draw(sweep, jobs)
    (of_shares, of_entropy, words) = forests
    assert of_shares.x_label == 'difference (share of problems)'
    assert of_shares.rows == [*shares.values()]
    assert of_entropy.x_label == 'difference (nats a token)'
    assert of_entropy.rows == ['entropy']
    assert words['columns'] == 1
    for forest, factor in ((of_shares, 1), (of_entropy, 2)):
        b, c = forest.dots
        assert (b.label, c.label) == ('B', 'C')
        assert b.marker != c.marker
        assert c.values[0][0] == pytest.approx(2.1 * factor)


def test_curves_have_a_marker_each_and_say_their_unit(tmp_path):
    panel = figure._panel(make_sweep(), make_jobs(tmp_path), 'pass_at_1')
    markers = [line.marker for line in panel.series if not line.faint]
    assert len(set(markers)) == 2
    assert '' not in markers
    assert panel.y_label == 'share of problems'


def test_all_kinds_can_be_read_in_readme(tmp_path):
    arms = tuple(Arm(name, name.upper() * 12, 'tests/tiny.py') for name in 'abcde')
    measures = {f'pass_at_{k}': f'Pass@{k}' for k in (1, 2, 4, 8, 16, 32)}
    jobs = jobs_of(tmp_path, 'abcde', **dict.fromkeys([*measures, 'entropy'], 1))
    for num_arms, more in ((2, {}), (5, {}), (5, {'entropy': 'entropy'})):
        sweep = make_sweep(
            arms=arms[:num_arms], measures=measures | more, curves='test'
        )
        with legible.texts() as written:
            figure.draw(sweep, [x for x in jobs if x.run.arm in 'abcde'[:num_arms]])
        legible.check(written)
