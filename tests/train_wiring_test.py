"""What the loop hands on: every setting arrives where it is used, as configured."""

import dataclasses
import types
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sampling, train
from passk_jax.config import SamplingOptions, stages_of
from passk_jax.data.batches import subset
from passk_jax.evaluation import evaluate
from passk_jax.evaluation.evaluate import Evaluate, EvaluationResult
from passk_jax.learning.batch_loss import BatchLoss
from passk_jax.learning.optimizer import make_optimizer
from passk_jax.learning.update import Update
from passk_jax.rollouts.dynamic_sampling import Select
from passk_jax.rollouts.verify import Verify
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
    optimizer = make_optimizer(setup.config.optimizer, num_updates=30)
    assert setup.update(optimizer) == Update(
        loss=BatchLoss(setup.policy, 0.7, setup.config.loss),
        optimizer=optimizer,
        mesh=setup.mesh,
        # 24 prompts, of which 12 an update and 4 a pass; 2 of 6 rollouts a pass.
        num_updates=2,
        num_micro_batches=3,
        rollout_parts=3,
        pack_sizes=3,
        epochs=3,
        vmem_kib=7,
    )


def test_the_update_deals_rows_where_the_config_says_so(setup):
    config = changed.make_config(train__packing='rows', train__pack_sizes=0)
    other = dataclasses.replace(setup, config=config)
    optimizer = make_optimizer(config.optimizer, num_updates=30)
    dealt, plain = (x.update(optimizer) for x in (other, setup))
    assert dealt == dataclasses.replace(plain, deals=True, pack_sizes=0)


def test_the_optimizer_gets_its_section(tmp_path):
    config = changed.make_config()
    patched = mock.patch.object(train, 'make_optimizer', side_effect=ReachedError)
    with patched as make, pytest.raises(ReachedError):
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


def test_a_step_samples_with_a_key_of_its_own(tmp_path):
    """In the loop itself, which is entered at a step that is not evaluated."""
    config = changed.make_config(eval__every=0, eval__final_split='')
    state = types.SimpleNamespace(step=STEP, params={})
    beginning = train.Beginning(state, {}, {}, {})
    with mock.patch.object(train, 'begin_run', return_value=beginning):
        got = sampled_with(lambda: tiny.run(config, tmp_path))
    purpose = Purpose.ROLLOUTS
    expected = sampling.step_key(seed=17, stage=3, purpose=purpose, step=STEP)
    assert same_key(got['key'], expected)


def test_a_stage_verifies_with_its_task_and_estimates_in_its_selection(setup):
    (stage,) = stages_of(setup.config)
    verbs = train.make_verbs(setup, stage)
    assert (verbs.sample, verbs.evaluate) == (setup.sample(), setup.evaluate())
    assert verbs.verify == Verify(setup.task, setup.tokenizer) == verbs.sample.verify
    assert verbs.select == setup.select(verbs.estimate)
    assert verbs.update == setup.update(verbs.optimizer)


def evaluate_splits(setup, log=None, params=None):
    """Evaluates as before step 0, when both splits are due."""
    (stage,) = stages_of(setup.config)
    splits = {s: setup.evaluation_batches(s) for s in ('validation', 'test')}
    log, verbs = log or mock.MagicMock(), train.make_verbs(setup, stage)
    log.known_evaluation.return_value = None
    return train.evaluate_due(verbs, params, splits, log, 0, stop=lambda: False)


def test_evaluation_samples_with_settings_of_its_own(setup):
    got = sampled_with(lambda: evaluate_splits(setup))
    key = sampling.step_key(
        seed=17, stage=3, purpose=Purpose.EVALUATION, step=0, split='validation'
    )
    assert same_key(got.pop('key'), key)
    assert got == {
        'options': SamplingOptions(temperature=0.6, top_p=0.8, top_k=5, min_p=0.03),
        'num_rollouts': 3,
        'max_response_tokens': 7,
        'stop_tokens': setup.stop_tokens,
        'max_cache_bytes': 1_000_000_007,
    }


def test_every_split_is_evaluated_with_its_name(setup):
    result = EvaluationResult({}, [])
    log = mock.MagicMock()
    with mock.patch.object(Evaluate, '__call__', return_value=result) as evaluated:
        assert evaluate_splits(setup, log)
    first, second = evaluated.call_args_list
    for call, split in ((first, 'validation'), (second, 'test')):
        # The watchdog's time is that of a batch.
        log.begin.reset_mock()
        call.kwargs['on_progress']()
        log.begin.assert_called_once_with('evaluate', 0)
        assert (call.kwargs['split'], call.kwargs['step']) == (split, 0)
        batches = call.args[1]
        # Five of the split's own problems, in batches of two.
        assert batches.num_problems == 5
        assert [len(batch.problems) for batch, _ in batches] == [2, 2, 2]
        batch, _ = next(iter(batches))
        source = setup.task.source(split, data_dir=setup.config.data.dir)
        assert batch.problems == subset(source, 5)[:2]


def test_an_interval_has_the_configured_number_of_resamples(setup):
    batches = mock.MagicMock(num_problems=0, num_dropped=0)
    with mock.patch.object(evaluate, 'summarize', return_value={}) as summarize:
        setup.evaluate()(None, batches, split='test', step=0)
    summarize.assert_called_once_with([], seed=17, bootstrap_samples=31)


def test_the_selection_gets_its_settings(setup):
    estimate = setup.estimate()
    assert setup.select(estimate) == Select(
        estimate=estimate,
        mesh=setup.mesh,
        rounds=2,
        mask_truncated=True,
        seed=(17, 3 * 256 + Purpose.EXTRA_PROBLEMS),
    )


def test_the_log_counts_as_the_run_does(setup, tmp_path):
    with mock.patch.object(train, 'RunLog') as log:
        train.make_log(setup.config, tmp_path, 2)
    got = log.call_args.kwargs
    assert (got['ks'], got['mask_truncated'], got['start']) == ({3}, True, 2)
    stages = {'b': {'start': 2, 'reset_optimizer': False, 'advantage': {'k': 2}}}
    with mock.patch.object(train, 'RunLog') as log:
        train.make_log(changed.make_config(stages=stages), tmp_path, 0)
    assert log.call_args.kwargs['ks'] == {2, 3}


@pytest.mark.parametrize('kl_coef', [0.0, 0.03])
def test_rates_are_of_what_a_stage_trains(setup, kl_coef):
    loss = dataclasses.replace(setup.config.loss, kl_coef=kl_coef)
    config = dataclasses.replace(setup.config, loss=loss)
    (stage,) = stages_of(config)
    with mock.patch.object(train, 'make_rates') as make:
        verbs = train.make_verbs(setup, stage)
    make.assert_called_once_with(setup.policy.arch, setup.mesh, config.train, loss)
    assert verbs.rates is make.return_value


@pytest.mark.slow
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
    for name, overrides in runs.items():
        # So low a limit is met at each step.
        limit = {'optimizer__max_grad_norm': 0.1} | overrides
        workdir = tiny.warm_copy(finished_run, tmp_path / name)
        assert tiny.run(tiny.make_config(**settings | limit), workdir)
        saved = tiny.saved_arrays(workdir, 3)
        params[name] = {key: x for key, x in saved.items() if key.startswith('params/')}
    same = {
        name: all(np.array_equal(x, params['one'][key]) for key, x in arrays.items())
        for name, arrays in params.items()
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
        assert evaluate_splits(setup, log, setup.initial_params(None))
    rows = [row for call in log.evaluation.call_args_list for row in call.args[3]]
    assert len(rows) == 6 + 5
    assert all(row['c'] in (0, 4) for row in rows)
    assert {row['answer_diversity'] for row in rows} <= {0.25, None}
