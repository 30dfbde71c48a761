"""The verb *remember*: tests/train_memory_test.py has it in whole runs."""

import numpy as np
import pytest

from passk_jax.rollouts.dynamic_sampling import Draw
from tests import changed, tiny
from tests.train_test import make_batch


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(changed.make_config(advantage__name='curverl'))


def test_the_memory_is_of_the_configured_estimator_and_problems(setup):
    remember = setup.remember()
    assert (remember.advantage, remember.num_rollouts) == (setup.config.advantage, 6)
    assert remember.follow_difficulty == setup.config.train.follow_difficulty > 0
    assert remember.batches.num_problems == 48


def test_estimator_and_problems_are_remembered_and_a_stage_forgets_the_first():
    config = tiny.make_config(
        advantage__name='curverl',
        advantage__window=2,
        train__follow_difficulty=0.5,
    )
    setup = tiny.make_setup(config)
    remember = setup.remember()
    memory = remember.begin()
    assert memory['history'].tolist() == [[0] * 5] * 2
    assert not memory['difficulty'].any()
    problems, (_, responses) = remember.batches[0].problems, make_batch()
    correct = responses.verdicts.correct
    memory = remember(memory, Draw(problems, responses, None, correct))
    counts = np.bincount(correct.sum(axis=1), minlength=5)
    assert memory['history'].tolist() == [[0] * 5, counts.tolist()]
    rows = remember.batches.numbers(problems)
    right = memory['difficulty'][rows, 0]
    np.testing.assert_array_equal(right, correct.sum(axis=1))
    later = remember.begin_stage(memory)
    assert not np.any(later['history'])
    np.testing.assert_array_equal(later['difficulty'], memory['difficulty'])
