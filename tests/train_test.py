"""The loop: what a step is made of, and what stops it."""

import dataclasses
import json
from unittest import mock

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import config as configs
from passk_jax import sampling, sharding, train
from passk_jax.advantages import ESTIMATORS, make_estimator, rewards
from passk_jax.advantages.configured import unscaled_estimator
from passk_jax.errors import NonFiniteError
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.rollouts.estimate import Estimate, Estimated
from passk_jax.rollouts.verify import Responses
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.sampling import Purpose
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.types import Prompts, Rollouts, Verdicts
from tests import tiny
from tests.slow import slow_values

# Every step has all the problems there are, and the policy does not move.
STANDING_STILL = tiny.ONLY_STEPS | {
    'task__params__train_counts': (8,),
    'optimizer__learning_rate': 1e-30,
    'log__rollouts_every': 1,
    'train__steps': 3,
}


def responses(workdir, step):
    """The responses to each problem, by its id."""
    by_problem = {}
    for row in tiny.read_lines(workdir / 'rollouts' / f'step_{step:08d}.jsonl'):
        by_problem.setdefault(row['problem_id'], []).append(row['response'])
    return by_problem


@pytest.mark.slow
def test_no_two_draws_share_their_noise(tmp_path):
    assert tiny.run(tiny.make_config(**STANDING_STILL), tmp_path / 'a')
    assert tiny.run(tiny.make_config(**STANDING_STILL, seed=1), tmp_path / 'b')
    draws = [responses(tmp_path / 'a', step) for step in range(3)]
    draws.append(responses(tmp_path / 'b', 0))
    assert all(draw.keys() == set(range(8)) for draw in draws)
    for problem in range(8):
        # Another step, another seed: other responses to the same prompt.
        assert len({tuple(draw[problem]) for draw in draws}) == len(draws)
        # Nor are the rollouts of one step copies of each other.
        assert len(set(draws[0][problem])) > 1
    # The random policy hardly reads its prompt: equal noise would show here.
    assert len({tuple(row) for row in draws[0].values()}) == 8


def test_the_first_update_of_every_step_is_on_policy(finished_run, tmp_path):
    rows = tiny.metrics(finished_run, 'train')
    assert [row['old_kl'] for row in rows] == [0.0] * 5
    assert any(row['grad_norm'] > 0 for row in rows[:-1])
    # With two updates the second is not; what the first compares with is at every step
    # what the policy that drew the responses says, and not what some older one said.
    config = tiny.make_config(train__mini_batch_prompts=4, train__steps=4)
    workdir = tiny.warm_copy(finished_run, tmp_path)
    assert tiny.run(config, workdir)
    rows = tiny.metrics(workdir, 'train')
    assert rows[-1]['old_kl'] > 1e-4
    assert all(row['sampler_gap_max'] < 1e-5 for row in rows)


def test_the_sampler_and_the_learner_agree(finished_run):
    rows = tiny.metrics(finished_run, 'train')
    assert all(0 < row['sampler_gap_max'] < 1e-5 for row in rows)


def test_the_stop_token_is_inside_the_response(finished_run):
    rows = tiny.read_lines(finished_run / 'rollouts' / 'step_00000002.jsonl')
    assert any(row['stopped'] for row in rows)
    # One token a character, and one for the end that the text does not show.
    for row in rows:
        assert row['length'] == len(row['response']) + row['stopped']
    (metrics,) = (r for r in tiny.metrics(finished_run, 'train') if r['step'] == 2)
    mean = np.mean([row['length'] for row in rows])
    assert metrics['response_length'] == pytest.approx(mean)


# The first estimator of those that read the same inputs.
OF_EACH_KIND = {row.reads: name for name, row in reversed(ESTIMATORS.items())}


@pytest.mark.parametrize(
    'name', slow_values(OF_EACH_KIND.values(), quick=['curverl', 'adaptive'])
)
def test_an_estimator_of_each_kind_trains_with_every_term_of_the_loss(
    name, finished_run, tmp_path
):
    config = tiny.make_config(
        advantage__name=name,
        train__steps=2,
        eval__every=0,
        eval__final_split='',
        reward__flip_wrong=0.5,
        loss__entropy_coef=0.01,
        loss__kl_coef=0.01,
        loss__aggregation='sequence',
    )
    workdir = tiny.warm_copy(finished_run, tmp_path)
    assert tiny.run(config, workdir)
    first, second = tiny.metrics(workdir, 'train')
    for row in (first, second):
        assert row['mean_abs_advantage'] > 0
        assert row['grad_norm'] > 0
        assert all(np.isfinite(v) for k, v in row.items() if k != 'split')
    # The reference is the initial policy, and stays it.
    assert first['ref_kl_k3'] == 0
    assert second['ref_kl_k3'] > 0


def make_batch(order=tuple(range(8))):
    """Rollouts and responses to 8 problems, in this order."""
    rng = np.random.default_rng(0)
    correct = np.arange(4) < rng.integers(0, 4, (8, 1))
    entropies = rng.uniform(size=(8, 4, 5)).astype(np.float32)
    lengths = np.full((8, 4), 5, np.int32)
    order = np.array(order)
    zeros = np.zeros((8, 4, 5), np.float32)
    prompts = Prompts(
        np.zeros((8, 12), np.int32), np.full(8, 12, np.int32), order.astype(np.int32)
    )
    rollouts = Rollouts(
        prompts=prompts,
        tokens=zeros.astype(np.int32),
        lengths=lengths,
        stopped=np.ones((8, 4), bool),
        sampler_log_probs=zeros,
        untruncated_log_probs=zeros,
        entropies=entropies[order],
    )
    parsed = np.array(list('abc'))[rng.integers(0, 3, (8, 4))[order]].tolist()
    verdicts = Verdicts(correct[order].astype(np.float32), correct[order], parsed)
    responses = Responses(
        rollouts.prompts.lengths, lengths, rollouts.stopped, zeros, zeros, [], verdicts
    )
    return rollouts, responses


def estimate(*, order=tuple(range(8)), step=0, **overrides):
    with tiny.devices(1):
        setup = train.make_setup(tiny.make_config(**overrides))
    estimated = setup.estimate()(
        *make_batch(order), memory=first_memory(setup.config), step=step
    )
    return np.asarray(estimated.advantages)


def first_memory(config):
    num_rollouts = config.sampling.num_rollouts
    estimator = unscaled_estimator(config.advantage, num_rollouts=num_rollouts)
    return estimator.begin_memory()


@pytest.fixture(scope='module')
def a_step():
    """A random policy and its update, compiled once."""
    setup = tiny.make_setup(tiny.make_config(init__kind='scratch'))
    optimizer = optimizers.make_optimizer(setup.config.optimizer, num_updates=1)
    with jax.set_mesh(setup.mesh):
        params = setup.initial_params(None)
        state = states.init_state(setup.policy, optimizer, params, setup.mesh)
        yield setup, state, setup.update(optimizer)


@pytest.mark.parametrize('name', ESTIMATORS)
def test_every_estimator_moves_the_policy(name, a_step):
    setup, state, update = a_step
    rollouts, responses = make_batch()
    advantage = dataclasses.replace(setup.config.advantage, name=name)
    config = dataclasses.replace(setup.config, advantage=advantage)
    estimate = dataclasses.replace(setup, config=config).estimate()
    rollouts = sharding.place(setup.mesh, rollouts)
    memory = first_memory(config)
    advantages, _ = estimate(rollouts, responses, memory=memory, step=0)
    assert np.all(np.isfinite(advantages))
    # An update takes its state away.
    after, figures = update(jax.tree.map(jnp.copy, state), rollouts, advantages, None)
    assert figures['grad_norm'] > 0
    before, after = map(jax.tree.leaves, (state.params, after.params))
    assert any(np.any(a != b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    'name', slow_values(ESTIMATORS, quick=['pass_at_1', 'adaptive', 'curverl'])
)
def test_the_place_of_a_problem_in_the_batch_does_not_matter(name):
    settings = {'advantage__name': name, 'reward__flip_wrong': 0.5}
    order = (3, 0, 7, 1, 6, 2, 5, 4)
    estimated = estimate(order=order, **settings)
    # A sum over the step is rounded in another order.
    rounding = 1e-6 if ESTIMATORS[name].pools_problems else 0
    here = estimate(**settings)[list(order)]
    np.testing.assert_allclose(estimated, here, rtol=rounding)


def test_each_step_draws_its_own_groups_and_noise():
    bootstrap = {'advantage__name': 'bootstrap_sampling'}
    assert (estimate(step=0, **bootstrap) != estimate(step=1, **bootstrap)).any()
    noise = {'reward__flip_wrong': 0.5, 'advantage__name': 'pass_at_1'}
    assert (estimate(step=0, **noise) != estimate(step=1, **noise)).any()
    assert (estimate(step=0) == estimate(step=1)).all()


def test_what_is_kept_of_a_step_says_which_rewards_were_flipped(tmp_path):
    """Of a policy that is hardly ever right half the rewards are noise."""
    noisy = {'reward__flip_wrong': 0.5, 'train__dynamic_sampling_rounds': 2}
    settings = tiny.ONLY_STEPS | {'log__rollouts_every': 1, 'train__steps': 1}
    config = tiny.make_config(**settings, **noisy, advantage__name='pass_at_1')
    assert tiny.run(config, tmp_path)
    rows = tiny.read_lines(tmp_path / 'rollouts' / 'step_00000000.jsonl')
    assert all(row['rewarded'] for row in rows if row['correct'])
    flipped = [row['rewarded'] for row in rows if not row['correct']]
    assert 0.2 < np.mean(flipped) < 0.8
    assert all(row['reward'] == row['correct'] for row in rows)
    for row in rows:
        same_problem = [r for r in rows if r['problem_id'] == row['problem_id']]
        mixed = len({r['rewarded'] for r in same_problem}) == 2
        assert np.sign(row['advantage']) == (2 * row['rewarded'] - 1) * mixed


def test_noisy_rewards_are_those_of_the_step_and_the_problem():
    _, answers = make_batch()
    key = sampling.step_key(seed=0, purpose=Purpose.REWARD_NOISE, step=3)
    noisy, correct = rewards.flip_wrong(
        answers.verdicts.rewards,
        answers.verdicts.correct,
        fraction=0.5,
        keys=sampling.problem_keys(key, np.arange(8)),
    )
    assert (np.asarray(noisy) != answers.verdicts.rewards).any()
    expected = make_estimator('pass_at_1', num_rollouts=4)(noisy, correct)
    got = estimate(step=3, advantage__name='pass_at_1', reward__flip_wrong=0.5)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_adaptive_reads_the_entropy_of_a_token():
    rollouts, answers = make_batch()
    expected = make_estimator(
        'adaptive', num_rollouts=4, k=2, high_entropy_fraction=0.25
    )(
        answers.verdicts.rewards,
        answers.verdicts.correct,
        mean_entropy=rollouts.entropies.mean(axis=(1, 2)),
    )
    got = estimate(advantage__name='adaptive', advantage__high_entropy_fraction=0.25)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def verify_with(reward, problem):
    """The task's verifier, but for the rewards of one problem."""
    verify = MazeTask.verify

    def broken(self, problems, texts):
        verdicts = verify(self, problems, texts)
        verdicts.rewards[[x == problem for x in problems]] = reward
        return verdicts

    return mock.patch.object(MazeTask, 'verify', broken)


def problem_of(step, row):
    setup = tiny.make_setup(tiny.make_config())
    return setup.train_batches()[step][0][row]


@pytest.mark.parametrize('reward', [np.nan, *slow_values([np.inf])])
def test_a_reward_that_is_not_finite_stops_the_run_with_its_problem(
    reward, finished_run, tmp_path
):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    # No problem is in two of the first steps.
    problem = problem_of(3, 5)
    message = rf'reward {reward} to rollout 0 of problem {problem.id} at step 3'
    with verify_with(reward, problem), pytest.raises(ValueError, match=message):
        tiny.run(tiny.make_config(), workdir)
    assert Checkpoints(workdir / 'checkpoints', keep=2).latest_step() == 2
    assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)


# Step 4 is evaluated, so what step 3 left is looked at before anything is sampled;
# what step 2 left is sampled from first.
@pytest.mark.parametrize('at', slow_values([2, 3], quick=[3]))
def test_a_loss_that_is_not_finite_stops_the_run_with_step_and_problem(
    at, finished_run, tmp_path
):
    estimate = Estimate.__call__

    def broken(self, *batch, memory, step):
        advantages, rewarded = estimate(self, *batch, memory=memory, step=step)
        bad = advantages.at[5, 2].set(np.nan) if step == at else advantages
        return Estimated(bad, rewarded)

    workdir = tiny.warm_copy(finished_run, tmp_path)
    message = rf'at step {at}, update 0, from problems \[{problem_of(at, 5).id}\]'
    with (
        mock.patch.object(Estimate, '__call__', broken),
        pytest.raises(NonFiniteError, match=message),
    ):
        tiny.run(tiny.make_config(), workdir)
    assert Checkpoints(workdir / 'checkpoints', keep=2).latest_step() == 2
    assert [row['step'] for row in tiny.metrics(workdir, 'train')] == [*range(at)]
    assert tiny.run(tiny.make_config(), workdir)
    tiny.assert_same_run(workdir, finished_run, last=5)


def test_a_run_that_is_never_evaluated_trains(tmp_path):
    assert tiny.run(tiny.make_config(**tiny.ONLY_STEPS, train__steps=1), tmp_path)
    assert len(tiny.metrics(tmp_path, 'train')) == 1
    assert not (tmp_path / 'evaluation').exists()


def begin(workdir, **changes):
    """The command as far as its run directory, with these changes of the config."""
    values = tiny.get_config()
    values.update_from_flattened_dict(changes)
    config = configs.from_config_dict(values)
    with mock.patch.object(train, 'train', return_value=True):
        return train.main(config=config, workdir=str(workdir))


@pytest.mark.parametrize(
    'devices',
    [
        {'mesh.fsdp': 8, 'model.attention': 'splash', 'model.remat': 'full'},
        {'model.head_chunk_tokens': 7, 'train.micro_batch_prompts': 2},
        {'train.pack_sizes': 2},
    ],
)
def test_a_run_goes_on_on_other_devices_and_with_no_other_change(devices, tmp_path):
    assert begin(tmp_path) == 0
    (tmp_path / 'metrics.jsonl').touch()
    assert begin(tmp_path, **devices) == 0
    with pytest.raises(ValueError, match='run with another config') as error:
        begin(tmp_path, **devices, **{'model.compute_dtype': 'bfloat16'})
    lines = str(error.value).splitlines()[1:]
    assert [line.split(':')[0].strip() for line in lines] == ['model.compute_dtype']


def test_advantages_that_are_always_zero_are_refused_before_the_directory(tmp_path):
    with pytest.raises(ValueError, match=r"name='pass_at_k', advantage.k=4 .* nothing"):
        begin(tmp_path / 'run', **{'advantage.k': 4})
    assert not (tmp_path / 'run').exists()


def test_a_run_that_goes_on_from_another_is_its_next_stage(tmp_path):
    first, second = tmp_path / 'first', tmp_path / 'second'
    assert begin(first) == 0
    source = {'init.kind': 'checkpoint', 'init.checkpoint': str(first), 'stage': -1}
    for _ in range(2):
        assert begin(second, **source) == 0
        assert json.loads((second / 'config.json').read_text())['stage'] == 1


def test_a_run_goes_on_whatever_the_parameters_that_it_does_not_read(tmp_path):
    """A new estimator adds its parameters to the config of every run."""
    assert begin(tmp_path) == 0
    (tmp_path / 'metrics.jsonl').touch()
    path = tmp_path / 'config.json'
    values = json.loads(path.read_text())
    del values['advantage']['easy_threshold']
    path.write_text(json.dumps(values))
    assert begin(tmp_path, **{'advantage.num_groups': 7}) == 0
    with pytest.raises(ValueError, match='run with another config') as error:
        begin(tmp_path, **{'advantage.k': 3})
    assert str(error.value).splitlines()[1:] == ['  advantage.k: 2 there, 3 now']


def test_a_parameter_that_a_run_reads_and_the_k_of_its_metrics_are_the_same(tmp_path):
    read = {'advantage.name': 'bootstrap_sampling'}
    for name, settings, change in (
        ('a', read, {'advantage.num_groups': 7}),
        ('b', {'advantage.name': 'pass_at_1'}, {'advantage.k': 3}),
    ):
        assert begin(tmp_path / name, **settings) == 0
        (tmp_path / name / 'metrics.jsonl').touch()
        with pytest.raises(ValueError, match=f'{next(iter(change))}: .* there, . now'):
            begin(tmp_path / name, **settings, **change)
