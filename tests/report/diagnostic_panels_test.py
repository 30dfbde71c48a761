"""The panels of the diagnostics show what the lines and the records say."""

import json

import numpy as np
import pytest

from passk_jax.report import charts
from passk_jax.report.diagnostic_panels import flip_panels, step_panels
from passk_jax.report.run_data import read_run
from passk_jax.report.write import write_report
from tests.slow import slow_values


def row(step, scale=1.0, noise=4.0, **changes):
    """A diagnosed step of two problems with two responses each."""
    values = {
        'step': step,
        'entropy_by_position': [1.0, 0.5, 0.25],
        'responses_by_position': [400, 4, 3],
        'parting_by_position': [0.25, 0.0, 0.75],
        'parting_position': 1.5,
        'mass_right_by_right': [0.0, 3.0, 1.0],
        'mass_wrong_by_right': [0.0, 4.0, 0.0],
    }
    names = ('pass_at_k', 'rloo', 'canonical_k', 'pass_at_1')
    # Vectors in a plane, a signal of 1 each but for the scale.
    angles = dict(zip(names, (0.0, 0.5, -0.25, 0.5), strict=True))
    for i, e in enumerate(names):
        values[f'gradient_signal/{e}'] = scale
        values[f'gradient_noise/{e}'] = noise
        for f in names[i + 1 :]:
            cosine = np.cos(angles[e] - angles[f])
            values[f'gradient_product/{e}/{f}'] = scale * cosine
    return values | changes


def write_run(path, rows=(), flips=None, **config):
    config = {'advantage': {'name': 'pass_at_k'}} | config
    (path / 'config.json').write_text(json.dumps(config))
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    (path / 'diagnostics.jsonl').write_text(lines)
    metrics = []
    for step, counts in (flips or {}).items():
        metrics.append({'step': step, 'split': 'test', 'pass_at_1': 0.5})
        if counts:
            names = ('flips_solved', 'flips_unsolved')
            metrics[-1] |= dict(zip(names, counts, strict=True))
    text = ''.join(json.dumps(row) + '\n' for row in metrics)
    (path / 'metrics.jsonl').write_text(text)
    return read_run(path)


def test_without_diagnostics_and_evaluations_there_are_no_panels(tmp_path):
    run = write_run(tmp_path, flips={0: None})
    assert step_panels(run) + flip_panels(run) == []
    assert '<h2>Diagnostics' not in write_report(tmp_path).read_text()


def test_positions_that_few_responses_reach_are_not_shown(tmp_path):
    entropy, parted, *_ = step_panels(write_run(tmp_path, [row(0), row(7)]))
    first, last = entropy.series
    assert (first.label, last.label) == ('step 0', 'step 7')
    # 4 of 400 are 1 %, and 3 are fewer.
    assert (list(first.x), first.y) == ([0, 1], [1.0, 0.5])
    assert [series.y for series in parted.series] == [[0.25, 0.25, 1.0]] * 2


def test_of_many_steps_five_are_shown(tmp_path):
    rows = [row(step) for step in range(41)]
    del rows[10]['parting_position']
    entropy, parted, *_ = step_panels(write_run(tmp_path, rows))
    labels = [series.label for series in entropy.series]
    assert labels == [f'step {step}' for step in (0, 10, 20, 30, 40)]
    assert 'step 10' not in [series.label for series in parted.series]


def test_mass_is_a_share_of_either_half(tmp_path):
    late = {'mass_right_by_right': [0, 0, 1], 'mass_wrong_by_right': [1, 1, 1]}
    # The first has another number of rollouts.
    other = {'mass_right_by_right': [1, 0], 'mass_wrong_by_right': [1, 1]}
    rows = [row(0, **other), row(1), row(2), row(3, **late), row(4, **late)]
    mass = step_panels(write_run(tmp_path, rows))[2]
    assert [(s.label, s.faint, s.dashed) for s in mass.series] == [
        ('right, to step 2', True, False),
        ('wrong, to step 2', True, True),
        ('right, from step 3', False, False),
        ('wrong, from step 3', False, True),
    ]
    assert mass.series[0].x == [0, 0.5, 1]
    np.testing.assert_allclose([s.y for s in mass.series], [
        [0, 3 / 8, 1 / 8], [0, 4 / 8, 0], [0, 0, 1 / 4], [1 / 4, 1 / 4, 1 / 4],
    ])  # fmt: skip


def test_gradient_shares_are_those_of_the_sums_of_products(tmp_path):
    def parts(right, wrong):
        name = 'gradient_product_{}_by_difficulty'
        return {name.format('right'): right, name.format('wrong'): wrong}

    # Older lines have none, and the sum of the first two no signal.
    rows = [row(0), row(1, **parts([1, -2], [0, 0])), row(2, **parts([1, 0], [0, 0]))]
    rows += [row(3, **parts([3, 2], [-1, 0])), row(4, **parts([1, 0], [0, 3]))]
    panels = step_panels(write_run(tmp_path, rows))
    assert len(panels) == 6
    shares = panels[3]
    assert shares.title == 'Share of the expected gradient'
    assert [s.label for s in shares.series] == [
        'right, from step 3',
        'wrong, from step 3',
    ]
    assert shares.series[0].x == [0.25, 0.75]
    assert [s.y for s in shares.series] == [[0.5, 0.25], [-0.125, 0.375]]
    assert 'Share of the expected gradient' in write_report(tmp_path).read_text()


def test_signal_and_cosines_are_ratios_of_sums_over_steps(tmp_path):
    # One step alone has a signal that came out negative.
    rows = [row(0), row(1, scale=3.0, noise=8.0), row(2, scale=-0.5), row(3)]
    panels = step_panels(write_run(tmp_path, rows))
    signal, cosine = panels[3:]
    assert signal.series[0].label == 'pass_at_k'
    for series in signal.series:
        np.testing.assert_allclose(series.y, [1 / 4, 4 / 12, 3.5 / 16, 4.5 / 20])
    # As of the third step there are enough for an error, which is 0 of one angle.
    by_label = {s.label: s for s in cosine.series}
    assert by_label.keys() == {
        'pass_at_k, canonical_k',
        'pass_at_k, rloo',
        'canonical_k, rloo',
    }
    for label, angle in zip(by_label, (0.25, 0.5, 0.75), strict=True):
        assert by_label[label].x == [2, 3]
        np.testing.assert_allclose(by_label[label].y, np.cos(angle))
        np.testing.assert_allclose(by_label[label].low, np.cos(angle))


def test_a_cosine_of_steps_that_disagree_has_the_error_of_the_jackknife(tmp_path):
    products = (0.25, 0.5, 0.75)
    rows = [
        row(step, **{'gradient_product/rloo/canonical_k': product})
        for step, product in enumerate(products)
    ]
    cosine = step_panels(write_run(tmp_path, rows))[4].series[-1]
    assert (cosine.label, cosine.x) == ('canonical_k, rloo', [2])
    # For a mean, the jackknife is the usual standard error.
    error = np.std(products, ddof=1) / np.sqrt(3)
    assert cosine.y == pytest.approx([0.5])
    assert cosine.low == pytest.approx([0.5 - error])
    assert cosine.high == pytest.approx([0.5 + error])


def test_a_ratio_beyond_one_is_drawn_at_one_and_an_undefined_one_not(tmp_path):
    pair = 'gradient_product/rloo/canonical_k'
    rows = [
        row(step, **{pair: 1.5, 'gradient_signal/pass_at_k': -1}) for step in (0, 1, 2)
    ]
    (only,) = step_panels(write_run(tmp_path, rows))[4].series
    assert (only.label, only.y, only.high) == ('canonical_k, rloo', [1], [1])


def test_a_step_without_any_gradient_has_no_ratio(tmp_path):
    run = write_run(tmp_path, [row(0, scale=0.0, noise=0.0), row(1, 2.0, 4.0)])
    for series in step_panels(run)[3].series:
        assert (series.x, series.y) == ([1], [0.5])
    # Of a young run, which has nothing else.
    (tmp_path / 'diagnostics.jsonl').write_text(json.dumps(row(0, 0.0, 0.0)) + '\n')
    assert '<h2>Diagnostics' in write_report(tmp_path).read_text()


def test_the_estimators_are_those_of_all_steps(tmp_path):
    later = {n: x for n, x in row(1).items() if '/pass_at_k' not in n}
    signal = step_panels(write_run(tmp_path, [row(0), later]))[3]
    names = [series.label for series in signal.series]
    assert names == ['canonical_k', 'pass_at_1', 'rloo']


@pytest.fixture
def staged(tmp_path):
    """Three steps of pass_at_k, three of pass_at_1 with three times the signal."""
    rows = [row(step) for step in range(3)]
    rows += [row(step, scale=3.0) for step in (3, 4, 5)]
    rows = [{n: x for n, x in row.items() if '/pass_at_k' not in n or row['step'] < 3}
            for row in rows]  # fmt: skip
    stages = {'late': {'start': 3, 'advantage': {'name': 'pass_at_1'}}}
    return step_panels(write_run(tmp_path, rows, stages=stages))


def test_the_signal_of_a_stage_is_its_own(staged):
    lines = staged[3].series
    names = ['pass_at_k', 'canonical_k', 'pass_at_1', 'rloo']
    assert [curve.label for curve in lines] == [*names, '', '', '']
    for curve, steps, value in (
        *((line, [0, 1, 2], 1 / 4) for line in lines[:4]),
        *((line, [3, 4, 5], 3 / 4) for line in lines[4:]),
    ):
        assert list(curve.x) == steps
        np.testing.assert_allclose(curve.y, value)
    # The stage's own first; an estimator has one color in all stages.
    color = dict(zip(names, (curve.color for curve in lines), strict=False))
    assert len(set(color.values())) == 4
    later = [curve.color for curve in lines[4:]]
    assert later == [color[name] for name in ('pass_at_1', 'canonical_k', 'rloo')]


def test_the_cosines_of_a_stage_are_those_of_its_own_estimator(staged):
    lines = staged[4].series
    by_label = {line.label: line for line in lines}
    assert list(by_label) == [
        'pass_at_k, canonical_k',
        'pass_at_k, rloo',
        'canonical_k, rloo',
        'pass_at_1, canonical_k',
        'pass_at_1, rloo',
        '',
    ]
    # An error needs three steps of the stage, and none of those before count.
    assert [line.x for line in lines] == [[2]] * 3 + [[5]] * 3
    np.testing.assert_allclose(by_label['pass_at_1, canonical_k'].y, np.cos(0.75))
    np.testing.assert_allclose(by_label['pass_at_1, rloo'].y, 1)
    assert by_label[''].color == by_label['canonical_k, rloo'].color
    # There are four colors: the fifth line has the first one's, and dashes.
    assert [line.dashed for line in lines] == [False] * 4 + [True, False]
    assert lines[4].color == lines[0].color


def test_a_stage_without_a_diagnosed_step_has_no_lines(tmp_path):
    stages = {'late': {'start': 3}, 'later': {'start': 9}}
    run = write_run(tmp_path, [row(3), row(4)], stages=stages)
    assert [list(s.x) for s in step_panels(run)[3].series] == [[3, 4]] * 4


def test_flips_are_those_that_the_evaluations_have_measured(tmp_path):
    run = write_run(tmp_path, flips={0: None, 10: (2, 1), 20: (0, 1)})
    (flips,) = flip_panels(run)
    assert flips.title == 'Problems that flip, test'
    assert [(s.label, s.x, s.y) for s in flips.series] == [
        ('newly solved', [10, 20], [2, 0]),
        ('no longer solved', [10, 20], [1, 1]),
    ]
    assert 'can flip although the policy' in write_report(tmp_path).read_text()


@pytest.mark.parametrize('name', slow_values(sorted(row(0)), quick=sorted(row(0))[::3]))
@pytest.mark.parametrize(
    'value',
    [[[1]], *slow_values(['absent', 'text', 10**400, float('nan'), []])],
)
def test_a_damaged_value_of_one_step_leaves_the_other_steps(tmp_path, name, value):
    damaged = row(1) | {name: value}
    if value == 'absent':
        del damaged[name]
    rows = [row(0), damaged, row(2), row(3)]
    write_run(tmp_path, rows)
    html = write_report(tmp_path).read_text()
    assert 'class="card empty">no diagnostics' not in html
    assert 'step 3<' in html
    assert html.count('class="chart"') >= 6


def test_lines_of_one_step_that_are_all_damaged_leave_a_report(tmp_path):
    rows = [{'step': 0, 'gradient_signal/rloo': 1.0}, {'step': 1, 'mass': 'x'}]
    write_run(tmp_path, rows)
    assert '<h2>Diagnostics' in write_report(tmp_path).read_text()


def test_the_panels_over_steps_mark_where_a_stage_begins(tmp_path, monkeypatch):
    write_run(tmp_path, [row(step) for step in range(4)])
    lines = [{'step': s, 'split': 'train', 'stage': s // 2} for s in range(4)]
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    (tmp_path / 'metrics.jsonl').write_text(text)
    drawn = {}
    draw = charts.svg_chart

    def remember(panel):
        drawn[panel.title] = panel.borders
        return draw(panel)

    monkeypatch.setattr(charts, 'svg_chart', remember)
    write_report(tmp_path)
    assert drawn['Cosine of expected gradients'] == (2,)
    assert drawn['Entropy by position (nats)'] == ()


def test_a_report_has_the_panels_and_says_what_they_are(tmp_path):
    write_run(tmp_path, [row(0)], {0: None, 10: (1, 0)})
    html = write_report(tmp_path).read_text()
    for text in ('<h2>Diagnostics</h2>', 'Entropy by position', 'not a norm of grad'):
        assert text in html
    # Six of the run's metrics, six here.
    assert html.count('class="chart"') == 12
