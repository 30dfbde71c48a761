"""An ability is found where it is used; without it an error names who asked for it."""

import dataclasses
import re
from unittest import mock

import pytest

from passk_jax import plan, tasks, train
from passk_jax.config import TaskConfig
from passk_jax.initial import warm_start
from passk_jax.setup import setup
from passk_jax.tasks import abilities
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.tasks.task import NoParams
from tests import tiny
from tests.tasks.toy import LastDigit, LastDigitInCharacters

EVERY = (
    abilities.Alphabet,
    abilities.Demonstrations,
    abilities.Drawing,
    abilities.LengthCheck,
    abilities.OfficialVerdict,
)


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    for toy in (LastDigit, LastDigitInCharacters):
        monkeypatch.setitem(tasks.TASKS, toy.name, f'tests.tasks.toy:{toy.__name__}')


def config_of(task, **overrides):
    config = tiny.make_config(eval__split='test', **overrides)
    return dataclasses.replace(config, task=TaskConfig(task.name, {}))


def list_tasks_with(member: str) -> str:
    """The tasks with this member, as a message lists them; two of them are."""
    names = [x for x in sorted(tasks.TASKS) if hasattr(tasks.task_class(x), member)]
    assert {'maze', 'enigmata'} < {*names} < {*tasks.TASKS}
    return re.escape(str(names))


@pytest.mark.parametrize(
    ('task', 'abilities'),
    [(MazeTask, EVERY), (LastDigit, ()), (LastDigitInCharacters, EVERY[:1])],
)
def test_a_task_has_the_abilities_that_it_defines(task, abilities):
    assert tuple(ability for ability in EVERY if isinstance(task, ability)) == abilities


@pytest.mark.parametrize('make', [setup.make_setup, plan._vocab_size])
def test_a_tokenizer_of_characters_needs_an_alphabet(make):
    message = (
        "model.tokenizer='characters' needs .* Alphabet, which task 'last_digit' "
        f'lacks; .*{list_tasks_with("alphabet")}'
    )
    with pytest.raises(ValueError, match=message):
        make(config_of(LastDigit, init__kind='scratch'))


def test_a_warm_start_needs_demonstrations_and_says_so_before_devices():
    message = (
        "init.kind='warm_start' needs .* Demonstrations, which task "
        f"'last_digit_in_characters' lacks; .*{list_tasks_with('demonstration')}"
    )
    config = config_of(LastDigitInCharacters)
    no_devices = mock.patch('jax.devices', side_effect=AssertionError)
    with no_devices, pytest.raises(ValueError, match=message):
        train.check_names(config)
    # Without a warm start nothing asks for them.
    train.check_names(config_of(LastDigitInCharacters, init__kind='scratch'))
    # The stage itself asks too, for whoever calls it without that check.
    task = LastDigitInCharacters(NoParams())
    data = mock.Mock(task=task, max_response_tokens=3)
    with pytest.raises(ValueError, match=message):
        warm_start.WarmStartData.tokens(data, [])


def test_a_task_without_a_length_check_takes_any_length():
    config = config_of(LastDigitInCharacters, init__kind='scratch')
    sampling = dataclasses.replace(config.sampling, max_response_tokens=1)
    setup = tiny.make_setup(dataclasses.replace(config, sampling=sampling))
    assert setup.task == LastDigitInCharacters(NoParams())


def test_a_task_without_a_drawing_has_none():
    assert tasks.drawing_of('last_digit') is None
    assert tasks.drawing_of('of another version') is None
    assert tasks.drawing_of('enigmata') is not None
    assert 'maze right' in tasks.drawing_of('maze')({'maze': 'S.E'}, 'RR', correct=True)
