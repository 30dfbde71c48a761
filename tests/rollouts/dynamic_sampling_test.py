"""Problems without a signal make room, in order, once each, and resumably."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.data.batches import PromptBatch
from passk_jax.report.run_log import batch_metrics
from passk_jax.rollouts.dynamic_sampling import (
    Draw,
    Select,
    merge_on_host,
    merge_rollouts,
    with_signal,
)
from passk_jax.rollouts.verify import Responses
from passk_jax.types import Problem, Prompts, Rollouts, Verdicts
from tests import tiny

P, N, T = 4, 3, 5


def make_draw(ids, num_correct, truncated=()):
    """Every value of a row says whose it is: the problem's id.

    Returns:
        The rollouts, and what is known of them; those truncated are the last ones of
        the problems with these ids.
    """
    ids = np.array(ids, np.int32)
    correct = np.arange(N) < np.array(num_correct)[:, None]
    of_rollout = np.broadcast_to(ids[:, None], (P, N))
    of_token = np.broadcast_to(ids[:, None, None], (P, N, T)).astype(np.float32)
    stopped = ~(np.isin(ids, truncated)[:, None] & (np.arange(N) == N - 1))
    prompts = Prompts(np.repeat(ids[:, None], 6, axis=1), ids, ids)
    rollouts = Rollouts(
        prompts=prompts,
        tokens=of_token.astype(np.int32),
        lengths=of_rollout,
        stopped=stopped,
        sampler_log_probs=of_token,
        untruncated_log_probs=of_token,
        entropies=of_token,
    )
    texts = [[str(i)] * N for i in ids]
    # Of every problem with an odd id.
    failures = {'timeouts': of_rollout % 2 == 1}
    verdicts = Verdicts(correct.astype(np.float32), correct, texts, failures)
    means = of_rollout.astype(np.float32)
    responses = Responses(ids, of_rollout, stopped, means, means, texts, verdicts)
    problems = [Problem(int(i), str(i), {}, '') for i in ids]
    rollouts = jax.tree.map(jax.numpy.asarray, rollouts)
    return rollouts, Draw(problems, responses, *estimate(rollouts, responses))


def estimate(rollouts, responses, *, memory=None, step=0):
    rewards = responses.verdicts.rewards
    advantages = jax.numpy.asarray(rewards - rewards.mean(axis=1, keepdims=True))
    return advantages, jax.numpy.asarray(responses.verdicts.correct)


class Drawn:
    """Batches as ``data.Batches`` gives them, of draws made before.

    Args:
        first_draw, later_draws: draws in the order in which they are asked for.
        num_others: problems of the last of the others that do not repeat.
    """

    def __init__(self, first_draw, later_draws, num_others):
        draws = (first_draw, *later_draws)
        self.draws = {id(rollouts.prompts): (rollouts, x) for rollouts, x in draws}
        self.first, *self.later = (
            PromptBatch(draw.problems, rollouts.prompts) for rollouts, draw in draws
        )
        self.is_new = [np.arange(P) < P for _ in later_draws]
        self.is_new[-1:] = [np.arange(P) < num_others for _ in self.is_new[-1:]]

    def __getitem__(self, step):
        return self.first

    def draw_others(self, step, *, seed):
        return zip(self.later, self.is_new, strict=True)


def run(first_draw, *later_draws, rounds=None, num_others=P, mask_truncated=False):
    """The ids of the batch that is trained on, and what was drawn.

    Args:
        first_draw, later_draws, num_others: of :class:`Drawn`.
        rounds: as many as later draws if ``None``.
        mask_truncated: of the loss.
    """
    batches = Drawn(first_draw, later_draws, num_others)
    select = Select(
        estimate=estimate,
        mesh=sharding.one_device_mesh(jax.devices()[0]),
        rounds=len(later_draws) if rounds is None else rounds,
        mask_truncated=mask_truncated,
        seed=(0,),
    )
    selection = select(0, {})
    for batch, is_new in selection.batches(batches):
        selection.add(*batches.draws[id(batch.prompts)], is_new)
    drawn, trained = selection.draws, selection.draws.trained
    advantages, _ = estimate(selection.rollouts, trained.responses)
    np.testing.assert_array_equal(trained.advantages, advantages)
    ids = [problem.id for problem in trained.problems]
    assert drawn.first is first_draw[1]
    assert selection.rollouts.prompts.problem_ids.tolist() == ids
    assert drawn.selected == (rounds != 0)
    return ids, drawn


def test_places_without_a_signal_are_filled_in_order():
    first_draw = make_draw([1, 2, 3, 4], [0, 1, 3, 2])
    other = make_draw([5, 6, 7, 8], [3, 2, 1, 1])
    ids, drawn = run(first_draw, other)
    assert ids == [6, 2, 7, 4]
    assert (drawn.count, drawn.num_tokens) == (2, N * sum(range(1, 9)))


def test_a_full_batch_draws_no_more():
    first_draw = make_draw([1, 2, 3, 4], [1, 1, 2, 2])
    ids, drawn = run(first_draw, rounds=3)
    assert ids == [1, 2, 3, 4]
    assert drawn.trained is drawn.first
    assert (drawn.count, drawn.num_tokens) == (1, N * 10)


@pytest.mark.parametrize('rounds', [2, 5])
def test_it_stops_after_the_last_round_or_the_last_problem(rounds):
    first_draw = make_draw([1, 2, 3, 4], [0, 0, 0, 2])
    later_draws = [
        make_draw([5, 6, 7, 8], [0, 1, 0, 0]),
        make_draw([9, 10, 11, 12], [0] * 4),
        make_draw([13, 14, 15, 16], [1] * 4),
    ]
    ids, drawn = run(
        first_draw, *later_draws[:2], *later_draws[2:] * (rounds == 2), rounds=rounds
    )
    assert ids == [6, 2, 3, 4]
    assert drawn.count == 3


def test_without_rounds_nothing_is_replaced():
    first_draw = make_draw([1, 2, 3, 4], [0] * 4)
    ids, drawn = run(first_draw, make_draw([5, 6, 7, 8], [1] * 4), rounds=0)
    assert ids == [1, 2, 3, 4]
    assert drawn.count == 1


def test_what_fills_up_a_batch_replaces_nothing():
    """It was tried already, and may be in the batch."""
    first_draw = make_draw([1, 2, 3, 4], [0, 0, 0, 1])
    ids, _ = run(first_draw, make_draw([5, 6, 4, 1], [0, 1, 1, 1]), num_others=2)
    assert ids == [6, 2, 3, 4]


@pytest.mark.parametrize('masked', [False, True])
def test_an_advantage_that_is_not_trained_is_no_signal(masked):
    """Of problems 1 and 5 the one response that has an advantage is cut off."""
    only_last = np.array([[0, 0, 1]], np.float32)

    def with_only_last(draw, *ids):
        rollouts, drawn = draw
        has = np.isin([problem.id for problem in drawn.problems], ids)[:, None]
        verdicts = drawn.responses.verdicts
        verdicts.rewards[:] = np.where(has, only_last, verdicts.rewards)
        advantages, _ = only_advantages(rollouts, drawn.responses)
        return rollouts, dataclasses.replace(drawn, advantages=advantages)

    def only_advantages(rollouts, responses, *, memory=None, step=0):
        rewards = responses.verdicts.rewards
        advantages = rewards - np.median(rewards, axis=1, keepdims=True)
        return jax.numpy.asarray(advantages), jax.numpy.asarray(rewards > 0)

    first_draw = with_only_last(
        make_draw([1, 2, 3, 4], [3, 1, 1, 1], truncated=[1, 2]), 1
    )
    other = with_only_last(make_draw([5, 6, 7, 8], [3, 1, 1, 1], truncated=[5]), 5)
    with mock.patch.dict(globals(), estimate=only_advantages):
        ids, drawn = run(first_draw, other, mask_truncated=masked)
    assert ids == ([6, 2, 3, 4] if masked else [1, 2, 3, 4])
    assert drawn.count == 1 + masked


def test_a_replaced_problem_is_replaced_in_everything():
    old, new = make_draw([1, 2, 3, 4], [0] * 4), make_draw([5, 6, 7, 8], [1] * 4, [8])
    source = np.array([-1, 3, -1, 0], np.int32)
    rollouts, draw = make_draw([1, 8, 3, 5], [0, 1, 0, 1], [8])
    mesh = sharding.one_device_mesh(jax.devices()[0])
    merged = merge_rollouts(mesh, old[0], new[0], source)
    jax.tree.map(np.testing.assert_array_equal, merged, rollouts)
    before, after = old[1], new[1]
    assert merge_on_host(before.problems, after.problems, source) == draw.problems
    responses = merge_on_host(before.responses, after.responses, source)
    assert responses.texts == draw.responses.texts
    assert responses.verdicts.parsed == draw.responses.verdicts.parsed
    for name in ('prompt_lengths', 'lengths', 'stopped', 'mean_entropies'):
        ours, original = (getattr(x, name) for x in (responses, draw.responses))
        np.testing.assert_array_equal(ours, original)
    verdicts = draw.responses.verdicts
    np.testing.assert_array_equal(responses.verdicts.correct, verdicts.correct)
    np.testing.assert_array_equal(responses.verdicts.rewards, verdicts.rewards)
    jax.tree.map(
        np.testing.assert_array_equal, responses.verdicts.failures, verdicts.failures
    )
    # The draws themselves stay as they were.
    assert [problem.id for problem in before.problems] == [1, 2, 3, 4]
    assert before.responses.lengths[1, 0] == 2


def test_a_merge_on_a_mesh_keeps_the_layout():
    sizes = {'data': 2, 'fsdp': 1, 'rollout': 1, 'tensor': 2}
    mesh = sharding.make_mesh(**sizes, devices=jax.devices()[:4])
    old, new, expected = (
        jax.device_put(rollouts, sharding.batch_sharding(mesh, rollouts))
        for rollouts, _ in (
            make_draw([1, 2, 3, 4], [0] * 4),
            make_draw([5, 6, 7, 8], [1] * 4),
            make_draw([1, 8, 3, 5], [0, 1, 0, 1]),
        )
    )
    merged = merge_rollouts(mesh, old, new, np.array([-1, 3, -1, 0], np.int32))
    jax.tree.map(np.testing.assert_array_equal, merged, expected)
    for ours, before in zip(*map(jax.tree.leaves, (merged, old)), strict=True):
        assert ours.sharding == before.sharding


@pytest.mark.parametrize('lacking', ['old', 'new'])
def test_a_kind_of_failure_that_one_draw_lacks_has_none_there(lacking):
    """Parts of a mixture fail in different ways."""
    draws = {
        'old': make_draw([1, 2, 3, 4], [0] * 4)[1],
        'new': make_draw([5, 6, 7, 8], [1] * 4)[1],
    }
    verdicts = {side: draw.responses.verdicts for side, draw in draws.items()}
    verdicts[lacking] = dataclasses.replace(verdicts[lacking], failures={})
    source = np.array([-1, 3, 2, 0], np.int32)
    failed = merge_on_host(verdicts['old'], verdicts['new'], source).failures
    # Problems 1, 8, 7 and 5; those with odd ids fail.
    expected = [False, False, True, True] if lacking == 'old' else [True] + [False] * 3
    assert failed.keys() == {'timeouts'}
    assert failed['timeouts'].dtype == bool
    np.testing.assert_array_equal(failed['timeouts'], np.array([expected] * N).T)


def test_a_round_that_replaces_nothing_leaves_the_step_as_it_was():
    first_draw = make_draw([1, 2, 3, 4], [0, 1, 1, 1])
    ids, drawn = run(first_draw, make_draw([5, 6, 7, 8], [0] * 4))
    assert ids == [1, 2, 3, 4]
    assert drawn.trained is drawn.first
    assert drawn.count == 2


def test_no_advantages_are_fetched_twice():
    fetched = []

    def fetch(array):
        fetched.append(array)
        return np.asarray(array)

    first_draw = make_draw([1, 2, 3, 4], [0, 0, 0, 1])
    later_draws = (
        make_draw([5, 6, 7, 8], [1, 0, 0, 0]),
        make_draw([9, 10, 11, 12], [1] * 4),
    )
    with mock.patch('passk_jax.rollouts.dynamic_sampling.hosts.fetch', fetch):
        ids, drawn = run(first_draw, *later_draws)
        batch_metrics(drawn.trained, ks=(2,), mask_truncated=False)
        batch_metrics(drawn.first, ks=(2,), mask_truncated=False)
    assert ids == [5, 9, 10, 4]
    # Those of three draws, and of the batch after each of two rounds.
    assert len({*map(id, fetched)}) == len(fetched) == 5


def test_equal_rewards_are_no_signal_whatever_their_rounding():
    rewards = np.full((2, 32), 0.1, np.float32)
    rewards[1, 0] = np.nextafter(np.float32(0.1), np.float32(1))
    config = tiny.make_config(advantage__name='pass_at_1', sampling__num_rollouts=32)
    estimate = tiny.make_setup(config).estimate().estimator
    advantages = estimate(rewards, rewards > 1)
    # A deviation of rewards would be rounding here, and an advantage of +-0.9.
    assert not with_signal(Draw([], None, advantages, None), mask_truncated=False)[0]


SETTINGS = {
    'eval__every': 0,
    'eval__final_split': '',
    'train__dynamic_sampling_rounds': 2,
    'advantage__name': 'pass_at_1',
    'log__rollouts_every': 1,
    'loss__mask_truncated': True,
    'loss__sampler_weight_cap': 2.0,
    'train__pack_sizes': 2,
}


@pytest.fixture(scope='module')
def dynamic_run(finished_run, tmp_path_factory):
    """The directory of a run with dynamic sampling."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('whole'))
    assert tiny.run(tiny.make_config(**SETTINGS, train__steps=3), workdir)
    return workdir


def test_a_run_with_dynamic_sampling_resumes_bit_for_bit(
    dynamic_run, finished_run, tmp_path
):
    config = tiny.make_config(**SETTINGS, train__steps=3)
    workdir = tiny.warm_copy(finished_run, tmp_path)
    with tiny.stop_before(2):
        assert not tiny.run(config, workdir)
    assert tiny.run(config, workdir)
    tiny.assert_same_run(dynamic_run, workdir, last=3)


def rollouts_of(workdir, step):
    return tiny.read_lines(workdir / 'rollouts' / f'step_{step:08d}.jsonl')


def test_its_metrics_are_of_the_steps_own_problems_and_of_those_trained(
    dynamic_run, finished_run
):
    rows = tiny.metrics(dynamic_run, 'train')
    assert max(row['sampling_draws'] for row in rows) > 1
    for row in rows:
        assert row['trained_zero_signal_problems'] <= row['zero_signal_problems']
        assert 0 <= row['padding'] < 1
        assert row['sampler_k3'] < 1e-8
        assert row['sampler_weight'] == pytest.approx(1, abs=1e-5)
        trained = rollouts_of(dynamic_run, row['step'])
        for name in ('reward', 'stopped'):
            mean = np.mean([rollout[name] for rollout in trained])
            assert row[f'trained_{name}'] == pytest.approx(mean)
        signal = {x['problem_id'] for x in trained if x['advantage'] and x['stopped']}
        zeros = row['trained_zero_signal_problems']
        assert len(signal) == pytest.approx(8 * (1 - zeros))
    # At first the policy is that of a run without dynamic sampling, to the bit.
    plain = tiny.metrics(finished_run, 'train')[0]
    assert not [name for name in plain if name.startswith(('trained_', 'sampling_'))]
    step_metrics = (
        'reward',
        'response_length',
        'stopped',
        'unsolved_problems',
        'pass_at_1',
    )
    for name in step_metrics:
        assert rows[0][name] == plain[name]
    assert rows[0]['trained_reward'] != plain['reward']


@pytest.mark.slow
def test_on_a_mesh_the_same_problems_are_drawn(dynamic_run, finished_run, tmp_path):
    config = tiny.make_config(
        **SETTINGS, train__steps=2, mesh__data=2, mesh__fsdp=1, mesh__rollout=2
    )
    workdir = tiny.warm_copy(finished_run, tmp_path)
    assert tiny.run(config, workdir, num_devices=4)
    rows, other_rows = (
        tiny.metrics(path, 'train')[:2] for path in (dynamic_run, workdir)
    )
    for row, other in zip(rows, other_rows, strict=True):
        assert row.keys() == other.keys()
        # What is packed, and so how many pads there are, is a device's own affair.
        for name in row.keys() - {'split', 'padding'}:
            close = pytest.approx(row[name], rel=1e-4, abs=1e-5)
            assert other[name] == close, name
    for step in range(2):
        ours, on_mesh = (rollouts_of(path, step) for path in (dynamic_run, workdir))
        for name in ('problem_id', 'response'):
            assert [x[name] for x in ours] == [x[name] for x in on_mesh]
