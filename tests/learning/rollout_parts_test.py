import dataclasses

import jax
import numpy as np
import pytest

from passk_jax.learning import packing, rollout_parts
from passk_jax.learning.batch_loss import Batch
from tests.learning.update_test import N, P, make_advantages, make_rollouts

SIZES = {'parts': 2, 'num_updates': 4}


def split():
    return rollout_parts.split(Batch(make_rollouts(), make_advantages()), **SIZES)


def test_a_row_has_its_prompt_and_a_part_of_its_rollouts():
    rollouts, rows = make_rollouts(), split()
    assert rows.rollouts.tokens.shape[:2] == (2 * P, N // 2)
    seen = set()
    for row in range(2 * P):
        problem = int(rows.rollouts.prompts.problem_ids[row])
        length = rollouts.prompts.lengths[problem]
        assert rows.rollouts.prompts.lengths[row] == length
        np.testing.assert_array_equal(
            rows.rollouts.prompts.tokens[row], rollouts.prompts.tokens[problem]
        )
        for column in range(N // 2):
            advantage = rows.advantages[row, column]
            (place,) = np.flatnonzero(make_advantages()[problem] == advantage)
            tokens = rows.rollouts.tokens[row, column]
            np.testing.assert_array_equal(tokens, rollouts.tokens[problem, place])
            seen.add((problem, int(place)))
    assert len(seen) == P * N


def test_the_rows_of_a_prompt_are_of_its_mini_batch():
    ids = make_rollouts().prompts.problem_ids
    mini_batches = packing.interleave(ids, SIZES['num_updates'])
    rows = split().rollouts.prompts.problem_ids
    cut = packing.interleave(rows, SIZES['num_updates'])
    for mini_batch, parts in zip(mini_batches, cut, strict=True):
        assert sorted(parts.tolist()) == sorted(
            [*mini_batch.tolist(), *mini_batch.tolist()]
        )


def test_a_device_keeps_its_prompts():
    """Of two devices, the first has the first half, before and after."""
    rows = split().rollouts.prompts.problem_ids
    assert set(rows[:P].tolist()) == set(range(P // 2))


def test_join_undoes_split():
    joined = jax.tree.map(
        lambda x: rollout_parts.join(x, **SIZES), (split().advantages,)
    )
    np.testing.assert_array_equal(joined[0], make_advantages())
    tokens = rollout_parts.join(split().rollouts.tokens, **SIZES)
    np.testing.assert_array_equal(tokens, make_rollouts().tokens)


def test_add_sums_what_the_rows_of_a_prompt_have():
    sums = rollout_parts.add(split().advantages.sum(axis=1), **SIZES)
    np.testing.assert_allclose(sums, make_advantages().sum(axis=1), atol=1e-6)


def test_one_part_is_the_batch_itself():
    batch = Batch(make_rollouts(), make_advantages())
    assert rollout_parts.split(batch, parts=1) is batch


def test_no_field_is_forgotten():
    """Every array of the rollouts that has responses is cut."""
    routing = np.zeros((*make_rollouts().tokens.shape, 2, 3), np.int32)
    rollouts = dataclasses.replace(make_rollouts(), routing=routing)
    batch = Batch(rollouts, make_advantages())
    rows = rollout_parts.split(batch, **SIZES).rollouts
    for field in dataclasses.fields(rows):
        if field.name != 'prompts':
            assert getattr(rows, field.name).shape[:2] == (2 * P, N // 2), field.name


@pytest.mark.parametrize('parts', [2, 4])
def test_every_row_is_of_one_prompt_whatever_the_parts(parts):
    rows = rollout_parts.split(
        Batch(make_rollouts(), make_advantages()), parts=parts, num_updates=1
    )
    ids = rows.rollouts.prompts.problem_ids
    np.testing.assert_array_equal(ids, np.repeat(np.arange(P), parts))
