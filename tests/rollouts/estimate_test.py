"""The advantages of a step; tests/train_test.py trains with them."""

import dataclasses

import jax
import numpy as np
import pytest

from passk_jax import sampling
from passk_jax.advantages import ESTIMATORS
from passk_jax.errors import InputError
from passk_jax.rollouts import estimate
from passk_jax.sampling import Purpose
from passk_jax.types import Verdicts
from tests import changed, tiny, train_wiring_test
from tests.train_test import make_batch

STEP = 3


def off_its_batch():
    """A batch whose lengths, entropies and log-probabilities are all unequal."""
    rollouts, responses = make_batch()
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, (8, 4)).astype(np.int32)
    inside = np.arange(5) < lengths[..., None]
    log_probs = np.where(inside, -rng.uniform(size=inside.shape), 0)
    rollouts = dataclasses.replace(
        rollouts,
        lengths=lengths,
        entropies=np.where(inside, rollouts.entropies, 0),
        sampler_log_probs=log_probs.astype(np.float32),
        untruncated_log_probs=2 * log_probs.astype(np.float32),
    )
    return rollouts, responses


@pytest.mark.parametrize('flip_wrong', [0.0, 0.25])
def test_an_estimator_gets_every_input(flip_wrong):
    """The arrays of the batch, and keys of seed, step, purpose and problem."""

    @dataclasses.dataclass(frozen=True)
    class Estimator:
        name: str = 'pass_at_1'

        def __call__(self, rewards, correct, **inputs):
            return {'rewards': rewards, 'correct': correct, **inputs}

    setup = tiny.make_setup(
        changed.make_config(sampling__num_rollouts=4, reward__flip_wrong=flip_wrong)
    )
    rollouts, responses = off_its_batch()
    verb = dataclasses.replace(setup.estimate(), estimator=Estimator())
    got, rewarded = verb(
        rollouts, responses, memory={'history': np.arange(3)}, step=STEP
    )

    def keys(purpose):
        key = sampling.step_key(seed=17, stage=3, purpose=purpose, step=STEP)
        return sampling.problem_keys(key, np.arange(8))

    assert train_wiring_test.same_key(got.pop('key'), keys(Purpose.GROUPS))
    rewards, correct = responses.verdicts.rewards, responses.verdicts.correct
    if flip_wrong:
        draw = jax.vmap(lambda key: jax.random.uniform(key, (4,)))
        noise = np.asarray(draw(keys(Purpose.REWARD_NOISE)))
        flipped = ~correct & (noise < flip_wrong)
        assert flipped.any()
        rewards, correct = np.where(flipped, 1.0, rewards), correct | flipped
    lengths, entropies = rollouts.lengths, rollouts.entropies
    expected = {
        'rewards': rewards,
        'correct': correct,
        'lengths': lengths,
        # Over tokens: the mean of the responses' means would be another.
        'mean_entropy': entropies.sum(axis=(1, 2)) / lengths.sum(axis=1),
        'log_probs': rollouts.sampler_log_probs.sum(axis=-1),
        'answers': [[row.index(x) for x in row] for row in responses.verdicts.parsed],
        'history': np.arange(3),
    }
    assert len(np.unique(expected['answers'])) > 2
    np.testing.assert_array_equal(rewarded, correct)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)


RIGHT = np.array([[True, True, False, False]])


@pytest.mark.parametrize(
    ('paid', 'message'),
    [
        (
            [1.0, 0.8, 0.0, 0.0],
            r'right responses have the rewards \[0\.8, 1\] and wrong',
        ),
        (
            [1.0, 1.0, 0.1, 0.0],
            r'wrong responses have the rewards \[0, 0\.1\], but advantage\.name=',
        ),
        # Paid the wrong way round, or alike.
        ([0.0, 0.0, 1.0, 1.0], r'rewards \[0\] and wrong .* \[1\], but'),
        ([0.3, 0.3, 0.3, 0.3], r'rewards \[0\.3\] and wrong .* \[0\.3\], but'),
    ],
)
@pytest.mark.parametrize('name', ESTIMATORS)
def test_rewards_that_an_estimator_would_ignore_are_refused(name, paid, message):
    paid = np.array([paid])
    if 'rewards' in ESTIMATORS[name].reads:
        estimate.check_rewards(name, paid, RIGHT)
        return
    with pytest.raises(InputError, match=message) as raised:
        estimate.check_rewards(name, paid, RIGHT)
    assert f"advantage.name='{name}' reads only which are right" in str(raised.value)
    readers = [name for name, row in ESTIMATORS.items() if 'rewards' in row.reads]
    assert f'choose one of {readers}' in str(raised.value)


def test_the_reward_of_a_failure_is_no_third_one():
    setup = tiny.make_setup(tiny.make_config(sampling__num_rollouts=4))
    rollouts, responses = make_batch()
    correct = np.tile([True, False, False, True], (8, 1))
    rewards = np.where(correct, 1.0, -1.0).astype(np.float32)
    failed = np.zeros_like(correct)
    failed[0, 1], rewards[0, 1] = True, -2.0
    parsed = [['a', 'b', 'c', 'd']] * 8
    verdicts = Verdicts(rewards, correct, parsed, {'timeouts': failed})
    verb = setup.estimate()
    verb(rollouts, dataclasses.replace(responses, verdicts=verdicts), memory={}, step=1)
    verdicts = dataclasses.replace(verdicts, failures={})
    responses = dataclasses.replace(responses, verdicts=verdicts)
    with pytest.raises(InputError, match=r'wrong responses have the rewards \[-2, -1'):
        verb(rollouts, responses, memory={}, step=1)


def test_a_message_names_no_rewards_of_responses_that_are_not_there():
    wrong = np.zeros((1, 2), bool)
    words = r'^wrong responses have the rewards \[0, 0\.5\], but'
    with pytest.raises(InputError, match=words):
        estimate.check_rewards('pass_at_k', np.array([[0, 0.5]]), wrong)


@pytest.mark.parametrize('paid', [(1, 0), (1, -1), (0.2, 0.1), (5, -3)])
def test_two_rewards_in_line_with_the_verdicts_are_taken(paid):
    rewards = np.where(RIGHT, *paid)
    for correct in (RIGHT, np.ones_like(RIGHT), np.zeros_like(RIGHT)):
        estimate.check_rewards('pass_at_k', np.where(correct, *paid), correct)
    if paid == (1, 0):
        estimate.check_rewards('pass_at_1', rewards, RIGHT, flip_wrong=0.1)
        return
    with pytest.raises(InputError, match=r'but reward\.flip_wrong=0\.1 needs 1 and 0'):
        estimate.check_rewards('pass_at_1', rewards, RIGHT, flip_wrong=0.1)


def test_a_step_is_refused_whose_rewards_would_be_ignored():
    setup = tiny.make_setup(tiny.make_config(sampling__num_rollouts=4))
    rollouts, responses = make_batch()
    verdicts = responses.verdicts
    shaped = verdicts.rewards + np.linspace(0, 0.1, 32).reshape(8, 4)
    verdicts = dataclasses.replace(verdicts, rewards=shaped.astype(np.float32))
    responses = dataclasses.replace(responses, verdicts=verdicts)
    name = setup.config.advantage.name
    with pytest.raises(InputError, match=f"advantage.name='{name}' reads only"):
        setup.estimate()(rollouts, responses, memory={}, step=STEP)
