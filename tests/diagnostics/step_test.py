"""A diagnosis: what the devices compute of a step, and the line that it makes."""

import dataclasses
import math

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.advantages import make_estimator
from passk_jax.diagnostics.gradients import Products
from passk_jax.diagnostics.responses import Mass, Partings, wrong_partings
from passk_jax.diagnostics.step import (
    Diagnose,
    Diagnosis,
    compared_estimators,
    record,
)
from passk_jax.learning.batch_loss import BatchLoss
from tests.diagnostics.gradients_test import products_of
from tests.learning.update_test import (
    LOSS,
    N,
    P,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    place,
)


def make_diagnosis(**changes):
    diagnosis = Diagnosis(
        entropies=np.array([1.5, 0.5, 0, 0], np.float32),
        reaching=np.array([6, 2, 0, 0]),
        partings=Partings(np.array([0.25, 0.75, 0, 0]), np.float32(0.5), 3, 4),
        mass=Mass(*np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3)),
        # Products of the shares (3, 1) and (3, -1), and of (1, 0) and (1, 0).
        products=Products(
            np.array([[36.0, 12.0], [12.0, 4.0]]), np.array([[20.0, 6.0], [6.0, 2.0]])
        ),
        estimators=('a', 'b'),
        num_chunks=2,
    )
    return dataclasses.replace(diagnosis, **changes)


def test_a_line_says_what_a_hand_finds():
    values = record(make_diagnosis())
    lists = {name: values.pop(name).tolist() for name in list(values) if '_by_' in name}
    assert lists == {
        'entropy_by_position': [1.5, 0.5],
        'responses_by_position': [6, 2],
        'parting_by_position': [0.25, 0.75],
        'mass_right_by_right': [0, 1, 2],
        'mass_wrong_by_right': [3, 4, 5],
        'problems_by_right': [0, 1, 2],
    }
    assert values == {
        'parting_position': 0.75,
        'identical_wrong_pairs': 0.5,
        'gradient_signal/a': 32,
        'gradient_noise/a': 4,
        'gradient_signal/b': 4,
        'gradient_noise/b': 0,
        'gradient_product/a/b': 12,
        'gradient_cosine/a/b': pytest.approx(12 / math.sqrt(32 * 4)),
    }


def test_what_no_pair_or_signal_defines_is_undefined():
    partings = Partings(np.zeros(4), np.float32(0), 0, 0)
    products = Products(np.array([[1.0, 1.0], [1.0, 4.0]]), np.full((2, 2), 2.0))
    values = record(make_diagnosis(partings=partings, products=products))
    undefined = {name for name in values if np.isnan(values[name]).any()}
    assert undefined == {
        'parting_position',
        'identical_wrong_pairs',
        'gradient_cosine/a/b',
    }


def test_an_estimator_is_compared_once_and_pass_at_n_with_none():
    for name, k, references in (
        ('rloo', 4, ('pass_at_1', 'canonical_k')),
        ('canonical_k', 4, ('pass_at_1', 'rloo')),
        ('pass_at_k', 8, ('pass_at_1', 'rloo')),
    ):
        assert compared_estimators(name, num_rollouts=8, k=k) == (name, *references)


def rollouts_and_rewarded():
    rng = np.random.default_rng(6)
    rollouts = make_rollouts()
    rollouts = dataclasses.replace(
        rollouts,
        # Two letters, so that responses part at many places.
        tokens=rollouts.tokens % 2,
        stopped=rng.random((P, N)) < 0.7,
        entropies=rng.random(rollouts.tokens.shape).astype(np.float32),
    )
    return rollouts, rng.random((P, N)) < 0.4


# Overlong responses are not trained.
MASKED = dataclasses.replace(LOSS, mask_truncated=True)


def diagnosed(mesh, num_chunks, **options):
    """The arrays of the learner's tests on a mesh, with some responses right."""
    diagnose = Diagnose(
        BatchLoss(make_policy(), 1.0, MASKED),
        mesh,
        name='maxrl',
        num_rollouts=N,
        k=2,
        num_chunks=num_chunks,
        **options,
    )
    rollouts, rewarded = rollouts_and_rewarded()
    with jax.set_mesh(mesh):
        params = place(mesh).params
        arrays = sharding.place(mesh, (rollouts, make_advantages(), rewarded))
        return jax.device_get(diagnose(params, *arrays))


def test_a_diagnosis_is_of_the_arrays_that_the_learner_gets():
    rollouts, rewarded = rollouts_and_rewarded()
    diagnosis = diagnosed(make_mesh(), 4)
    names = 'maxrl', 'pass_at_1', 'rloo', 'canonical_k'
    assert (diagnosis.estimators, diagnosis.num_chunks) == (names, 4)
    rewards = rewarded.astype(np.float32)
    advantages = [make_advantages()]
    for name in ('pass_at_1', 'rloo'):
        advantages.append(make_estimator(name, num_rollouts=N)(rewards, rewarded))
    canonical = make_estimator('canonical_k', num_rollouts=N, k=2)
    advantages.append(canonical(rewards, rewarded))
    expected = products_of(rollouts, np.stack(advantages), config=MASKED)
    np.testing.assert_allclose(diagnosis.products.total, expected.total, rtol=1e-4)
    np.testing.assert_allclose(diagnosis.products.chunks, expected.chunks, rtol=1e-4)
    # Responses that are not trained on have no mass.
    sizes = np.abs(make_advantages()) * rollouts.stopped
    assert diagnosis.mass.right.sum() == pytest.approx(sizes[rewarded].sum(), rel=1e-5)
    assert diagnosis.mass.wrong.sum() == pytest.approx(sizes[~rewarded].sum(), rel=1e-5)
    partings = wrong_partings(rollouts.tokens, rollouts.lengths, ~rewarded)
    np.testing.assert_allclose(diagnosis.partings.by_position, partings.by_position)
    assert diagnosis.partings.num_pairs == partings.num_pairs
    first = rollouts.entropies[..., 0].mean()
    assert diagnosis.entropies[0] == pytest.approx(first, rel=1e-5)
    assert diagnosis.reaching[0] == P * N


@pytest.mark.slow
def test_a_mesh_changes_only_the_rounding_of_a_diagnosis():
    single = jax.tree.leaves(diagnosed(make_mesh(), 2, difficulty_bins=2))
    mesh = make_mesh(data=2, fsdp=2, tensor=2)
    split = jax.tree.leaves(diagnosed(mesh, 2, difficulty_bins=2))
    for x, y in zip(single, split, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
