"""Golds that the verifier cannot parse, before a run."""

import dataclasses

import pytest

from configs import base
from passk_jax import tasks
from passk_jax.setup.golds import check_golds
from passk_jax.tasks import mixture
from tests import tiny
from tests.tasks.math import toy

BAD = ('x^', r'\frac{', 'We add all of them and then we halve that.')


def problems_of(tmp_path, golds):
    records = [{'problem': f'p{i}', 'answer': gold} for i, gold in enumerate(golds)]
    toy.write(tmp_path, train=records)
    task = tasks.make_task('math', toy.PARAMS)
    return task, task.source('train', data_dir=str(tmp_path))


def test_golds_above_the_share_are_refused_and_three_are_shown(tmp_path):
    task, problems = problems_of(tmp_path, ['1', '2', *BAD, '3', '4', 'y^'])
    with pytest.raises(ValueError, match='golds') as raised:
        check_golds(task, problems, split='train', max_share=0.4)
    message = str(raised.value)
    assert message.startswith('train problems: 4 of 8 golds of math_train cannot be')
    assert all(repr(gold) in message for gold in BAD)
    assert "'y^'" not in message
    assert 'task.params.answer_field' in message
    assert 'verifier.max_unparsed_golds=0.4 to at least 0.5' in message


def test_golds_below_the_share_are_counted(tmp_path, caplog):
    task, problems = problems_of(tmp_path, ['1', '2', 'x^', '3'])
    check_golds(task, problems, split='train', max_share=0.25)
    assert '1 of 4 golds of math_train cannot be parsed' in caplog.text
    assert "'x^'" in caplog.text


def test_good_golds_and_tasks_without_golds_pass_in_silence(tmp_path, caplog):
    task, problems = problems_of(tmp_path, ['1', r'\frac12', r'\text{even}'])
    check_golds(task, problems, split='train', max_share=0.0)
    maze = tasks.make_task('maze', tasks.task_class('maze').about.example)
    check_golds(maze, problems, split='train', max_share=0.0)
    assert not caplog.text


def test_a_mixture_checks_its_parts(tmp_path):
    toy.write(tmp_path, train=[{'problem': 'p', 'answer': 'x^'}])
    parts = {
        'maths': {'weight': 1, 'task': 'math', 'params': dict(toy.PARAMS)},
        'mazes': {
            'weight': 1,
            'task': 'maze',
            'params': dict(tiny.make_config().task.params),
        },
    }
    task = mixture.MixtureTask(mixture.MixtureParams(parts=parts))
    problems = task.source('train', data_dir=str(tmp_path))
    assert [problems[i].data['task'] for i in task.unparsed_golds(problems)] == ['math']


def test_a_run_refuses_bad_golds_as_it_reads_them(tmp_path):
    toy.write(tmp_path, train=[{'problem': 'p', 'answer': 'x^'}])
    for share, refused in ((0.01, True), (1.0, False)):
        config = tiny.make_config(
            data__dir=str(tmp_path), verifier__max_unparsed_golds=share
        )
        setup = dataclasses.replace(
            tiny.make_setup(config), task=tasks.make_task('math', toy.PARAMS)
        )
        assert len(setup.problems('validation')) == 1
        if refused:
            with pytest.raises(ValueError, match='1 of 1 golds of math_train'):
                setup.problems('train')
        else:
            assert len(setup.problems('train')) == 1


def test_the_default_allows_one_gold_of_a_hundred():
    assert base.get_config().verifier.max_unparsed_golds == 0.01
