"""A run that is made longer is the run that would have been longer from the start."""

import json
import shutil

import pytest

from tests import tiny
from tests.slow import slow_values

LAST = 5


@pytest.fixture
def workdir(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / 'run')


@pytest.mark.parametrize('steps', slow_values([6, 8], quick=[6]))
def test_a_finished_run_made_longer_equals_one_of_that_length(
    finished_run, workdir, tmp_path, steps
):
    config = tiny.make_config(train__steps=steps)
    uninterrupted = tiny.warm_copy(finished_run, tmp_path / 'whole')
    assert tiny.run(config, uninterrupted)
    assert tiny.run(config, workdir)
    tiny.assert_same_run(workdir, uninterrupted, last=steps)
    texts = [(path / 'config.json').read_text() for path in (workdir, uninterrupted)]
    assert texts[0] == texts[1]


def test_a_run_cannot_be_made_shorter(workdir):
    assert tiny.run(tiny.make_config(train__steps=6), workdir)
    words = (
        r'^train\.steps=5 is less than the 6 of the run in .*, and a run can only grow'
    )
    with pytest.raises(ValueError, match=words):
        tiny.run(tiny.make_config(), workdir)
    with pytest.raises(ValueError, match=r'(?s)another config.*steps: 6 there, 5 now'):
        tiny.run(tiny.make_config(seed=1), workdir)


@pytest.mark.parametrize('schedule', ['linear', 'cosine'])
def test_a_schedule_that_spans_the_steps_forbids_more_in_one_line(workdir, schedule):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    values['optimizer']['schedule'] = schedule
    path.write_text(before := json.dumps(values))
    config = tiny.make_config(train__steps=6, optimizer__schedule=schedule)
    message = (
        rf'^train\.steps=6 would make the run in .* longer than its 5, but '
        rf"optimizer\.schedule='{schedule}' spans the updates of all steps: choose "
        r'another workdir$'
    )
    with pytest.raises(ValueError, match=message):
        tiny.run(config, workdir)
    assert path.read_text() == before


def test_a_schedule_of_an_earlier_stage_forbids_nothing(tmp_path):
    """The last stage has a new optimizer, and a constant rate."""
    late = {'start': 2, 'reset_optimizer': True, 'optimizer': {'schedule': 'constant'}}
    changes = tiny.ONLY_STEPS | {'optimizer__schedule': 'linear'}
    configs = [
        tiny.make_config(train__steps=steps, stages={'late': late}, **changes)
        for steps in (3, 4)
    ]
    for config in configs:
        assert tiny.run(config, tmp_path / 'a')
    assert tiny.run(configs[1], tmp_path / 'b')
    tiny.assert_same_run(tmp_path / 'a', tmp_path / 'b', last=4)


def test_more_steps_and_another_seed_are_another_run(workdir):
    with pytest.raises(ValueError, match=r'another config.*\n  seed: 0 there, 1 now'):
        tiny.run(tiny.make_config(train__steps=6, seed=1), workdir)
