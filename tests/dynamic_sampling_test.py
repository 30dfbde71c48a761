"""Problems without a signal make room, in order, once each, and resumably."""

from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import train
from passk_jax.dynamic_sampling import Draw, has_signal, merge, refill
from passk_jax.rollout import Answers
from passk_jax.types import Problem, Prompts, Rollouts, Verdicts
from tests import tiny

P, N, T = 4, 3, 5


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(tiny.make_config())


def make_draw(ids, num_correct):
    """Every value of a row says whose it is: the problem's id."""
    ids = np.array(ids, np.int32)
    correct = np.arange(N) < np.array(num_correct)[:, None]
    of_rollout = np.broadcast_to(ids[:, None], (P, N))
    of_token = np.broadcast_to(ids[:, None, None], (P, N, T)).astype(np.float32)
    prompts = Prompts(np.repeat(ids[:, None], 6, axis=1), ids, ids)
    rollouts = Rollouts(
        prompts=prompts,
        tokens=of_token.astype(np.int32),
        lengths=of_rollout,
        stopped=of_rollout % 2 == 0,
        sampler_log_probs=of_token,
        untruncated_log_probs=of_token,
        entropies=of_token,
    )
    texts = [[str(i)] * N for i in ids]
    verdicts = Verdicts(correct.astype(np.float32), correct, texts)
    means = of_rollout.astype(np.float32)
    answers = Answers(of_rollout, of_rollout % 2 == 0, means, means, texts, verdicts)
    problems = [Problem(int(i), str(i), {}, '') for i in ids]
    return Draw(problems, jax.tree.map(jax.numpy.asarray, rollouts), answers)


def estimate(draw):
    rewards = draw.answers.verdicts.rewards
    return jax.numpy.asarray(rewards - rewards.mean(axis=1, keepdims=True))


def run(setup, first, *extra, max_rounds=None):
    """The ids of the filled batch, and what ``refill`` gives."""
    asked = []

    def draw(r):
        asked.append(r)
        return extra[r - 1]

    limit = len(extra) if max_rounds is None else max_rounds
    batch, advantages, values = refill(setup, first, estimate, draw, max_rounds=limit)
    assert asked == list(range(1, len(asked) + 1))
    np.testing.assert_array_equal(advantages, estimate(batch))
    return [problem.id for problem in batch.problems], batch, values


def test_places_without_a_signal_are_filled_in_order(setup):
    first = make_draw([1, 2, 3, 4], [0, 1, 3, 2])
    extra = make_draw([5, 6, 7, 8], [3, 2, 1, 1])
    ids, _, values = run(setup, first, extra)
    assert ids == [6, 2, 7, 4]
    assert values == {
        'sampling_rounds': 2,
        'problems_with_signal': 4,
        'drawn_with_signal': 5 / 8,
        'drawn_reward': pytest.approx(13 / 24),
    }


def test_a_full_batch_draws_no_more(setup):
    first = make_draw([1, 2, 3, 4], [1, 1, 2, 2])
    ids, batch, values = run(setup, first, max_rounds=3)
    assert ids == [1, 2, 3, 4]
    assert batch is first
    assert values['sampling_rounds'] == 1
    assert values['drawn_with_signal'] == 1


def test_it_stops_at_the_cap_and_keeps_what_it_has(setup):
    first = make_draw([1, 2, 3, 4], [0, 0, 0, 2])
    rounds = [
        make_draw([5, 6, 7, 8], [0, 1, 0, 0]),
        make_draw([9, 10, 11, 12], [0] * 4),
    ]
    ids, _, values = run(setup, first, *rounds)
    assert ids == [6, 2, 3, 4]
    assert values['sampling_rounds'] == 3
    assert values['problems_with_signal'] == 2


def test_a_problem_is_not_tried_twice_in_a_step(setup):
    """Its noise would be the same; nor may a problem be twice in a batch."""
    first = make_draw([1, 2, 3, 4], [0, 1, 0, 1])
    again = make_draw([2, 4, 1, 5], [1, 1, 1, 0])
    third = make_draw([5, 6, 7, 8], [1, 1, 1, 1])
    ids, _, values = run(setup, first, again, third)
    assert ids == [6, 2, 7, 4]
    # Eight different problems were drawn, of which five had a signal.
    assert values['drawn_with_signal'] == 5 / 8


def test_a_replaced_problem_is_replaced_in_everything(setup):
    old, new = make_draw([1, 2, 3, 4], [0] * 4), make_draw([5, 6, 7, 8], [1] * 4)
    merged = merge(setup, old, new, np.array([-1, 3, -1, 0], np.int32))
    expected = make_draw([1, 8, 3, 5], [0, 1, 0, 1])
    assert merged.problems == expected.problems
    assert merged.answers.responses == expected.answers.responses
    assert merged.answers.verdicts.parsed == expected.answers.verdicts.parsed
    jax.tree.map(np.testing.assert_array_equal, merged.rollouts, expected.rollouts)
    for name in ('lengths', 'stopped', 'mean_entropies', 'mean_log_probs'):
        ours, theirs = (getattr(d.answers, name) for d in (merged, expected))
        np.testing.assert_array_equal(ours, theirs)
    verdicts = merged.answers.verdicts
    np.testing.assert_array_equal(verdicts.correct, expected.answers.verdicts.correct)
    np.testing.assert_array_equal(verdicts.rewards, expected.answers.verdicts.rewards)
    # The draws themselves stay as they were.
    assert [problem.id for problem in old.problems] == [1, 2, 3, 4]
    assert old.answers.lengths[1, 0] == 2


def test_equal_rewards_are_no_signal_whatever_their_rounding():
    rewards = np.full((2, 32), 0.1, np.float32)
    rewards[1, 0] = np.nextafter(np.float32(0.1), np.float32(1))
    config = tiny.make_config(advantage__name='pass_at_1', sampling__num_rollouts=32)
    advantages = train.configured_estimator(config)(rewards, rewards > 1)
    # A deviation of rewards would be rounding here, and an advantage of +-0.9.
    assert not has_signal(advantages)[0]


def test_the_extra_problems_have_an_order_of_their_own_by_step_and_round(setup):
    batches = train.train_batches(setup)
    extra = batches.reordered((setup.config.seed, 6))
    again = train.train_batches(setup).reordered((setup.config.seed, 6))
    for i in range(8):
        ids = [problem.id for problem in extra[i][0]]
        assert ids == [problem.id for problem in again[i][0]]
        assert ids != [problem.id for problem in batches[i][0]]
        assert len(set(ids)) == len(ids)


def test_a_run_with_dynamic_sampling_resumes_bit_for_bit(finished_run, tmp_path):
    config = tiny.make_config(
        eval__every=0,
        eval__final_split='',
        train__steps=3,
        train__dynamic_sampling_rounds=2,
        advantage__name='pass_at_1',
        log__rollouts_every=1,
        loss__mask_truncated=True,
        loss__sampler_is_cap=2.0,
        train__pack_sizes=2,
    )
    whole = tiny.warm_copy(finished_run, tmp_path / 'whole')
    assert tiny.run(config, whole)
    workdir = tiny.warm_copy(finished_run, tmp_path / 'stopped')
    with mock.patch.object(
        train.PreemptionGuard, 'requested', lambda self, step: step == 2
    ):
        assert not tiny.run(config, workdir)
    assert tiny.run(config, workdir)
    tiny.assert_same_run(whole, workdir, last=3)
    rows = tiny.metrics(whole, 'train')
    assert max(row['sampling_rounds'] for row in rows) > 1
    for row in rows:
        assert row['drawn_with_signal'] < 1
        signal = 1 - row['zero_signal_problems']
        assert row['problems_with_signal'] == pytest.approx(8 * signal)
        assert 0 <= row['padding'] < 1
        assert row['sampler_k3'] < 1e-8
        assert row['sampler_weight'] == pytest.approx(1, abs=1e-5)
