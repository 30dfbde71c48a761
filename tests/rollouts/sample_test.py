"""The verb *sample*: what it hands to the sampler, and what an error leaves behind."""

import contextlib
from unittest import mock

import jax
import pytest

from passk_jax import sampling
from passk_jax.config import SamplingOptions
from passk_jax.rollouts.verify import Verification
from tests import changed, tiny
from tests.train_wiring_test import sampled_with


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(changed.make_config())


def test_rollouts_are_sampled_with_the_settings_of_training(setup):
    batch = setup.train_batches()[0]
    got = sampled_with(lambda: setup.sample()(None, batch, key='key'))
    assert got == {
        'key': 'key',
        'options': SamplingOptions(temperature=0.7, top_p=0.9, top_k=6, min_p=0.02),
        'num_rollouts': 6,
        'max_response_tokens': 7,
        'stop_tokens': setup.stop_tokens,
        'max_cache_bytes': 1_000_000_007,
    }


def test_an_error_before_the_verdicts_ends_the_verification(setup, monkeypatch):
    """Of the sampler, of devices that compute later, and of whoever hears of phases."""
    closed = []
    broken = mock.Mock(side_effect=RuntimeError('out of memory'))
    monkeypatch.setattr(Verification, 'close', lambda self: closed.append(self))
    sample, batch = setup.sample(), setup.train_batches()[0]

    def run():
        sampled = sample({}, batch, key=jax.random.key(0))
        sample.verify(sampled, step=0, begin_phase=broken)

    for module, name in ((sampling, 'sample'), (jax, 'block_until_ready'), (None, '')):
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(sampling, 'sample', mock.Mock()))
            if module:
                stack.enter_context(mock.patch.object(module, name, broken))
            with pytest.raises(RuntimeError, match='out of memory'):
                run()
    assert len(closed) == len({*closed}) == 3
