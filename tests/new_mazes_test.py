"""``experiments/new_mazes.py``: its intervals cover what they are of."""

import numpy as np
import pytest

from experiments import new_mazes
from experiments.sweeps.new_mazes import SETS, get_sweep
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows
from tests import tiny

RESULTS = tiny.ROOT / 'experiments' / 'results'


def test_the_components_of_a_sum_are_those_of_its_terms():
    of_sets, of_seeds = np.array([0.0, 3.0, 6.0]), np.array([1.0, 2.0])
    found = new_mazes.analyse(of_sets[:, None] + of_seeds)
    assert found.interval[0] == 4.5
    assert (found.sets, found.rest) == (3.0, 0.0)
    assert found.seeds == pytest.approx(0.5**0.5)


def test_without_effects_the_mean_has_the_error_of_the_rest():
    values = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = new_mazes.analyse(values)
    assert (found.sets, found.seeds, found.rest) == (0.0, 0.0, 2.0)
    assert found.interval[1] < -1 < 1 < found.interval[2]


@pytest.mark.parametrize('deviations', [(1, 1, 1), (0, 0, 1), (1, 0, 0.3), (0, 1, 0.3)])
def test_the_interval_covers_the_mean_of_new_sets_and_seeds(deviations):
    rng, covered = np.random.default_rng(0), []
    for _ in range(600):
        shapes = ((5, 1), (1, 5), (5, 5))
        drawn = zip(deviations, shapes, strict=True)
        values = sum(scale * rng.normal(size=shape) for scale, shape in drawn)
        _, low, high = new_mazes.analyse(values).interval
        covered.append(low <= 0 <= high)
    assert 0.92 <= np.mean(covered) <= 1


def write_rows(directory, mazes, seeds):
    rows = [
        {'arm': arm, 'seed': seed, 'split': 'test', 'step': 4}
        | dict.fromkeys(new_mazes.MEASURES, mazes + gain * (seed / 100))
        for seed in seeds
        for arm, gain in (('pass_at_1', 0), ('pass_at_k', 1))
    ]
    path = directory / f'{get_sweep(f"mazes={mazes}").name}.jsonl.gz'
    path.write_bytes(compress_rows(rows))


def test_the_table_has_each_set_and_all(tmp_path, capsys):
    with pytest.raises(InputError, match=r'has results of the sets \[\]'):
        new_mazes.main(results=str(tmp_path))
    for mazes in SETS:
        write_rows(tmp_path, mazes, range(3))
    new_mazes.main(results=str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith('| test split, 5 sets x 3 seeds | Pass@1 |')
    names = [line.split('|')[1].strip() for line in lines[2:]]
    assert names[:5] == [f'set {mazes}' for mazes in SETS]
    assert '+0.010 [-0.015, +0.035]' in lines[2]
    assert lines[7].startswith('| all, over sets | +0.010 [+0.010, +0.010]')
    assert lines[-2].split('|')[2].strip() == '0.010'
    write_rows(tmp_path, SETS[-1], range(4))
    with pytest.raises(InputError, match='different seeds'):
        new_mazes.main(results=str(tmp_path))


def test_the_committed_table_is_that_of_the_rows(tmp_path):
    names = [get_sweep(f'mazes={x}').name for x in SETS]
    paths = [RESULTS / f'{name}.jsonl.gz' for name in names]
    if not (paths := [path for path in paths if path.exists()]):
        pytest.skip('its runs are not done')
    for path in paths:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    new_mazes.main(results=str(tmp_path))
    table = (tmp_path / 'new_mazes.md').read_text()
    assert table == (RESULTS / 'new_mazes.md').read_text()
