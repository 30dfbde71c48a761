"""A sweep that was run twice: what is equal, what differs, and how surely."""

import numpy as np
import pytest

from passk_jax.errors import InputError
from passk_jax.evaluation.metrics import independent_interval, paired_interval
from passk_jax.sweeps.reproduction import compare_results
from passk_jax.sweeps.rows import compress_rows

FIRST = {'a': {0: 0.1, 1: 0.3, 2: 0.2}, 'b': {0: 0.2, 1: 0.5, 2: 0.35}}


def write(directory, values, *, split='test', **columns):
    directory.mkdir(exist_ok=True)
    rows = [
        {
            **{'run': f'{arm}_seed{seed}', 'arm': arm, 'seed': seed, 'split': split},
            **columns,
            **{'step': step, 'pass_at_1': value * step, 'pass_at_4': 0.5},
        }
        for arm, of_seeds in values.items()
        for seed, value in of_seeds.items()
        for step in (0, 1)
    ]
    (directory / 's.jsonl.gz').write_bytes(compress_rows(rows))
    return str(directory)


def compare(*directories, **options):
    return compare_results('s', directories, **({'split': 'test'} | options))


def cells(text, start):
    (line,) = (x for x in text.splitlines() if x.startswith(f'| {start} |'))
    return [cell.strip() for cell in line.strip('|').split('|')]


def format_cell(interval):
    return '{:+.3f} [{:+.3f}, {:+.3f}]'.format(*interval)


def test_shared_seeds_are_paired_and_equal_evaluations_counted(tmp_path):
    second = {'a': {1: 0.3, 2: 0.25, 3: 0.9}, 'b': {1: 0.6, 2: 0.45}}
    text = compare(write(tmp_path / 'x', FIRST), write(tmp_path / 'y', second))
    change = paired_interval(np.array([0.3, 0.25]), np.array([0.3, 0.2]))
    same = '+0.000 [+0.000, +0.000]'
    ends = ['0.250', '0.275', format_cell(change), '0.500', '0.500', same]
    assert cells(text, 'a') == ['a', '3, 3', '1 of 2', *ends]
    first = paired_interval(np.array([0.2, 0.5, 0.35]), np.array([0.1, 0.3, 0.2]))
    later = paired_interval(np.array([0.6, 0.45]), np.array([0.3, 0.25]))
    rows = [line for line in text.splitlines() if line.startswith('| b |')]
    assert f'| {format_cell(first)} | {format_cell(later)} |' in rows[1]


def test_without_shared_seeds_the_samples_are_independent(tmp_path):
    second = {'a': {7: 0.4, 8: 0.6}}
    text = compare(
        write(tmp_path / 'x', FIRST),
        write(tmp_path / 'y', second),
        measures=['pass_at_1'],
    )
    change = independent_interval(np.array([0.4, 0.6]), np.array([0.1, 0.3, 0.2]))
    row = ['a', '3, 2', '0 of 0', '0.200', '0.500', format_cell(change)]
    assert cells(text, 'a') == row
    assert 'arms in one of them only: b' in text


def test_where_a_run_was_made_is_no_difference(tmp_path):
    second = write(tmp_path / 'y', FIRST, processor='Z80', stage=0)
    text = compare(write(tmp_path / 'x', FIRST), second)
    assert cells(text, 'a')[2] == '3 of 3'


def test_a_later_stage_ends_its_arm(tmp_path):
    (tmp_path / 'x').mkdir()
    row = {'arm': 'a', 'seed': 0, 'split': 'test', 'step': 4}
    rows = [row | {'run': 'a', 'pass_at_1': 0.1}, row | {'run': 'b', 'pass_at_1': 0.7}]
    (tmp_path / 'x' / 's.jsonl.gz').write_bytes(compress_rows(rows))
    text = compare(str(tmp_path / 'x'), str(tmp_path / 'x'))
    assert cells(text, 'a') == ['a', '1, 1', '1 of 1', '0.700', '0.700', '+0.000']


def test_what_cannot_be_compared_is_named(tmp_path):
    x, y = write(tmp_path / 'x', FIRST), write(tmp_path / 'y', {'c': {0: 0.1}})
    with pytest.raises(
        InputError, match=r"no arm is in both: \['a', 'b'\] and \['c'\]"
    ):
        compare(x, y)
    with pytest.raises(InputError, match='needs two directories'):
        compare(x)
    with pytest.raises(InputError, match=r'z/s\.jsonl\.gz cannot be read'):
        compare(x, str(tmp_path / 'z'))
    with pytest.raises(InputError, match="no evaluation of split='train'"):
        compare(x, x, split='train')
    with pytest.raises(
        InputError, match=r"'speed' is no .*\['pass_at_1', 'pass_at_4'\]"
    ):
        compare(x, x, measures=['speed'])
    with pytest.raises(InputError, match="'run' is no metric of arm 'a'"):
        compare(x, x, measures=['run'])
    (tmp_path / 'x' / 's.jsonl.gz').write_bytes(b'no gzip')
    with pytest.raises(InputError, match='cannot be read'):
        compare(x, y)
