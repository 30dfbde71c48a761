"""``experiments/steepness.py`` on results whose answer is known."""

import json

import numpy as np
import pytest
from absl import flags

from experiments import steepness
from experiments.last_evaluations import read_last
from passk_jax.cli import config_file
from passk_jax.cli.flags import parse
from passk_jax.errors import InputError
from passk_jax.evaluation.metrics import paired_interval
from passk_jax.report import scatter
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.opening import open_runs
from passk_jax.sweeps.rows import compress_rows, read_rows
from tests import legible, tiny

SWEEP = 'experiments/sweeps/estimators.py'
SEEDS = (0, 1, 2)
# The second seed disagrees about MaxRL.
ODD = ('maxrl', 1)


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """Results in which Pass@32 grows with steepness and the entropy falls."""
    directory = tmp_path_factory.mktemp('results')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny.ROOT)
        sweep = config_file.call(SWEEP, 'get_sweep', returns=Sweep)
        jobs = open_runs(runs_of(sweep, directory, (0,)), sweep)
        configs = {job.run.setting: job.config for job in jobs}
        (directory / 'estimators.configs.json').write_text(json.dumps(configs))
        lines = []
        for seed in SEEDS:
            for arm in sweep.arms:
                steep = steepness.steepness_of(configs[arm.name]) or 0.0
                row = dict.fromkeys(sweep.measures, steep)
                row |= {'pass_at_32': steep, 'entropy': seed - steep}
                if (arm.name, seed) == ODD:
                    row['pass_at_32'] = -1.0
                whose = {'arm': arm.name, 'seed': seed}
                for split, step, factor in (
                    ('test', 0, 9),
                    ('test', 300, 1),
                    ('x', 300, 9),
                ):
                    values = {name: factor * value for name, value in row.items()}
                    lines.append(whose | {'split': split, 'step': step} | values)
        rows = compress_rows(lines[::-1])
        (directory / 'estimators.jsonl.gz').write_bytes(rows)
        steepness.main(results=str(directory))
    return directory


def test_the_command_takes_its_flags(tmp_path):
    arguments = ['steepness', '--config=a.py:variant=easy', f'--results={tmp_path}']
    assert parse(steepness.main, arguments, flags.FlagValues()) == {
        'config': 'a.py:variant=easy',
        'results': str(tmp_path),
        'without': '',
        'beside': '',
    }


def _without(written, tmp_path, lost):
    """Copies the results into another directory, without those of (arm, seed)."""
    rows = read_rows(written / 'estimators.jsonl.gz')
    remaining = [
        row
        for row in rows
        if (row['arm'], row['seed']) not in lost or row['split'] != 'test'
    ]
    assert len(rows) - len(remaining) == 2 * len(lost)
    (tmp_path / 'estimators.jsonl.gz').write_bytes(compress_rows(remaining))
    configs = (written / 'estimators.configs.json').read_text()
    (tmp_path / 'estimators.configs.json').write_text(configs)


def test_results_without_the_baseline_are_refused(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    words = r'no results of pass_at_1 with every seed of most arms, \[\], so'
    with pytest.raises(InputError, match=words):
        steepness.main(results=str(tmp_path))
    _without(written, tmp_path, {('pass_at_1', 1)})
    words = r'every seed of most arms, \[0, 1, 2\], so run the sweep on'
    with pytest.raises(InputError, match=words):
        steepness.main(results=str(tmp_path))
    assert not list(tmp_path.glob('*steepness*'))


def test_an_estimator_that_lacks_a_seed_is_left_out(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    # One arm has no runs at all, so its configuration is missing too.
    lost = {('maxrl', 1), *(('nsr', seed) for seed in SEEDS)}
    _without(written, tmp_path, lost)
    path = tmp_path / 'estimators.configs.json'
    configs = json.loads(path.read_text())
    del configs['nsr']
    path.write_text(json.dumps(configs))
    steepness.main(results=str(tmp_path))
    text = (tmp_path / 'estimators_steepness.md').read_text()
    assert text.endswith(
        '\nWithout maxrl, nsr: they have no last evaluation of every seed.\n'
    )
    # The one that disagrees is left out, and all seeds are there.
    (of_pass,) = (x for x in text.splitlines() if x.startswith('| Pass@32'))
    assert of_pass.split('|')[3].split() == ['+1.00', '+1.00', '+1.00']
    assert 'Without' not in (written / 'estimators_steepness.md').read_text()
    assert (tmp_path / 'estimators_steepness.png').exists()


def test_a_seed_that_few_arms_have_counts_for_none(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    sweep = config_file.call(SWEEP, 'get_sweep', returns=Sweep)
    _without(written, tmp_path, {(arm.name, 2) for arm in sweep.arms[1:]})
    last = read_last(sweep, tmp_path, ['pass_at_1'])
    assert last.seeds == (0, 1)
    assert last.left_out == ()
    assert last.note == 'Without seeds that few arms have: 2.'
    assert last.values.keys() == {arm.name for arm in sweep.arms}


def test_a_difference_is_that_of_the_last_evaluation_and_paired(written, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    sweep = config_file.call(SWEEP, 'get_sweep', returns=Sweep)
    last = read_last(sweep, written, ['pass_at_32', 'entropy'])
    pairs = last.values['maxrl']['pass_at_32'], last.values['pass_at_1']['pass_at_32']
    assert pairs[0][1] == -1.0
    assert last.difference('maxrl', 'pass_at_32') == paired_interval(*pairs)
    # The entropy of a seed is its number, less the same in each.
    mean, low, high = last.difference('rloo', 'entropy')
    assert mean == pytest.approx(low) == pytest.approx(high)


def test_the_figure_has_a_named_point_for_each_estimator(written, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    drawn = []

    def draw_points(points, ax):
        drawn.append((points, ax))
        scatter.draw_points(points, ax)

    monkeypatch.setattr(steepness, 'draw_points', draw_points)
    with legible.texts() as texts:
        steepness.main(results=str(written))
    legible.check(texts)
    (of_32, upper), (of_1, lower) = drawn
    assert upper.get_ylabel() == 'Pass@32 minus that of pass_at_1\n(share of problems)'
    assert lower.get_ylabel().startswith('Pass@1 minus that of pass_at_1')
    assert upper.get_xscale() == 'log'
    for points in (of_32, of_1):
        by_name = {point.name: point for point in points}
        assert len(by_name) == len(points) == 15
        hollow = {name for name, point in by_name.items() if point.hollow}
        assert hollow == {
            *('pkpo', 'pkpo_loo', 'leave_one_out_max'),
            *('maclaurin', 'nsr', 'w_reinforce'),
        }
        # Those of one steepness stand beside each other.
        assert by_name['rloo'].x[0] < by_name['dr_grpo'].x[0] < by_name['mixture'].x[0]
        assert by_name['mixture'].x[0] == pytest.approx(1.242, abs=1e-3)
        assert by_name['pass_at_1'].y == (0.0, 0.0, 0.0)
    # In every seed a measure is the steepness itself.
    gain = by_name['canonical_k'].y
    assert gain == pytest.approx([2.829 - 1.784] * 3, abs=2e-3)


def test_only_what_lies_far_below_all_others_leaves_the_axes():
    heights = {'a': 0.0, 'b': 0.1, 'near': -0.05, 'far': -0.3, 'lower': -0.2}
    points = [
        scatter.Point(scatter.exactly(1.0), scatter.exactly(y), name)
        for name, y in heights.items()
    ]
    inside, below = steepness._split(points, ('near', 'far'))
    assert [point.name for point in below] == []
    inside, below = steepness._split(points[:-1], ('near', 'far'))
    assert [point.name for point in below] == ['far']
    assert [point.name for point in inside] == ['a', 'b', 'near']
    assert steepness._split(points[:-1], ()) == (points[:-1], [])


def test_no_end_of_an_interval_is_beyond_a_correlation():
    assert steepness._with_interval(np.array([0.2, 1.0])) == '+0.60 [-1.00, +1.00]'


def test_the_interval_over_arms_is_fishers():
    # By hand: the sum of squared rank differences is 6, so rho = 1 - 6 * 6 / (6 * 35);
    # atanh = 1.1836, and 1.9600 * sqrt(1.06 / 3) = 1.1650.
    values = np.array([2.0, 1.0, 4.0, 3.0, 6.0, 5.0])
    assert steepness.over_arms(np.arange(6.0), values) == '+0.83 [+0.02, +0.98]'
    # The means over seeds have the order of the arms.
    noisy = np.arange(6.0)[:, None] + np.array([-9.0, 9.0]) * np.eye(6)[:, [2]]
    assert steepness.over_arms(np.arange(6.0), noisy) == '+1.00'
    assert steepness.over_arms(np.arange(3.0), np.array([1.0, 3.0, 2.0])) == '+0.50'
    assert steepness.over_arms(np.arange(5.0), np.ones((5, 2))) == 'undefined'


def test_the_rank_correlation_is_of_each_seed(written):
    lines = (written / 'estimators_steepness.md').read_text().splitlines()
    (of_entropy,) = (line for line in lines if line.startswith('| entropy'))
    assert '-1.00 [-1.00, -1.00] | -1.00 -1.00 -1.00' in of_entropy
    (of_pass,) = (line for line in lines if line.startswith('| Pass@32'))
    correlations = [float(x) for x in of_pass.split('|')[3].split()]
    assert correlations[0] == correlations[2] == 1.0
    assert 0.0 < correlations[1] < 0.9
    assert (written / 'estimators_steepness.png').read_bytes().startswith(b'\x89PNG')


def test_estimators_stand_in_the_order_of_steepness(written):
    lines = (
        (written / 'estimators_steepness.md')
        .read_text()
        .split('\n\n')[1]
        .splitlines()[2:]
    )
    cells = [[cell.strip() for cell in line.split('|')[1:3]] for line in lines]
    names, values = [name for name, _ in cells], [float(x) for _, x in cells]
    assert values == sorted(values)
    assert names[-1] == 'maximum, leave one out'
    # Groups are drawn, unlikeliness reads more than what is right, and stages differ.
    assert len(names) == 15
    assert not {'Pass@4, bootstrap', 'unlikeliness', 'k = 8, 4, 2, 1'} & set(names)


def test_steepness_is_that_of_the_weights(written):
    configs = json.loads((written / 'estimators.configs.json').read_text())
    assert steepness.steepness_of(configs['rloo']) == pytest.approx(1.0)
    # Pass@4's gradient is 4 (1 - p)^3, exactly.
    expected = (0.99 / 0.7) ** 3
    assert steepness.steepness_of(configs['canonical_k']) == round(expected, 4)


def test_a_further_column_leaves_arms_out(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    _without(written, tmp_path, set())
    steepness.main(results=str(tmp_path), without='maxrl,nsr')
    lines = (tmp_path / 'estimators_steepness.md').read_text().splitlines()
    assert lines[0].endswith('| without maxrl, nsr |')
    (of_pass,) = (line for line in lines if line.startswith('| Pass@32'))
    # Without the one that disagrees all seeds are in the order of steepness.
    assert of_pass.endswith('| +1.00 [+1.00, +1.00] |')
    with pytest.raises(InputError, match=r"without='max' has 'max', not one of \["):
        steepness.main(results=str(tmp_path), without='max')
    with pytest.raises(InputError, match="without='a,b' leaves fewer than two of"):
        steepness._names('a,b', {'a': 1.0, 'b': 1.0, 'c': 1.0})


def test_a_row_compares_the_order_with_that_of_another_sweep(
    written, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    _without(written, tmp_path, set())
    steepness.main(results=str(tmp_path), beside=SWEEP)
    lines = (tmp_path / 'estimators_steepness.md').read_text().splitlines()
    (row,) = (line for line in lines if 'against that of estimators' in line)
    cells = ['+1.00 [+1.00, +1.00]', '+1.00 +1.00 +1.00', '+1.00 |']
    assert row.split(' | ')[1:] == cells
    medium = 'experiments/sweeps/estimators.py:variant=medium'
    rows = read_rows(tmp_path / 'estimators.jsonl.gz')
    fewer = compress_rows([row for row in rows if row['seed'] != 2])
    (tmp_path / 'estimators_medium.jsonl.gz').write_bytes(fewer)
    configs = (tmp_path / 'estimators.configs.json').read_text()
    (tmp_path / 'estimators_medium.configs.json').write_text(configs)
    words = r'beside=.*medium. has the seeds \[0, 1\], not \[0, 1, 2\]'
    with pytest.raises(InputError, match=words):
        steepness.main(results=str(tmp_path), beside=medium)
