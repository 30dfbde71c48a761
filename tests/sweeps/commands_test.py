import pathlib
import shlex

import pytest

from passk_jax.errors import InputError
from passk_jax.sweeps import Arm, Stage
from passk_jax.sweeps.commands import runs_of
from tests.sweeps.declarations_test import make_sweep

ROOT = pathlib.Path('runs/mine')


def test_a_stage_goes_on_from_the_run_before():
    runs = runs_of(make_sweep(), ROOT, (0, 1))
    assert [run.name for run in runs] == [
        *('a_seed0', 'b_seed0', 'b_seed0_then'),
        *('a_seed1', 'b_seed1', 'b_seed1_then'),
    ]
    first, then = runs[1:3]
    assert (first.previous, first.last) == ('', False)
    assert (then.previous, then.last) == ('b_seed0', True)
    assert first.arguments == (
        '--config=tests/tiny.py',
        '--config.advantage.k=3',
        '--config.seed=0',
        '--workdir=runs/mine/b_seed0',
    )
    assert then.arguments == (
        '--config=tests/tiny.py',
        '--config.advantage.k=3',
        '--config.advantage.name=pass_at_1',
        '--config.init.kind=checkpoint',
        '--config.init.checkpoint=runs/mine/b_seed0',
        '--config.seed=0',
        '--workdir=runs/mine/b_seed0_then',
    )


def test_a_stage_may_have_another_config():
    stages = (Stage('then', {}, 'tests/other.py'), Stage('last', {}))
    arms = (Arm('a', 'A', 'tests/tiny.py', {'init.kind': 'scratch'}, stages),)
    runs = runs_of(make_sweep(arms=arms), ROOT, (0,))
    assert [run.arguments[0] for run in runs] == [
        '--config=tests/tiny.py',
        '--config=tests/other.py',
        '--config=tests/tiny.py',
    ]
    assert '--config.init.kind=checkpoint' in runs[1].arguments
    assert runs[2].previous == 'a_seed0_then'


def test_values_are_written_as_flags_are():
    values = {'log.tensorboard': True, 'task.params.test_counts': (7,), 'name': 'a b'}
    arms = (Arm('a', 'A', 'tests/tiny.py:x=1', values),)
    (run,) = runs_of(make_sweep(arms=arms), ROOT, (0,))
    assert shlex.split(run.command()) == [
        *('python', '-m', 'passk_jax.train', '--config=tests/tiny.py:x=1'),
        '--config.log.tensorboard=true',
        '--config.task.params.test_counts=(7,)',
        '--config.name=a b',
        '--config.seed=0',
        '--workdir=runs/mine/a_seed0',
    ]


def test_two_runs_of_one_name_are_refused():
    arms = (
        Arm('a', 'A', 'tests/tiny.py', {}, (Stage('seed1', {}),)),
        Arm('a_seed0', 'B', 'tests/tiny.py'),
    )
    with pytest.raises(InputError, match=r"called \['a_seed0_seed1'\]"):
        runs_of(make_sweep(arms=arms), ROOT, (0, 1))


def test_two_settings_of_one_name_are_refused():
    """The results of one would be refused as those of the other, hours later."""
    arms = (
        Arm('a', 'A', 'tests/tiny.py', {}, (Stage('then', {}),)),
        Arm('a_then', 'B', 'tests/tiny.py'),
    )
    with pytest.raises(InputError, match=r"setting \['a_then'\]: rename"):
        runs_of(make_sweep(arms=arms), ROOT, (0, 1))
    assert runs_of(make_sweep(arms=arms), ROOT, ()) == []
