"""``experiments/new_mazes.py`` on rows whose answer is known, and on its results."""

import pytest

from experiments import new_mazes
from experiments.sweeps.new_mazes import SETS, get_sweep
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows


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
