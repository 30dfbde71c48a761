"""What the loop hands on: every setting arrives where it is used, as configured."""

import dataclasses
import types
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import evaluation, preflight, sampling, train
from passk_jax.advantages import ESTIMATORS, make, matching_scale
from passk_jax.config import stages_of
from passk_jax.data import subset
from passk_jax.sampling import Purpose
from tests import changed, tiny

STEP = 3


class ReachedError(Exception):
    """Ends a call where it has handed on what a test looks at."""


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(changed.make_config())


def same_key(a, b):
    return np.array_equal(jax.random.key_data(a), jax.random.key_data(b))


def test_the_update_gets_its_settings(setup):
    optimizer = object()
    with mock.patch('passk_jax.learning.learner.make_train_step') as make:
        train.make_update(setup, optimizer)
    make.assert_called_once_with(
        setup.policy,
        optimizer,
        setup.mesh,
        loss=setup.config.loss,
        temperature=0.7,
        # 24 prompts, of which 12 an update and 4 a pass; 2 of 6 rollouts a pass.
        num_updates=2,
        num_micro_batches=3,
        rollout_parts=3,
        pack_sizes=3,
        epochs=3,
    )


def test_the_optimizer_gets_its_section(tmp_path):
    config = changed.make_config()
    made = mock.patch.object(train, 'make_optimizer', side_effect=ReachedError)
    with made as make, pytest.raises(ReachedError):
        tiny.run(config, tmp_path)
    # Five steps of three epochs of two mini-batches.
    make.assert_called_once_with(config.optimizer, num_updates=30)


def sampled_with(call):
    """The keywords that the sampler gets from a call."""
    sampler = mock.patch('passk_jax.sampling.sample', side_effect=ReachedError)
    with sampler as sample, pytest.raises(ReachedError):
        call()
    keywords = dict(sample.call_args.kwargs)
    del keywords['on_ended']
    return keywords


def test_rollouts_are_sampled_with_the_settings_of_training(setup, tmp_path):
    """In the loop itself, which is entered at a step that is not evaluated."""
    config = changed.make_config(eval__every=0, eval__final_split='')
    state = types.SimpleNamespace(step=STEP, params=None)
    first = mock.patch.object(train, 'first_state', return_value=(state, {}, None))
    with first, mock.patch.object(train, 'make_update'):
        got = sampled_with(lambda: tiny.run(config, tmp_path))
    purpose = Purpose.ROLLOUTS
    assert same_key(
        got.pop('key'), sampling.step_key(seed=17, stage=3, purpose=purpose, step=STEP)
    )
    options = got.pop('options')
    assert dataclasses.asdict(options) == {
        'temperature': 0.7,
        'top_p': 0.9,
        'top_k': 6,
        'min_p': 0.02,
    }
    assert got == {
        'num_rollouts': 6,
        'max_response_tokens': 7,
        'stop_tokens': setup.stop_tokens,
        'max_cache_bytes': 1_000_000_007,
    }


def evaluate(setup, log=None, params=None):
    """Evaluates as before step 0, when both splits are due."""
    splits = {s: setup.evaluation_batches(s) for s in ('validation', 'test')}
    log, stop = log or mock.MagicMock(), lambda: False
    log.first_evaluation.return_value = None
    return train.evaluate_due(setup, params, splits, log, 0, stop=stop)


def test_evaluation_samples_with_settings_of_its_own(setup):
    got = sampled_with(lambda: evaluate(setup))
    key = sampling.step_key(
        seed=17, stage=3, purpose=Purpose.EVALUATION, step=0, split='validation'
    )
    assert same_key(got.pop('key'), key)
    options = got.pop('options')
    assert dataclasses.asdict(options) == {
        'temperature': 0.6,
        'top_p': 0.8,
        'top_k': 5,
        'min_p': 0.03,
    }
    assert got == {
        'num_rollouts': 3,
        'max_response_tokens': 7,
        'stop_tokens': setup.stop_tokens,
        'max_cache_bytes': 1_000_000_007,
    }


def test_every_split_is_evaluated_with_its_name_and_the_runs_seed(setup):
    result = mock.patch('passk_jax.setup.evaluate', return_value=({}, []))
    with result as evaluated:
        assert evaluate(setup)
    first, second = evaluated.call_args_list
    for call, split in ((first, 'validation'), (second, 'test')):
        wanted = {'config': setup.config.eval, 'split': split, 'step': 0}
        wanted |= {'seed': 17, 'stage': 3}
        assert {name: call.kwargs[name] for name in wanted} == wanted
        batches = call.args[1]
        # Five of the split's own problems, in batches of two.
        assert batches.num_problems == 5
        assert [len(problems) for problems, *_ in batches] == [2, 2, 2]
        problems, *_ = next(iter(batches))
        own = setup.task.source(split, data_dir=setup.config.data.dir)
        assert problems == subset(own, 5)[:2]


def test_an_interval_has_the_configured_number_of_resamples(setup):
    batches = mock.MagicMock(num_problems=0, num_dropped=0)
    settings = {'config': setup.config.eval, 'split': 'test', 'step': 0}
    settings |= {'seed': 17, 'stage': 3}
    with mock.patch.object(evaluation, 'summarize', return_value={}) as summarize:
        evaluation.evaluate(None, batches, sample=None, **settings)
    summarize.assert_called_once_with([], seed=17, bootstrap_samples=31)


def test_the_selection_gets_its_settings(setup):
    estimate = object()
    with mock.patch.object(train, 'Selection') as select:
        train.make_selection(setup, estimate, STEP)
    select.assert_called_once_with(
        STEP,
        rounds=2,
        mask_truncated=True,
        seed=(17, 3 * 256 + Purpose.EXTRA_PROBLEMS),
        estimate=estimate,
        mesh=setup.mesh,
    )


def test_the_log_counts_as_the_run_does(setup, tmp_path):
    with mock.patch.object(train, 'RunLog') as log:
        train.make_log(setup.config, tmp_path, 2)
    got = log.call_args.kwargs
    assert (got['k'], got['mask_truncated'], got['start']) == (3, True, 2)


@pytest.mark.parametrize('kl_coef', [0.0, 0.03])
def test_rates_are_of_what_a_stage_trains(setup, kl_coef):
    loss = dataclasses.replace(setup.config.loss, kl_coef=kl_coef)
    config = dataclasses.replace(setup.config, loss=loss)
    (stage,) = stages_of(config)
    with mock.patch.object(train, 'make_rates') as make:
        verbs = train.make_verbs(setup, stage)
    make.assert_called_once_with(setup.policy.arch, setup.mesh, config.train, loss)
    assert verbs.rates is make.return_value


@pytest.mark.parametrize('name', ESTIMATORS)
def test_an_estimator_gets_its_own_parameters(name, monkeypatch):
    row = ESTIMATORS[name]
    values = {
        'k': 3,
        'num_groups': 5,
        'aggregation': 'mean',
        'easy_threshold': 0.3,
        'switch_threshold': 0.7,
        'high_entropy_fraction': 0.125,
        'pass_weights': (2.0, 0.5),
        'set_value': 'max',
        'order': 2,
        'beta': 3.0,
        'gamma': 0.25,
        'weight': 0.5,
        'rank_penalty': 0.75,
        'smoothing_correct': 0.125,
        'smoothing_wrong': 0.375,
        'window': 3,
    }
    wanted = {p.name: values[p.name] for p in row.parameters}
    for parameter in row.parameters:
        assert wanted[parameter.name] != parameter.default
    compute = mock.Mock(return_value=np.zeros((8, 6), np.float32))
    monkeypatch.setitem(ESTIMATORS, name, dataclasses.replace(row, compute=compute))
    overrides = {f'advantage__{each}': value for each, value in values.items()}
    config = changed.make_config(advantage__name=name, **overrides)
    correct = np.ones((8, 6), bool)
    preflight.configured_estimator(config)(
        correct * 1.0,
        correct,
        key=jax.random.split(jax.random.key(0), 8),
        mean_entropy=np.ones(8),
        lengths=np.ones((8, 6), np.int32),
        answers=np.ones((8, 6), np.int32),
        log_probs=np.ones((8, 6)),
        history=np.ones((3, 7), np.int32),
    )
    got = compute.call_args.kwargs
    assert {each: got[each] for each in got if each in values} == wanted
    assert got.keys() == {*row.reads, *wanted}


@pytest.mark.parametrize('name', ['maxrl', 'bootstrap_sampling'])
def test_advantages_are_scaled_to_the_weight_of_pass_at_1(name):
    plain = changed.make_config(advantage__name=name)
    config = changed.make_config(advantage__name=name, advantage__match_weight_at=0.25)
    correct = np.arange(6) < np.array([[1], [4]])
    inputs = (correct * 1.0, correct)
    key = jax.random.split(jax.random.key(0), 2)
    before, after = (
        preflight.configured_estimator(each)(*inputs, key=key)
        for each in (plain, config)
    )
    own = {'k': plain.advantage.k, **plain.advantage.parameters}
    scale = matching_scale(
        name, num_rollouts=6, p=0.25, **make.own_parameters(name, own)
    )
    assert not 0.9 < scale < 1.1
    np.testing.assert_allclose(after, scale * before, rtol=1e-6)


def test_adamw_cancels_the_scale_of_an_advantage_but_for_epsilon_and_the_limit(
    finished_run, tmp_path
):
    """Powers of two are exact, so what is cancelled is cancelled to the last bit."""
    settings = tiny.ONLY_STEPS | {'train__steps': 3, 'advantage__name': 'mixture'}
    one = {'advantage__pass_weights': (0.5, 0.5), 'optimizer__eps': 1e-5}
    four = one | {'advantage__pass_weights': (2.0, 2.0)}
    runs = {
        'one': one,
        'four': four,
        'epsilon': four | {'optimizer__eps': 4e-5},
        'both': four | {'optimizer__eps': 4e-5, 'optimizer__max_grad_norm': 0.4},
    }
    params = {}
    for name, own in runs.items():
        # So low a limit is met at each step.
        limit = {'optimizer__max_grad_norm': 0.1} | own
        workdir = tiny.warm_copy(finished_run, tmp_path / name)
        assert tiny.run(tiny.make_config(**settings | limit), workdir)
        saved = tiny.saved_arrays(workdir, 3)
        params[name] = {key: x for key, x in saved.items() if key.startswith('params/')}
    same = {
        name: all(np.array_equal(x, params['one'][key]) for key, x in found.items())
        for name, found in params.items()
    }
    assert same == {'one': True, 'four': False, 'epsilon': False, 'both': True}


def test_the_learner_scores_at_the_temperature_that_was_sampled(tmp_path):
    """A step for real: at another temperature the gap would be 1e-3 or more."""
    config = tiny.make_config(
        **tiny.ONLY_STEPS, train__steps=1, sampling__temperature=0.7
    )
    assert tiny.run(config, tmp_path)
    (row,) = tiny.metrics(tmp_path, 'train')
    assert 0 < row['sampler_gap_max'] < 1e-5


def test_an_evaluation_keeps_to_its_nucleus():
    """For real: the smallest nucleus has one token, so all responses are equal."""
    config = tiny.make_config(init__kind='scratch', eval__top_p=1e-6)
    setup, log = tiny.make_setup(config), mock.MagicMock()
    with jax.set_mesh(setup.mesh):
        assert evaluate(setup, log, setup.initial_params(None))
    rows = [row for call in log.evaluation.call_args_list for row in call.args[3]]
    assert len(rows) == 6 + 5
    assert all(row['c'] in (0, 4) for row in rows)
    assert {row['answer_diversity'] for row in rows} <= {0.25, None}
