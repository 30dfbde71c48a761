"""``experiments/interval.py``: differences by hand, and unreadable expressions."""

import numpy as np
import pytest

from experiments import interval
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows

# Arm, stage, and step -> values of the seeds.
PASSED = (
    ('one', '', {0: (0.1, 0.2), 50: (0.3, 0.5)}),
    ('two', '', {0: (0.1, 0.2), 50: (0.4, 0.8)}),
    ('short', '', {50: (0.3,)}),
    ('staged', '', {0: (0.1, 0.2), 300: (0.5, 0.6)}),
    ('staged', '_then', {0: (0.45, 0.55), 100: (0.7, 0.9)}),
)


@pytest.fixture
def results(tmp_path):
    rows = [
        {
            **{'arm': arm, 'run': f'{arm}_seed{3 + i}{stage}', 'seed': 3 + i},
            **{'split': split, 'step': step, 'pass_at_1': value},
        }
        for arm, stage, steps in PASSED
        for step, values in steps.items()
        for i, value in enumerate(values)
        for split in ('test', 'validation')
    ]
    for row in rows:
        if row['split'] == 'validation':
            row['pass_at_1'] += 10
    (tmp_path / 'mazes.jsonl.gz').write_bytes(compress_rows(rows))
    (tmp_path / 'mazes.configs.json').write_text('{}')
    return tmp_path


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('pass_at_1 of one in mazes', (0.3, 0.5)),
        ('pass_at_1 of one in mazes, validation', (10.3, 10.5)),
        ('pass_at_1 of two - one in mazes', (0.1, 0.3)),
        ('pass_at_1 of mazes/two - mazes/one', (0.1, 0.3)),
        ('pass_at_1 of two - two@0 in mazes', (0.3, 0.6)),
        ('pass_at_1 of 0.5 * one + 0.5 * two - one@0 in mazes', (0.25, 0.45)),
        ('pass_at_1 of two - short in mazes, seeds 3-3', (0.1,)),
        ('pass_at_1 of staged in mazes', (0.7, 0.9)),
        ('pass_at_1 of staged - staged@0 in mazes', (0.6, 0.7)),
        ('pass_at_1 of staged@400 - staged@300 in mazes', (0.2, 0.3)),
        (
            'pass_at_1 of two in mazes minus pass_at_1 of one@0 in mazes, validation',
            (-9.7, -9.4),
        ),
    ],
)
def test_a_difference_is_that_of_a_hand(text, expected, results):
    values = interval.evaluate(text, results=results)
    assert list(values) == [3, 4][: len(expected)]
    np.testing.assert_allclose([*values.values()], expected)


def test_it_is_printed_with_its_interval(results, capsys):
    interval.main(['pass_at_1 of two - one in mazes'], results=str(results))
    # Two seeds: .2 ± 12.7 standard errors of .1.
    line = '+.200 [-1.071, +1.471], 2 seeds: pass_at_1 of two - one in mazes\n'
    assert capsys.readouterr().out == line
    interval.main(['pass_at_1 of one in mazes, seeds 3-3'], results=str(results))
    assert capsys.readouterr().out.startswith('+.300, 1 seed: ')


def test_only_the_zero_before_the_point_is_left_out():
    text = interval.with_interval(np.array([20.1, 20.3]))
    assert text == '+20.200 [+18.929, +21.471]'
    assert interval.with_interval(np.array([-10.25])) == '-10.250'
    assert interval.with_interval(np.array([-0.25])) == '-.250'


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('one - two', 'must be MEASURE of TERMS'),
        ('pass_at_1 of one two in mazes', "' two' of 'one two' must begin with a term"),
        (
            'pass_at_1 of one in puzzles',
            r"puzzles.jsonl.gz is not there.* \['mazes'\]",
        ),
        ('pass_at_1 of three in mazes', 'has no pass_at_1 of three at step=0'),
        (
            'pass_at_1 of one@7 in mazes',
            "has no pass_at_1 of one at step=7 of split='t",
        ),
        ('pass_at_1 of one in mazes, seeds 3-9', r'the seeds \[3, 4\], and not \[5, 6'),
        ('pass_at_1 of one in mazes, seeds 4-3', 'has no seeds: give the smaller'),
        (
            'pass_at_1 of one in mazes minus pass_at_1 of one in mazes minus pass_at_1 '
            'of one in mazes',
            'must have one minus between two differences',
        ),
        ('entropy of one in mazes', r'no entropy of one .* for the seeds \[3, 4\]'),
        ('pass_at_1 of one - short in mazes', r'short has the seeds \[3\] .*\[3, 4\]'),
        (
            'pass_at_1 of one in mazes minus pass_at_1 of short in mazes',
            r'short in mazes has the seeds \[3\] .*\[3, 4\]',
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text, message, results):
    with pytest.raises(InputError, match=message):
        interval.evaluate(text, results=results)
