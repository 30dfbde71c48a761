"""The first problem and its gold, before a run."""

import dataclasses

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.config import TaskConfig
from passk_jax.data.batches import read_problems
from passk_jax.models.tokenizer import character_tokenizer, encode_prompt
from passk_jax.setup import first_problem
from passk_jax.tasks.task import ASCII
from passk_jax.types import Turn, Verdicts
from tests import tiny
from tests.tasks.custom_class_test import GOOD
from tests.tasks.math import toy
from tests.tasks.toy import LastDigit
from tests.tasks_test import FILES, SMALL


@pytest.fixture
def messages(monkeypatch):
    """What the run says; TFDS changes the level of the real log."""
    texts = []

    def say(message, *values):
        texts.append(message % values)

    monkeypatch.setattr(first_problem.logging, 'info', say)
    return texts


def tokenizer():
    text_tokenizer = character_tokenizer(f'{ASCII}※')
    text_tokenizer.chat_template = (
        '{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}> '
    )
    return text_tokenizer


def show(task, problems):
    text_tokenizer = tokenizer()

    def encode(problem):
        return encode_prompt(text_tokenizer, problem.prompt, turns=problem.turns)

    limits = {'max_prompt_tokens': 10_000, 'overlong': 'drop'}
    read = read_problems(problems, encode, **limits)
    if error := first_problem.show_first_problem(
        task, read, text_tokenizer, split='training'
    ):
        raise ValueError(error)


def math_problems(tmp_path, *records):
    toy.write(tmp_path, train=list(records))
    params = toy.PARAMS | {'problem_field': 'problem'}
    task = tasks.make_task('math', params)
    return task, task.source('train', data_dir=str(tmp_path))


def test_the_prompt_is_shown_as_the_policy_reads_it(tmp_path, messages):
    chat = [Turn('system', 'Be brief.')._asdict(), Turn('user', '1+1?')._asdict()]
    task, problems = math_problems(tmp_path, {'problem': chat, 'answer': 'so\n#### 2'})
    show(task, problems)
    assert '[system] Be brief.\n[user] Please reason step by step' in messages[-1]
    assert '\n\n1+1?\n> \n' in messages[-1]
    assert 'judged right:\n\\boxed{2}' in messages[-1]


def test_a_gold_that_is_judged_wrong_stops_the_run(tmp_path):
    # A brace too many, so that the box ends early.
    task, problems = math_problems(tmp_path, {'problem': 'p', 'answer': '7}'})
    with pytest.raises(ValueError, match=r'problem 0 of math_train: its gold .* wrong'):
        show(task, problems)


def test_the_first_problem_of_every_category_is_judged(monkeypatch, messages):
    monkeypatch.setitem(tasks.TASKS, 'last_digit', 'tests.tasks.toy:LastDigit')
    task = tasks.make_task('last_digit', {})
    problems = task.source('train', data_dir='')
    show(task, problems)
    assert 'no right response that could be judged' in messages[-1]
    answers = {'even': '0', 'odd': '2'}
    monkeypatch.setattr(
        LastDigit,
        'right_response',
        lambda self, problem: answers[problem.category],
        raising=False,
    )
    with pytest.raises(ValueError, match=r'problem 1 of odd: .*another digit'):
        show(task, problems)


@pytest.mark.parametrize('name', ['math', 'korbench', 'maze', 'enigmata', 'mixture'])
def test_the_golds_of_the_tasks_are_right(tmp_path, name, messages):
    FILES.get(name, lambda directory: None)(tmp_path)
    task = tasks.make_task(name, SMALL[name])
    show(task, task.source('train', data_dir=str(tmp_path)))
    assert 'judged right:' in messages[-1]


@pytest.mark.parametrize('kind', ['timeouts', 'crashes', 'parse_failures'])
def test_a_verifier_that_fails_is_no_verdict(kind, tmp_path, monkeypatch, messages):
    task, problems = math_problems(tmp_path, {'problem': 'p', 'answer': '7'})
    failed = np.ones((1, 1), bool)
    verdicts = Verdicts(np.zeros((1, 1)), ~failed, [['']], {kind: failed})
    monkeypatch.setattr(type(task), 'verify', lambda *_: verdicts)
    if kind == 'parse_failures':
        with pytest.raises(ValueError, match='is judged wrong'):
            show(task, problems)
    else:
        show(task, problems)
        assert 'no right response that could be judged' in messages[-1]


@pytest.mark.parametrize(('shared', 'number'), [(True, 1), (False, 0)])
def test_an_own_task_that_evaluates_what_it_trains_on_warns(
    shared, number, elsewhere, monkeypatch
):
    texts = []

    def warn(message, *values):
        texts.append(message % values)

    monkeypatch.setattr(first_problem.logging, 'warning', warn)
    text = GOOD.replace('    splits', "    alphabet = 'Say .?'\n    splits")
    if not shared:
        text = text.replace("'Say a.'", "'Say a.' if split == 'train' else 'Say a?'")
    (elsewhere / 'own.py').write_text(text)
    changes = {'eval.split': 'test', 'eval.final_split': 'test', 'init.kind': 'scratch'}
    config = tiny.make_config(**changes)
    config = dataclasses.replace(config, task=TaskConfig('own.py:Mine', {}))
    setup = tiny.make_setup(config)
    splits = {'test': setup.evaluation_batches('test')}
    first_problem.announce(setup, splits, is_new=True)
    about_it = [text for text in texts if 'the training problems have' in text]
    assert len(about_it) == number
    assert all("have 1 of the 1 problems of split 'test'" in text for text in about_it)


def test_a_policy_of_other_tokens_is_no_beginning(tmp_path):
    beginning = {'init__kind': 'checkpoint', 'init__checkpoint': str(tmp_path)}
    setup = tiny.make_setup(tiny.make_config(**beginning, stage=1))
    first_problem.announce(setup, {}, is_new=True)
    setup.tokenizer.save_pretrained(tmp_path / 'tokenizer')
    first_problem.announce(setup, {}, is_new=True)
    # As many tokens, of which one has another character.
    alphabet = setup.task.alphabet.replace('U', 'X')
    character_tokenizer(alphabet).save_pretrained(tmp_path / 'tokenizer')
    message = rf"{tmp_path}' was trained with other tokens: 'U' has the id None there"
    with pytest.raises(ValueError, match=message):
        first_problem.announce(setup, {}, is_new=True)
    first_problem.announce(setup, {}, is_new=False)
