"""What the command hands on is what the run's own evaluations have."""

import dataclasses
from unittest import mock

import numpy as np

from passk_jax import evaluate, sampling
from passk_jax.sampling import Purpose
from tests import changed, tiny
from tests.train_wiring_test import same_key, sampled_with


def test_the_command_samples_with_the_settings_of_the_runs_evaluations(tmp_path):
    config = changed.make_config()
    of_run = mock.patch.object(evaluate.saved_config, 'run_config', return_value=config)
    params = mock.patch.object(evaluate, 'restore_params', return_value=(None, 4))
    newest = mock.patch.object(evaluate, 'find_step', return_value=4)
    identity = mock.patch.object(evaluate.commits, 'identity', return_value='abc')
    with of_run, newest, identity, params, tiny.devices(1):
        got = sampled_with(
            lambda: evaluate.main(workdir=str(tmp_path), split='validation', top_k=4)
        )
    key = sampling.step_key(
        seed=17, stage=3, purpose=Purpose.EVALUATION, step=4, split='validation'
    )
    assert same_key(got['key'], key)
    assert dataclasses.asdict(got['options']) == {
        'temperature': 0.6,
        'top_p': 0.8,
        'top_k': 4,
        'min_p': 0.03,
    }
    assert np.array_equal((got['num_rollouts'], got['max_response_tokens']), (3, 7))
