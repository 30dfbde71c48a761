import dataclasses

import pytest

from passk_jax.planning import table
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.chips import GIB
from passk_jax.planning.fits import Fit
from passk_jax.planning.flops import Flops
from passk_jax.planning.hlo_costs import Costs, Traffic
from passk_jax.planning.programs import Program
from passk_jax.planning.topologies import parse


def analysed(name='train', *, topology='v5e:2x2', costs=None, **memory):
    """A program of which these figures are known."""
    program = Program(name, None, (), None, 0.0, useful_flops=394e12, num_tokens=1000)
    sizes = {
        'arguments': 2 * GIB,
        'outputs': 0.0,
        'temporaries': 3 * GIB,
        'resident': GIB,
        'limit': 15.75 * GIB,
    }
    usage = Memory(**(sizes | memory))
    return Analysis(program, parse(topology), usage, Flops(788e12), costs)


EDGE = Fit(5_000, 12)


def rows(*analyses, edge=EDGE):
    """The table's rows by their label."""
    edges = [edge] * len(analyses)
    return {label: cells for label, *cells in table.plan_rows(analyses, edges)}


def test_columns_are_as_wide_as_their_widest_cell():
    have = table.render([['', 'a', 'bb'], ['long', '1', '2'], ['x', '345', '6']])
    assert have == (
        '|      |   a | bb |\n'
        '| ---- | --: | -: |\n'
        '| long |   1 |  2 |\n'
        '| x    | 345 |  6 |\n'
    )


def test_there_is_a_column_for_each_program():
    have = rows(analysed('train'), analysed('decode'))
    assert have['a chip'] == ['train', 'decode']
    assert have['total'] == ['6.00 GiB'] * 2
    assert have['fits'] == ['yes'] * 2
    assert have['longest response'] == ['5,000'] * 2


@pytest.mark.parametrize(
    ('memory', 'cell'),
    [
        ({'temporaries': 20.0 * GIB}, 'NO'),
        ({'temporaries': None}, 'but for temporaries'),
        ({'resident': 20.0 * GIB, 'temporaries': None}, 'NO'),
    ],
)
def test_what_does_not_fit_is_seen(memory, cell):
    assert rows(analysed(**memory))['fits'] == [cell]


def test_rows_that_nothing_is_known_of_are_left_out():
    analysis = analysed(topology='cpu:4', limit=0.0, temporaries=None, outputs=None)
    have = rows(analysis, edge=Fit(None, None))
    assert set(have) == {'a chip', 'arguments', 'resident besides', 'total', 'FLOP'} | {
        'of them useful'
    }


def test_collectives_are_a_row_a_kind():
    collectives = {'all-gather': Traffic(1_200, 2.5e9)}
    costs = Costs(197e12, 819e9, collectives, 0)
    have = rows(analysed(costs=costs), analysed())
    assert have['all-gather'] == ['1,200 x, 2.5 GB', '-']
    assert have['memory traffic'] == ['819 GB', '-']


def test_bounds_are_those_of_the_slowest():
    costs = Costs(197e12, 2 * 819e9, {}, 0)
    have = rows(analysed(costs=costs))
    assert have['compute alone'] == ['1 s']
    assert have['memory alone'] == have['time, at least'] == ['2 s']
    assert have['network alone'] == ['0 ms']
    # Half of the FLOPs of two seconds of four chips are done, and half of them useful.
    assert have['of them useful'] == ['50 %']
    assert have['MFU, at most'] == ['25 %']
    assert have['tokens/s, at most'] == ['500']


def test_a_program_without_products_has_no_share_and_no_rate():
    costs = Costs(0.0, 819e9, {}, 0)
    idle = analysed('weights', costs=costs)
    program = dataclasses.replace(idle.program, useful_flops=0.0, num_tokens=0)
    have = rows(dataclasses.replace(idle, program=program), analysed(costs=costs))
    for label in ('of them useful', 'MFU, at most', 'tokens/s, at most'):
        assert have.get(label, ['-'])[0] == '-'
    assert have['time, at least'][0] == '1 s'


def test_a_line_of_progress_has_the_most_important_figures():
    costs = Costs(197e12, 819e9, {'all-gather': Traffic(2, 5e9)}, 0)
    line = table.progress(analysed(costs=costs))
    assert line.startswith('train: 6.00 GiB of 15.75 GiB, 197 TFLOP, ')
    assert line.endswith('819 GB of memory traffic, 5 GB received, at least 1 s')
    alone = analysed(topology='cpu:4', limit=0.0)
    assert table.progress(alone) == 'train: 6.00 GiB, 197 TFLOP'


def test_figures_of_a_chip_with_two_devices_are_those_of_a_device():
    assert 'a device' in rows(analysed(topology='tpu7x:2x2x1'))


@pytest.mark.parametrize(
    ('value', 'text'),
    [
        (0, '0 '),
        (12.34, '12.3 '),
        (999, '999 '),
        (999.6, '1 k'),
        (1.5e9, '1.5 G'),
        (2.345e15, '2.35 P'),
        (1e19, '1e+04 P'),
    ],
)
def test_numbers_have_three_figures_and_a_prefix(value, text):
    assert table.decimal(value) == text


def test_the_cells_of_a_row_are_as_many_as_programs():
    analyses = [analysed(), dataclasses.replace(analysed('score'))]
    have = table.plan_rows(analyses, [Fit(None, None)] * 2)
    assert {len(row) for row in have} == {3}
