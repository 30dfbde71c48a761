"""``experiments/steepness.py`` on results whose answer is known."""

import json

import pytest
from absl import flags

from experiments import steepness
from passk_jax.cli import config_file
from passk_jax.cli.flags import parse
from passk_jax.errors import InputError
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.commands import runs_of
from passk_jax.sweeps.opening import open_runs
from tests import tiny

SEEDS = (0, 1, 2)
# The second seed disagrees about MaxRL.
ODD = ('maxrl', 1)


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """Results in which Pass@32 grows with steepness and the entropy falls."""
    directory = tmp_path_factory.mktemp('results')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny.ROOT)
        sweep = config_file.call(
            'experiments/sweeps/estimators.py', 'get_sweep', returns=Sweep
        )
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
        text = ''.join(json.dumps(line) + '\n' for line in reversed(lines))
        (directory / 'estimators.jsonl').write_text(text)
        steepness.main(results=str(directory))
    return directory


def test_the_command_takes_its_flags(tmp_path):
    given = ['steepness', '--config=a.py:variant=easy', f'--results={tmp_path}']
    assert parse(steepness.main, given, flags.FlagValues()) == {
        'config': 'a.py:variant=easy',
        'results': str(tmp_path),
    }


def _without(written, tmp_path, lost):
    """Copies the results into another directory, without those of (arm, seed)."""
    lines = (written / 'estimators.jsonl').read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    kept = [
        line
        for line, row in zip(lines, rows, strict=True)
        if (row['arm'], row['seed']) not in lost or row['split'] != 'test'
    ]
    assert len(lines) - len(kept) == 2 * len(lost)
    (tmp_path / 'estimators.jsonl').write_text(''.join(kept))
    configs = (written / 'estimators.configs.json').read_text()
    (tmp_path / 'estimators.configs.json').write_text(configs)


def test_results_without_a_seed_of_every_estimator_are_refused(
    written, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    words = r"no seed with results of every arm: \['pass_at_1', .* seeds \[\]"
    with pytest.raises(InputError, match=words):
        steepness.main(results=str(tmp_path))
    _without(written, tmp_path, {('nsr', 0), ('nsr', 1), ('maxrl', 2)})
    words = r"every arm: \['maxrl', 'nsr'\] lack some of the seeds \[0, 1, 2\]"
    with pytest.raises(InputError, match=words):
        steepness.main(results=str(tmp_path))
    assert not list(tmp_path.glob('*steepness*'))


def test_a_seed_that_an_estimator_lacks_is_left_out_of_all(
    written, tmp_path, monkeypatch
):
    monkeypatch.chdir(tiny.ROOT)
    _without(written, tmp_path, {('nsr', 1)})
    steepness.main(results=str(tmp_path))
    text = (tmp_path / 'estimators_steepness.md').read_text()
    assert text.endswith('\nWithout seeds [1], which not every estimator has.\n')
    # The seed that disagrees about MaxRL is the one that is left out.
    (of_pass,) = (x for x in text.splitlines() if x.startswith('| Pass@32'))
    assert of_pass.split('|')[3].split() == ['+1.00', '+1.00']
    assert 'Without' not in (written / 'estimators_steepness.md').read_text()
    assert (tmp_path / 'estimators_steepness.png').exists()


def test_the_rank_correlation_is_of_each_seed(written):
    lines = (written / 'estimators_steepness.md').read_text().splitlines()
    (of_entropy,) = (line for line in lines if line.startswith('| entropy'))
    assert '-1.00 [-1.00, -1.00] | -1.00 -1.00 -1.00' in of_entropy
    (of_pass,) = (line for line in lines if line.startswith('| Pass@32'))
    each = [float(x) for x in of_pass.split('|')[3].split()]
    assert each[0] == each[2] == 1.0
    assert 0.0 < each[1] < 0.9
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
