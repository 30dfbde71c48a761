"""A run says so when its responses cannot teach anything."""

import dataclasses

import numpy as np
import pytest

from passk_jax.report import reporter, run_log
from passk_jax.rollouts.dynamic_sampling import Draw, Draws
from passk_jax.rollouts.verify import Responses
from passk_jax.train import make_log
from passk_jax.types import Verdicts
from tests import tiny
from tests.report.run_log_test import (
    make_draws,
    make_problems,
    make_responses,
    take_step,
)


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log from step 0, without pictures."""
    for name in ('write_curves', 'write_report'):
        monkeypatch.setattr(reporter, name, lambda run: None)
    return make_log(tiny.make_config(), tmp_path, 0)


def test_the_first_evaluation_says_that_it_has_no_signal(log, caplog):
    rows = [
        {
            'problem_id': i,
            'n': 2,
            'c': 0,
            'correct': [False, False],
            'parsed': ['', ''],
            'stopped': 1.0,
            'responses': {'1': 'I think so.'} if i else {},
        }
        for i in range(3)
    ]
    with log:
        log.evaluation(0, 'test', {'pass_at_1': 0.0}, rows)
        warning = 'test before step 0: no response of 6 has an answer'
        assert warning in caplog.text
        assert 'I think so.' in caplog.text
        caplog.clear()
        log.evaluation(10, 'test', {'pass_at_1': 0.0}, rows)
        assert not caplog.text
        # The rewards of wrong responses differ, with answers or without.
        rows = [row | {'reward': 0.25 * i} for i, row in enumerate(rows)]
        log.evaluation(0, 'test', {'pass_at_1': 0.0}, rows)
        rows = [row | {'parsed': ['A', 'A']} for row in rows]
        log.evaluation(0, 'test', {'pass_at_1': 0.0}, rows)
    assert not caplog.text


def silent_draws():
    nothing = np.zeros((4, 4), np.float32)
    wrong = Verdicts(nothing, nothing.astype(bool), [['L', 'R', '', '']] * 4)
    responses = dataclasses.replace(make_responses(), verdicts=wrong)
    return Draws(
        first := Draw(make_problems(), responses, nothing, nothing),
        first,
        False,
        (responses,),
    )


def test_the_first_step_and_twenty_in_a_row_say_that_they_have_no_signal(log, caplog):
    steps = {}
    with log:
        for step in range(45):
            # Step 3 has a signal.
            take_step(log, step, make_draws() if step == 3 else silent_draws())
            log.flush()
            messages = [record.getMessage() for record in caplog.records]
            steps |= dict.fromkeys(messages, step)
            caplog.clear()
    assert list(steps.values()) == [0, 23, 43]
    first, later, latest = steps
    assert first.startswith('after step 0: all 16 responses are wrong. Likely, ')
    assert "One response: 'R'" in first
    assert later.startswith('no signal in 20 steps up to step 23: all 16 ')
    assert latest.startswith('no signal in 40 steps up to step 43')


def test_different_rewards_of_wrong_responses_are_a_signal(log, caplog):
    draws = draws_of('pass_at_1', 0)
    (responses,) = draws.drawn
    graded = np.linspace(0, 0.5, 32, dtype=np.float32).reshape(4, 8)
    verdicts = dataclasses.replace(responses.verdicts, rewards=graded)
    responses = dataclasses.replace(responses, verdicts=verdicts)
    first = dataclasses.replace(draws.first, responses=responses, advantages=graded)
    with log:
        take_step(log, 0, Draws(first, first, False, (responses,)))
        log.flush()
    assert not [text for text in caplog.messages if text.startswith('after step 0')]


def draws_of(name, num_correct):
    """A step in which so many of 8 responses to each problem are right."""
    correct = np.broadcast_to(np.arange(8) < num_correct, (4, 8))
    rewards = correct.astype(np.float32)
    config = tiny.make_config(
        advantage__name=name, sampling__num_rollouts=8, advantage__k=4
    )
    advantages = tiny.make_setup(config).estimate().estimator(rewards, correct)
    texts, ones = [['R', 'L'] * 4] * 4, np.ones((4, 8), int)
    verdicts = Verdicts(rewards, correct, texts)
    responses = Responses(ones[:, 0], ones, ones == 1, ones, ones, texts, verdicts)
    first = Draw(make_problems(), responses, advantages, correct)
    return Draws(first, first, False, (responses,))


@pytest.mark.parametrize(
    ('name', 'num_correct', 'warning'),
    [
        # Two wrong responses are too few to fill a group of four.
        ('pass_at_k', 6, 'rewards differ, but every advantage that is trained is 0'),
        ('pass_at_1', 6, ''),
        # Wrong responses are punished without a comparison; right ones get 0.
        ('nsr', 0, ''),
        ('nsr', 8, 'all 32 responses are right'),
    ],
)
def test_advantages_decide_whether_a_step_has_a_signal(
    name, num_correct, warning, log, caplog
):
    draws = draws_of(name, num_correct)
    with log:
        for step in range(1, 21):
            take_step(log, step, draws)
        log.flush()
    texts = [text for text in caplog.messages if text.startswith('no signal in 20')]
    assert len(texts) == bool(warning)
    assert all(warning in text for text in texts)


def test_rewards_without_answers_are_a_signal_if_they_differ(log, caplog):
    wrong, unread = np.zeros((4, 4), bool), [[''] * 4] * 4
    with log:
        for low in (0.5, 0.0):
            rewards = np.array([[0.5, low, low, low]] * 4, np.float32)
            verdicts = Verdicts(rewards, wrong, unread)
            responses = dataclasses.replace(make_responses(), verdicts=verdicts)
            first = Draw(make_problems(), responses, rewards, rewards)
            take_step(log, 0, Draws(first, first, False, (responses,)))
            log.flush()
            assert ('no response of 16 has an answer' in caplog.text) == (low == 0.5)
            caplog.clear()


@pytest.mark.parametrize('pack_sizes', [0, 2])
def test_many_pads_are_named_once_where_nothing_is_packed(
    tmp_path, monkeypatch, pack_sizes
):
    texts = []
    monkeypatch.setattr(
        run_log.logging, 'info', lambda text, *values: texts.append(text % values)
    )
    for name in ('write_curves', 'write_report'):
        monkeypatch.setattr(reporter, name, lambda run: None)
    config = tiny.make_config(train__pack_sizes=pack_sizes)
    with make_log(config, tmp_path, 0) as log:
        for step in range(3):
            take_step(log, step)
        log.flush()
    advice = [text for text in texts if "train.packing='rows'" in text]
    assert len(advice) == (pack_sizes == 0)
    assert all(text.startswith('50 % of the positions') for text in advice)
