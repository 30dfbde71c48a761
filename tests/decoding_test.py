"""``experiments/decoding.py`` on a finished run, and on rows whose answer is known."""

import pathlib
import re
from collections.abc import Mapping

import pytest

from experiments import decoding
from experiments.decoding import DECODINGS, Decoding
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows
from tests import legible, tiny


def rows():
    """Pass@1 falls with the temperature, Pass@32 rises to 1.5; MaxRL is .1 higher."""
    for arm, gain in (('pass_at_1', 0.0), ('maxrl', 0.1)):
        for seed in (3, 4, 5):
            for split, more in (('validation', 0.0), ('test', 0.01)):
                for setting in DECODINGS:
                    warm = setting.temperature
                    values = {'pass_at_1': 0.5 - 0.1 * warm + gain + more}
                    if warm:
                        many = 0.9 - 0.2 * abs(warm - 1.5) + gain + seed / 1000
                        values |= dict.fromkeys(decoding.MEASURES, 0.5) | values
                        values['pass_at_32'] = many
                    names = {'arm': arm, 'seed': seed, 'split': split}
                    yield names | {'decoding': str(setting)} | values


def test_a_row_is_the_runs_last_evaluation_decoded_otherwise(finished_run):
    expected = [(Decoding(1.0), 'test'), (Decoding(0.0), 'test')]
    with tiny.devices(1):
        sampled, greedy = decoding._evaluate(finished_run, expected)
    last = tiny.metrics(finished_run, 'test')[-1]
    for name in ('pass_at_1', 'pass_at_4', 'maj_at_4', 'entropy'):
        assert sampled[name] == pytest.approx(last[name], rel=1e-5)
    assert greedy['decoding'] == 'greedy'
    assert greedy['pass_at_1'] in {x / 5 for x in range(6)}
    assert 'pass_at_4' not in greedy


def test_the_table_compares_at_one_decoding_and_at_the_best_of_each(tmp_path):
    (tmp_path / 'decoding_hard.jsonl.gz').write_bytes(compress_rows([*rows()]))
    with legible.texts():
        decoding.main(setting='hard', results=str(tmp_path))
    text = (tmp_path / 'decoding_hard.md').read_text()
    first, _, _, many, _ = text.split('\n\n')
    assert '| Pass@1, test split, 3 seeds | `pass_at_1` | `maxrl` |' in first
    assert '| greedy | 0.510 | +0.100 [+0.100, +0.100] |' in first
    assert '| temperature 2 | 0.310 | +0.100 [+0.100, +0.100] |' in first
    best = '0.510 (greedy) | +0.100 [+0.100, +0.100] (greedy)'
    assert f'| best on validation | {best} |' in first
    assert 'greedy' not in many
    best, change = many.splitlines()[-2:]
    assert '0.904 (temperature 1.5)' in best
    assert re.fullmatch(
        r'\| change from temperature 1 to best \|  \| .0\.000 \[.*\] \|', change
    )
    assert (tmp_path / 'decoding_hard.png').read_bytes().startswith(b'\x89PNG')


def test_the_summary_has_a_column_for_each_setting(tmp_path):
    table = [dict(row, arm=row['arm'].replace('maxrl', 'pass_at_k')) for row in rows()]
    for name in ('hard', 'easy_again'):
        (tmp_path / f'decoding_{name}.jsonl.gz').write_bytes(compress_rows(table))
    first, _, many = decoding.summary(tmp_path).split('\n\n')
    head, _, greedy, *_, best = first.splitlines()
    assert head.endswith('| hard, 3 seeds | easy, again, 3 seeds |')
    gain = '+0.100 [+0.100, +0.100]'
    assert greedy == f'| greedy | {gain} | {gain} |'
    assert best == f'| best on validation | {gain} | {gain} |'
    assert 'greedy' not in many


def test_only_seeds_that_every_arm_has_are_compared():
    some = [row for row in rows() if row['arm'] != 'maxrl' or row['seed'] != 4]
    by_arm = decoding.values_of(some, 'pass_at_32', 'test')
    assert [len(values) for of in by_arm.values() for values in of.values()] == [2] * 18
    lacking = [row for row in some if row['arm'] != 'maxrl' or row['seed'] == 4]
    lacking += [dict(row, seed=7) for row in some if row['arm'] == 'maxrl']
    with pytest.raises(InputError, match='no seed has all ways of decoding on test'):
        decoding.values_of(lacking, 'pass_at_32', 'test')


def test_what_lacks_is_evaluated_and_what_is_there_is_not(monkeypatch, tmp_path):
    monkeypatch.chdir(tiny.ROOT)
    with pytest.raises(InputError, match=r"setting=mazes must be one of \['hard'"):
        decoding.main(setting='mazes')
    with pytest.raises(InputError, match=r'lacks rows of pass_at_1: name its runs'):
        decoding.main(setting='easy', results=str(tmp_path))
    saved = [row for row in rows() if row['decoding'] != 'greedy']
    monkeypatch.setattr(decoding.directories, 'is_done', lambda job: job.run.seed == 12)
    requests = {}

    def evaluate(directory, pairs):
        requests[directory.name] = pairs
        return []

    monkeypatch.setattr(decoding, '_evaluate', evaluate)
    setting = decoding.SETTINGS['medium']
    saved = [dict(row, seed=12) for row in saved if row['seed'] == 3]
    assert [*decoding.missing_rows(setting, tmp_path, saved)] == []
    assert len(requests) == len(decoding.ARMS)
    assert requests['maxrl_seed12'] == [
        (Decoding(0.0), 'validation'),
        (Decoding(0.0), 'test'),
    ]
    assert len(requests['rs_grpo_seed12']) == 2 * len(DECODINGS)
    requests.clear()
    assert [*decoding.missing_rows(setting, tmp_path, saved, arms=['maxrl'])] == []
    assert [*requests] == ['maxrl_seed12']
    with pytest.raises(InputError, match=r"--arms: \['grpo'\] must be some of"):
        decoding.main(setting='easy', arms='pass_at_1,grpo', results=str(tmp_path))


def _configs(setting):
    """The seeds, and of each estimator the values of the first seed's run."""
    sweep, estimators = setting.load(), setting.estimators
    runs = decoding.runs_of(sweep, pathlib.Path('runs'), sweep.seeds[:1])
    jobs = decoding.open_runs([x for x in runs if x.arm in estimators], sweep)
    return sweep.seeds, {estimators[x.run.arm]: x.config for x in jobs}


def test_arms_are_of_the_estimators_that_they_are_named_after(monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    for setting in decoding.SETTINGS.values():
        _, configs = _configs(setting)
        assert {'pass_at_1', 'pass_at_k'} <= configs.keys()
        for estimator, config in configs.items():
            assert config['advantage']['name'] == estimator


@pytest.mark.parametrize('name', ['medium', 'hard', 'easy'])
def test_a_repetition_differs_in_seeds_and_in_what_is_evaluated(name, monkeypatch):
    monkeypatch.chdir(tiny.ROOT)
    settings = [decoding.SETTINGS[name], decoding.SETTINGS[f'{name}_again']]
    (seeds, first), (other_seeds, again) = map(_configs, settings)
    assert not {*seeds} & {*other_seeds}
    assert first.keys() == again.keys()
    for arm in first:
        assert _differences(first[arm], again[arm]) <= {'seed', 'split', 'final_split'}


def _differences(first, again):
    """The names of fields that have different values."""
    keys = set()
    for key in first.keys() | again.keys():
        values = first.get(key), again.get(key)
        if all(isinstance(x, Mapping) for x in values):
            keys |= _differences(*values)
        elif values[0] != values[1]:
            keys.add(key)
    return keys


def test_the_committed_summary_is_of_the_rows():
    results = tiny.ROOT / 'experiments' / 'results'
    assert (results / 'decoding.md').read_text() == decoding.summary(results)
