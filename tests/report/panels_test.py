"""The panels show what was measured, and the curve is the estimator's own."""

import json

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.advantages import (
    ESTIMATORS,
    Estimator,
    effective_weight,
    tabulated_curve,
)
from passk_jax.report import panels as report_panels
from passk_jax.report.run_data import Run


def _run(train=(), evaluations=None, config=None):
    return Run(
        path=None,
        config=config or {},
        git={},
        train=list(train),
        evaluations=evaluations or {},
        timing=[],
        diagnostics=[],
        dumps={},
    )


def _evaluation(step, **values):
    return {'step': step, 'split': 'validation', **values}


def _config(name, num_rollouts=32, **advantage):
    advantage = {
        'k': 4,
        'num_groups': 0,
        'aggregation': 'sum',
        'easy_threshold': 0.6,
        'switch_threshold': 0.5,
        'high_entropy_fraction': 0.5,
    } | advantage
    config = {
        'advantage': {'name': name} | advantage,
        'sampling': {'num_rollouts': num_rollouts},
    }
    return _run(config=json.loads(json.dumps(config)))


def test_a_young_run_has_six_panels_without_series():
    panels = report_panels.metric_panels(_run())
    assert len(panels) == 6
    assert all(panel.series == () for panel in panels)


def _of_parts(train, evaluations=None):
    panels = report_panels.metric_panels(_run(train, evaluations))
    return {panel.title: panel for panel in panels[6:]}


def test_a_mixture_has_a_line_for_each_part():
    train = [
        {'step': step}
        | {f'{part}/problems': 2.0 for part in ('mazes', 'mazes/5x5', 'sudoku')}
        | {'mazes/reward': step / 10, 'mazes/5x5/reward': 9.0}
        | ({'sudoku/reward': 0.5} if step else {})
        for step in range(3)
    ]
    rows = [_evaluation(0, **{'mazes/pass_at_1': 0.25, 'sudoku/pass_at_1': 0.75})]
    panels = _of_parts(train, {'validation': rows})
    rewards = panels['Training reward by part'].series
    assert [(s.label, s.x, s.y) for s in rewards] == [
        ('mazes', [0, 1, 2], [0.0, 0.1, 0.2]),
        ('sudoku', [1, 2], [0.5, 0.5]),
    ]
    passes = panels['Pass@1 by part, validation'].series
    assert [(s.label, s.x, s.y) for s in passes] == [
        ('mazes', [0], [0.25]),
        ('sudoku', [0], [0.75]),
    ]
    assert len({series.color for series in passes}) == 2
    assert [*_of_parts(train)] == ['Training reward by part']


def test_a_long_mixture_is_smoothed_and_many_parts_or_one_have_no_chart():
    long = [
        {'step': s, 'a/problems': 1.0, 'b/problems': 1.0, 'a/reward': s % 2}
        for s in range(60)
    ]
    (series, _) = _of_parts(long)['Training reward by part'].series
    assert max(series.y[10:]) < 0.7
    for count in (1, 7):
        row = {'step': 0} | {f'part{i}/problems': 1.0 for i in range(count)}
        assert _of_parts([row]) == {}


def test_a_border_is_where_a_later_stage_begins_and_only_over_steps():
    rows = [{'step': step, 'stage': step // 3, 'reward': 0.5} for step in range(7)]
    panels = report_panels.metric_panels(_run(rows))
    assert {panel.borders for panel in panels if panel.x_label == 'step'} == {(3, 6)}
    assert {panel.borders for panel in panels if panel.x_label != 'step'} == {()}
    # Runs older than stages have none.
    (first, *_) = report_panels.metric_panels(_run([{'step': 0}, {'step': 1}]))
    assert first.borders == ()


def test_a_missing_value_leaves_a_gap_and_no_zero():
    rows = [{'step': 0, 'reward': 0.5}, {'step': 1}, {'step': 2, 'reward': 0.25}]
    series = report_panels.metric_panels(_run(rows))[0].series
    assert [(s.x, s.y) for s in series] == [([0, 2], [0.5, 0.25])]


def test_a_long_run_shows_the_mean_of_the_steps_before_and_the_steps_behind_it():
    rewards = np.random.default_rng(0).random(200)
    rows = [{'step': i, 'reward': float(r)} for i, r in enumerate(rewards)]
    raw, smooth = report_panels.metric_panels(_run(rows))[0].series
    assert raw.faint
    np.testing.assert_array_equal(raw.y, rewards)
    for i in (0, 3, 9, 10, 199):
        assert smooth.y[i] == pytest.approx(rewards[max(0, i - 9) : i + 1].mean())


def test_pass_at_k_has_a_line_and_its_interval_for_every_k():
    rows = [
        _evaluation(s, pass_at_1=0.1, pass_at_1_low=0.05, pass_at_1_high=0.2,
                    pass_at_8=0.5)
        for s in (0, 10)
    ]  # fmt: skip
    panel = report_panels.metric_panels(_run(evaluations={'validation': rows}))[1]
    assert panel.title == 'Pass@k, validation'
    one, eight = panel.series
    assert (one.label, one.x, one.y) == ('k=1', [0, 10], [0.1, 0.1])
    assert (one.low, one.high) == ([0.05, 0.05], [0.2, 0.2])
    assert (eight.low, eight.high) == ([0.5, 0.5], [0.5, 0.5])


def test_pass_at_k_over_k_compares_the_first_evaluation_with_the_last():
    rows = [_evaluation(s, pass_at_1=s / 100, pass_at_2=s / 50) for s in (0, 10, 20)]
    panel = report_panels.metric_panels(_run(evaluations={'validation': rows}))[2]
    first, last = panel.series
    assert (first.label, first.dashed) == ('validation, step 0', True)
    assert (last.x, last.y, last.dashed) == ([1, 2], [0.2, 0.4], False)
    only = report_panels.metric_panels(_run(evaluations={'validation': rows[:1]}))[2]
    assert [series.dashed for series in only.series] == [False]


def test_the_diversity_shown_is_the_one_that_accuracy_does_not_move():
    rows = [_evaluation(0, answer_diversity=0.5, rarefied_diversity=3.5)]
    panel = report_panels.metric_panels(_run(evaluations={'validation': rows}))[4]
    assert [series.y for series in panel.series] == [[3.5]]
    assert panel.title == 'Distinct of 4 wrong answers'


def test_the_curve_is_that_of_the_configured_estimator():
    curve = report_panels.curve_in_use(_config('piecewise', switch_threshold=0.25))
    want = tabulated_curve('piecewise', num_rollouts=32, k=4, switch_threshold=0.25)
    assert curve == want
    assert curve['name'] == 'piecewise (k=4, switch_threshold=0.25)'


def test_a_parameter_that_an_old_run_did_not_have_has_its_default():
    run = _config('piecewise')
    del run.config['advantage']['switch_threshold']
    curve = report_panels.curve_in_use(run)
    assert curve['eta'] == report_panels.curve_in_use(_config('piecewise'))['eta']


def test_the_curve_needs_no_other_process_of_a_mesh(monkeypatch):
    """Process 0 draws the report alone, under the mesh of all of them."""
    used = []

    def watched(inputs):
        nothing = 0.0 * jax.vmap(jax.random.uniform)(inputs.key)[:, None]
        advantages = inputs.correct + nothing
        jax.debug.inspect_array_sharding(advantages, callback=used.append)
        return advantages

    monkeypatch.setitem(ESTIMATORS, 'watched', Estimator(watched, ('correct', 'key')))
    with jax.set_mesh(sharding.make_mesh(data=2, fsdp=2, rollout=1, tensor=2)):
        curve = report_panels.curve_in_use(_config('watched'))
    assert curve['positive'] == [0.0] + [1.0] * 32
    assert used
    assert all(array.device_set == {jax.local_devices()[0]} for array in used)


def test_without_a_config_there_is_no_curve():
    assert report_panels.curve_in_use(_run()) is None
    # Of another version, or of a file that is not here.
    for name in ('no_such_estimator', 'absent.py:f'):
        assert report_panels.curve_in_use(_config(name)) is None


def test_the_curve_makes_three_panels_over_accuracy():
    curve = report_panels.curve_in_use(_config('pass_at_k'))
    advantages, eta, weight = report_panels.advantage_panels(curve)
    assert advantages.title == 'Advantage, pass_at_k (k=4)'
    assert [series.label for series in advantages.series] == [
        'right response',
        'wrong response',
    ]
    assert eta.series[0].y == curve['eta']
    want = effective_weight('pass_at_k', num_rollouts=32, k=4, p=weight.series[0].x)
    np.testing.assert_allclose(weight.series[0].y, want, rtol=1e-6)
    assert weight.floor == 0


def test_a_curve_with_parameters_in_a_list_is_that_of_the_tuple():
    """As config.json has them."""
    curve = report_panels.curve_in_use(_config('mixture', pass_weights=[1.0, 0.5]))
    want = tabulated_curve('mixture', num_rollouts=32, pass_weights=(1.0, 0.5))
    assert curve == want
