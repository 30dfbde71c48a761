"""Every alias is the other project's quantity, computed as that project does."""

import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.config import LogConfig
from passk_jax.learning import losses
from passk_jax.report import run_log
from passk_jax.runs.aliases import ALIASES, Alias, aliased
from tests import tiny
from tests.report.run_log_test import make_draws
from tests.tiny import ROOT

TOKENS = np.array([10, 4, 7])
LOW, HIGH = np.array([0.0, 2, 1]), np.array([0.0, 1, 3])


def finished(**sums):
    """Our metrics of a step, from sums over the tokens of three updates."""
    values = {name: jnp.asarray(x, jnp.float32) for name, x in sums.items()}
    step = losses.finish_metrics(values, jnp.asarray(TOKENS))
    return {name: float(value) for name, value in step.items()}


def test_the_config_has_these_projects():
    field = {f.name: f for f in dataclasses.fields(LogConfig)}['aliases']
    assert field.metadata['choices'] == ('', *ALIASES)
    assert aliased('', {'reward': 1.0}) == {}


def test_shares_of_clipped_tokens_count_every_update():
    values = finished(clip_fraction_low=LOW, clip_fraction_high=HIGH)
    # Both projects average the shares of the updates, of which the first has none.
    low, high = (LOW / TOKENS).mean(), (HIGH / TOKENS).mean()
    assert aliased('trl', values) == pytest.approx(
        {
            'train/clip_ratio/low_mean': low,
            'train/clip_ratio/high_mean': high,
            'train/clip_ratio/region_mean': low + high,
        }
    )
    assert aliased('verl', values) == pytest.approx({'actor/pg_clipfrac': low + high})


def test_a_single_update_clips_nothing():
    one = {'clip_fraction_low': 0.0, 'clip_fraction_high': 0.0}
    assert aliased('verl', one) == {'actor/pg_clipfrac': 0.0}


def test_with_dynamic_sampling_the_batch_is_that_which_is_trained_on():
    values = {'trained_reward': 0.5, 'reward': 0.25, 'response_length': 3.0}
    expected = {'critic/score/mean': 0.5, 'response_length/mean': 3.0}
    assert aliased('verl', values) == expected


def test_the_update_of_one_metric_is_not_that_of_another():
    values = {'a': 1.0, 'a_update_2': 0.5, 'b_update_2': 7.0, 'a_updates': 9.0}
    assert Alias(('a',), 'updates').value(values) == 0.25


def test_clipped_tokens_are_those_of_the_other_projects():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    advantages = rng.normal(size=(3, 4)).astype(np.float32)
    clips = {'clip_low': 0.2, 'clip_high': 0.28}
    ours = losses.policy_loss(new, old, advantages, np.ones_like(old, bool), **clips)
    ratio, a = np.exp(new - old), advantages[..., None]
    # TRL's coef_1, and verl's pg_losses2 > pg_losses1.
    np.testing.assert_array_equal(ours.low, (ratio < 0.8) & (a < 0))
    np.testing.assert_array_equal(ours.high, (ratio > 1.28) & (a > 0))
    clipped = -a * np.clip(ratio, 0.8, 1.28) > -a * ratio
    np.testing.assert_array_equal(ours.low | ours.high, clipped)
    assert clipped.any()


def test_rewards_and_lengths_are_those_of_the_responses():
    draw = make_draws().first
    values = run_log.batch_metrics(draw, ks=(2,), mask_truncated=False)
    responses, rewards = draw.responses, draw.responses.verdicts.rewards
    trl, verl = aliased('trl', values), aliased('verl', values)
    assert trl == pytest.approx(
        {
            'train/frac_reward_zero_std': np.isclose(rewards.std(axis=1), 0).mean(),
            'train/completions/mean_length': responses.lengths.mean(),
            'train/completions/clipped_ratio': 1 - responses.stopped.mean(),
        }
    )
    assert verl == pytest.approx(
        {
            'critic/score/mean': rewards.mean(),
            'response_length/mean': responses.lengths.mean(),
        }
    )


def test_rewards_of_one_value_that_is_neither_0_nor_1_have_no_spread():
    draw = make_draws().first
    rewards = np.array([[0.5] * 4, [0.5, 0, 0, 0], [0] * 4, [1] * 4], np.float32)
    verdicts = dataclasses.replace(draw.responses.verdicts, rewards=rewards)
    responses = dataclasses.replace(draw.responses, verdicts=verdicts)
    draw = dataclasses.replace(draw, responses=responses)
    values = run_log.batch_metrics(draw, ks=(2,), mask_truncated=False)
    assert aliased('trl', values)['train/frac_reward_zero_std'] == 0.75


def test_a_run_has_the_metrics_of_every_alias(tmp_path):
    changes = {'train__mini_batch_prompts': 4, 'train__steps': 1}
    config = tiny.make_config(**tiny.ONLY_STEPS, **changes, log__aliases='trl')
    assert tiny.run(config, tmp_path / 'run')
    lines = (tmp_path / 'run' / 'metrics.jsonl').read_text().splitlines()
    row = json.loads(lines[-1])
    assert 'clip_fraction_low_update_2' in row
    for project, names in ALIASES.items():
        assert aliased(project, row).keys() == names.keys()


def test_the_page_lists_every_alias():
    text = (ROOT / 'docs' / 'coming_from.md').read_text()
    table = re.findall(r'^\| `([^`]+)` \| (TRL|verl) \|', text, re.MULTILINE)
    assert sorted(table) == sorted(
        (name, {'trl': 'TRL', 'verl': 'verl'}[project])
        for project, names in ALIASES.items()
        for name in names
    )
