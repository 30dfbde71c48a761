import numpy as np
import pytest

from passk_jax.metrics import paired_interval
from passk_jax.sweeps import Arm, figure
from tests.sweeps.declarations_test import make_sweep
from tests.sweeps.directories_test import write_rows
from tests.sweeps.results_test import make_job, make_jobs


def test_an_arm_is_the_mean_of_its_seeds(tmp_path):
    panel = figure._panel(make_sweep(), make_jobs(tmp_path), 'pass_at_1')
    assert panel.title == 'Pass@1'
    lines = {line.label: line for line in panel.series if not line.faint}
    assert list(lines) == ['A', 'B']
    assert list(lines['A'].x) == [0, 4]
    assert [round(y, 3) for y in lines['A'].y] == [1.5, 4.0]
    # A later stage follows the one before.
    assert list(lines['B'].x) == [0, 4, 8]
    assert [round(y, 3) for y in lines['B'].y] == [1.5, 9.0, 6.5]
    assert lines['A'].color != lines['B'].color


def test_the_band_is_the_interval_of_the_differences_around_the_mean(tmp_path):
    panel = figure._panel(make_sweep(), make_jobs(tmp_path), 'pass_at_1')
    (band,) = (line for line in panel.series if line.faint)
    means = {line.label: line for line in panel.series if not line.faint}
    assert band.color == means['B'].color
    # The baseline has no step 8.
    assert list(band.x) == [0, 4]
    mean, low, high = paired_interval(np.array([9.0, 9.0]), np.array([3.0, 5.0]))
    assert mean == means['B'].y[1] - means['A'].y[1]
    assert band.y[1] == means['B'].y[1]
    assert (band.low[1], band.high[1]) == pytest.approx((4.0 + low, 4.0 + high))
    # Both arms began with the same policies.
    assert (band.low[0], band.high[0]) == pytest.approx((1.5, 1.5))


def test_one_seed_has_no_band(tmp_path):
    jobs = [job for job in make_jobs(tmp_path) if job.run.seed == 0]
    panel = figure._panel(make_sweep(), jobs, 'pass_at_1')
    assert [line.label for line in panel.series] == ['A', 'B']


def test_a_line_below_says_what_the_bands_are_where_there_are_some(
    tmp_path, monkeypatch
):
    said = []
    monkeypatch.setattr(
        figure, 'draw_figure', lambda *_, below, **__: said.append(below)
    )
    jobs = make_jobs(tmp_path)
    figure.draw(make_sweep(), jobs)
    figure.draw(make_sweep(), [job for job in jobs if job.run.seed == 0])
    (with_bands, without) = said
    assert '95 % intervals of the difference from A' in with_bands
    assert without == ''


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


def test_of_many_arms_each_is_a_point_with_its_interval(tmp_path, monkeypatch):
    names = 'abcdefg'
    jobs, arms = [], [Arm(name, name.upper(), 'tests/tiny.py') for name in names]
    for number, name in enumerate(names):
        for seed in (0, 1):
            job = make_job(tmp_path, f'{name}_seed{seed}', arm=name, seed=seed)
            value = number + seed * number / 10
            for step, at in ((0, 0.0), (4, value)):
                write_rows(job, {'step': step, 'split': 'test', 'pass_at_1': at})
            jobs.append(job)
    sweep = make_sweep(arms=tuple(arms), baseline='c')
    drawn = {}

    def errorbar(self, x, y, xerr, **style):
        drawn[y] = x, xerr

    monkeypatch.setattr('matplotlib.axes.Axes.errorbar', errorbar)
    assert figure.draw(sweep, jobs).startswith(b'\x89PNG')
    # From the bottom: the last arm first, and the baseline not at all.
    assert [x for x, _ in drawn.values()] == pytest.approx(
        [4.2, 3.15, 2.1, 1.05, -1.05, -2.1]
    )
    for (x, ((low,), (high,))), others in zip(
        drawn.values(), ((4.0, 4.4), (3.0, 3.3)), strict=False
    ):
        mean, bottom, top = paired_interval(np.array(others), np.zeros(2))
        assert (x, x - low, x + high) == pytest.approx((mean, bottom, top))
