"""What the loop leaves on the devices from one step to the next."""

import weakref
from unittest import mock

from passk_jax import train
from passk_jax.rollouts.sample import Sample
from tests import tiny


def test_rollouts_leave_the_devices_before_an_evaluation_and_the_next_step(tmp_path):
    sampled, live = [], []
    sample, evaluate_due = Sample.__call__, train.evaluate_due

    def count():
        live.append(sum(rollouts() is not None for rollouts in sampled))

    def count_and_sample(self, *args, **key):
        count()
        result = sample(self, *args, **key)
        sampled.append(weakref.ref(result.rollouts.tokens))
        return result

    def count_and_evaluate(*args, **stop):
        count()
        return evaluate_due(*args, **stop)

    with (
        mock.patch.object(Sample, '__call__', count_and_sample),
        mock.patch.object(train, 'evaluate_due', count_and_evaluate),
    ):
        config = tiny.make_config(**tiny.ONLY_STEPS, train__steps=3)
        assert tiny.run(config, tmp_path)
    assert live == [0] * 7
