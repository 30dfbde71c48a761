"""Responses come to the host whole, as text, and with their verdicts."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sampling
from passk_jax.data.batches import PromptBatch
from passk_jax.rollouts.verify import answer_ids, records
from passk_jax.sampling.scheduled.hand_over import gather
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.types import Problem, Prompts, Rollouts, Verdicts
from tests import tiny

MAZE = 'S.E\n...\n***'
TEXTS = [['RR', 'DRRU', 'R', ''], ['U', 'RRR', 'L', 'DD']]


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(tiny.make_config())


def make_problems():
    return [
        Problem(id=id, prompt=MAZE + '\n', data={'maze': MAZE}, category='3x3')
        for id in (7, 9)
    ]


def make_rollouts(setup, *, garbage=0):
    """Rollouts of ``TEXTS``; what stands behind a response is ``garbage``."""
    tokens = np.full((2, 4, 5), garbage, np.int32)
    lengths = np.zeros((2, 4), np.int32)
    stopped = np.ones((2, 4), bool)
    stopped[0, 1] = False  # Cut off by the limit: no stop token.
    for p, row in enumerate(TEXTS):
        for n, text in enumerate(row):
            ids = setup.tokenizer.encode(text, add_special_tokens=False)
            ids += [setup.stop_tokens[0]] * bool(stopped[p, n])
            tokens[p, n, : len(ids)] = ids
            lengths[p, n] = len(ids)
    inside = np.arange(5) < lengths[..., None]
    values = np.arange(40, dtype=np.float32).reshape(2, 4, 5) * inside
    prompts = Prompts(np.zeros((2, 12), np.int32), np.array([12, 11]), np.array([7, 9]))
    return Rollouts(
        prompts=prompts,
        tokens=tokens,
        lengths=lengths,
        stopped=stopped,
        sampler_log_probs=-values,
        untruncated_log_probs=-2 * values,
        entropies=3 * values,
    )


def sample(setup, rollouts):
    batch = PromptBatch(make_problems(), rollouts.prompts)
    return setup.sample()({}, batch, key=jax.random.key(0))


def responses_to(setup, rollouts, *, step=0):
    """What the host learns when these rollouts are sampled."""

    def give(policy, params, prompts, *, on_ended, **settings):
        on_ended(gather(rollouts, np.ones((2, 4), bool)))
        return rollouts

    with mock.patch.object(sampling, 'sample', give):
        sampled = sample(setup, rollouts)
    assert sampled.rollouts is rollouts
    return setup.sample().verify(sampled, step=step)


def test_responses_are_read_and_verified(setup):
    responses = responses_to(setup, make_rollouts(setup))
    assert responses.texts == TEXTS
    correct = [[True, True, False, False], [False, False, False, False]]
    np.testing.assert_array_equal(responses.verdicts.correct, correct)
    np.testing.assert_array_equal(responses.verdicts.rewards, np.array(correct, float))
    np.testing.assert_array_equal(responses.prompt_lengths, [12, 11])
    np.testing.assert_array_equal(responses.lengths, [[3, 4, 2, 1], [2, 4, 2, 3]])


def test_means_are_over_the_tokens_of_a_response(setup):
    responses = responses_to(setup, make_rollouts(setup))
    # Row 0 of the figures is 0, 1, 2; row 2 is 10, 11.
    assert responses.mean_log_probs[0, 0] == -1
    assert responses.mean_log_probs[0, 2] == -10.5
    assert responses.mean_entropies[0, 2] == 31.5


def test_what_stands_behind_a_response_is_not_read(setup):
    clean = responses_to(setup, make_rollouts(setup))
    move = setup.tokenizer.encode('R', add_special_tokens=False)[0]
    dirty = responses_to(setup, make_rollouts(setup, garbage=move))
    assert dirty.texts == clean.texts
    np.testing.assert_array_equal(dirty.verdicts.correct, clean.verdicts.correct)


@pytest.mark.parametrize('reward', [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_not_finite_is_an_error_with_the_problems_id(
    reward, setup, monkeypatch
):
    def verify(self, problems, responses):
        rewards = np.zeros((len(problems), 1), np.float32)
        rewards[7] = reward
        return Verdicts(rewards, rewards > 0, responses)

    monkeypatch.setattr(MazeTask, 'verify', verify)
    message = (
        rf"task 'maze' gave the reward {reward} to rollout 3 of problem 9 at step 6"
    )
    with pytest.raises(ValueError, match=message):
        responses_to(setup, make_rollouts(setup), step=6)


@pytest.mark.parametrize(('wrong', 'paid'), [(-1.0, -1.0), (0.0, 0.0), (0.1, 0.0)])
def test_a_failure_is_worth_no_more_than_another_response(
    wrong, paid, setup, monkeypatch
):
    # A right, a wrong and a failed response; and a problem without a wrong one.
    rewards = np.array([[1, wrong, 0, 1], [0, 1, 1, 1]], np.float32)
    failed = np.array([[0, 0, 1, 0], [1, 0, 0, 0]], bool)

    def verify(self, problems, responses):
        values, kinds = rewards.reshape(8, 1), {'timeouts': failed.reshape(8, 1)}
        return Verdicts(values, values == 1, [['']] * 8, kinds)

    monkeypatch.setattr(MazeTask, 'verify', verify)
    verdicts = responses_to(setup, make_rollouts(setup)).verdicts
    expected = np.array([[1, wrong, paid, 1], [0, 1, 1, 1]], np.float32)
    np.testing.assert_array_equal(verdicts.rewards, expected)


def test_progress_is_told_while_others_decode(setup):
    rollouts, on_progress = make_rollouts(setup), mock.Mock()
    first = np.array([[True] * 4, [False] * 4])

    def give(policy, params, prompts, *, on_ended, **settings):
        on_ended(gather(rollouts, first))
        assert on_progress.call_count == 1
        on_ended(gather(rollouts, ~first))
        return rollouts

    def run():
        batch = PromptBatch(make_problems(), rollouts.prompts)
        key = jax.random.key(0)
        with mock.patch.object(sampling, 'sample', give):
            return setup.sample()({}, batch, key=key, on_progress=on_progress)

    run().verification.close()
    assert on_progress.call_count == 1
    on_progress.side_effect = KeyError('stop')
    with pytest.raises(KeyError, match='stop'):
        run()


def test_infinity_in_the_data_is_text(setup):
    responses = responses_to(setup, make_rollouts(setup))
    data = {'maze': MAZE, 'record': {'scores': [-np.inf, 1.5], 'nan': np.nan}}
    problems = [dataclasses.replace(problem, data=data) for problem in make_problems()]
    figures = {'advantages': np.zeros((2, 4)), 'rewarded': np.zeros((2, 4), bool)}
    row, *_ = records(problems, responses, step=3, **figures)
    assert row['data']['record']['scores'] == ['-inf', 1.5]
    assert np.isnan(row['data']['record']['nan'])


def test_a_record_holds_what_a_person_asks_of_a_rollout(setup):
    problems = make_problems()
    responses = responses_to(setup, make_rollouts(setup))
    advantages = np.arange(8, dtype=np.float32).reshape(2, 4)
    figures = {'advantages': advantages, 'rewarded': advantages > 6}
    rows = records(problems, responses, step=3, **figures)
    assert [row['problem_id'] for row in rows] == [7] * 4 + [9] * 4
    assert [row['rollout'] for row in rows] == [0, 1, 2, 3] * 2
    assert [row['response'] for row in rows] == TEXTS[0] + TEXTS[1]
    assert rows[1] == {
        'step': 3,
        'problem_id': 7,
        'category': '3x3',
        'prompt': MAZE + '\n',
        'data': {'maze': MAZE},
        'rollout': 1,
        'response': 'DRRU',
        'parsed': 'DRRU',
        'correct': True,
        'rewarded': False,
        'reward': 1.0,
        'advantage': 1.0,
        'length': 4,
        'stopped': False,
        'mean_log_prob': -6.5,
        'mean_entropy': 19.5,
    }


def test_equal_answers_to_a_problem_have_equal_numbers():
    got = answer_ids([['b', 'a', 'b', ''], ['b', '', '', 'b']])
    assert got.dtype == np.int32
    assert got.tolist() == [[0, 1, 0, 3], [0, 1, 1, 0]]
