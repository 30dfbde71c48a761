"""The verb *update*: exactness of its gradients and ratios, and what it leaves out."""

import dataclasses

import jax
import numpy as np
import optax
import pytest
from jax import numpy as jnp

from passk_jax.learning import batch_loss, losses
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning.update import add_gradient
from passk_jax.models import policy as policies
from tests.learning.update_test import (
    LOSS,
    OPTIMIZER,
    N,
    P,
    assert_params_close,
    figures_of,
    log_probs_of,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    run_step,
    start,
)
from tests.slow import slow_values


def test_the_first_of_several_updates_has_ratios_of_exactly_one():
    # With advantages of 1 a problem's loss is minus the sum of its ratios, divided.
    rollouts, ones = make_rollouts(), np.ones((P, N), np.float32)
    _, metrics = run_step(advantages=ones, num_updates=4)
    tokens = rollouts.lengths.sum(axis=1)[0::4].astype(np.float32)
    expected = -tokens / tokens.sum()
    np.testing.assert_array_equal(metrics['problem_loss'][0, 0::4], expected)
    assert metrics['old_kl'] > 0, 'the later ones are off-policy'


def test_a_scaled_advantage_scales_the_gradient_bit_for_bit():
    """Rounding that depends on the scale would be a cast in the wrong place."""
    _, one = run_step()
    _, four = run_step(advantages=4 * make_advantages())
    assert four['grad_norm'] == 4 * one['grad_norm']
    np.testing.assert_array_equal(four['problem_loss'], 4 * one['problem_loss'])


@pytest.mark.parametrize('packed', slow_values([{}, {'pack_sizes': 2}], quick=[{}]))
def test_prompts_without_a_signal_are_measured_and_not_learned_from(packed):
    advantages = make_advantages()
    advantages[::2] = 0
    settings = {'num_micro_batches': P, **packed}
    skipped = run_step(advantages=advantages, loss=LOSS, **settings)
    # A bonus below all rounding, for which every prompt has a gradient.
    loss = dataclasses.replace(LOSS, entropy_coef=1e-30)
    complete = run_step(advantages=advantages, loss=loss, **settings)
    jax.tree.map(np.testing.assert_array_equal, skipped[0], complete[0])
    assert skipped[1].keys() == complete[1].keys()
    for name, value in skipped[1].items():
        np.testing.assert_allclose(value, complete[1][name], atol=1e-12, err_msg=name)
    _, metrics = run_step(advantages=np.zeros_like(advantages), loss=LOSS, **packed)
    assert metrics['grad_norm'] == 0
    assert metrics['entropy'] > 0


def truncate_some(rollouts):
    stopped = np.random.default_rng(2).uniform(size=(P, N)) < 0.6
    return dataclasses.replace(rollouts, stopped=stopped)


@pytest.mark.parametrize(
    'aggregation', slow_values(['token', 'sequence'], quick=['token'])
)
def test_truncated_responses_are_in_no_sum_and_no_normalizer(aggregation):
    rollouts, advantages = truncate_some(make_rollouts()), make_advantages()
    trained, lengths = rollouts.stopped, rollouts.lengths
    loss = dataclasses.replace(LOSS, mask_truncated=True, aggregation=aggregation)
    params, metrics = run_step(rollouts=rollouts, advantages=advantages, loss=loss)
    weights = trained * (lengths if aggregation == 'token' else 1)
    expected = -(weights * advantages).sum() / weights.sum()
    assert metrics['loss'] == pytest.approx(expected, abs=1e-6)
    # Nor do the advantages of truncated responses matter.
    other = np.where(trained, advantages, 100.0).astype(np.float32)
    again, _ = run_step(rollouts=rollouts, advantages=other, loss=loss)
    assert_params_close(params, again, atol=0)
    _, unmasked = run_step(rollouts=rollouts, advantages=other)
    assert unmasked['loss'] < metrics['loss'] - 1


def test_a_batch_of_truncated_responses_has_no_gradient():
    rollouts = dataclasses.replace(make_rollouts(), stopped=np.zeros((P, N), bool))
    loss = dataclasses.replace(LOSS, mask_truncated=True)
    _, metrics = run_step(rollouts=rollouts, loss=loss)
    assert metrics['loss'] == metrics['grad_norm'] == 0
    assert metrics['finite_updates'].all()


# A policy that stands still, and a warm-up: of its three updates, a step makes two.
STILL = {
    'loss': dataclasses.replace(LOSS, mask_truncated=True, sampler_weight_cap=2.0),
    'optimizer': dataclasses.replace(OPTIMIZER, learning_rate=1e-30, warmup_updates=3),
}


@pytest.mark.parametrize('num_updates', slow_values([1, 2], quick=[1]))
def test_figures_of_tokens_are_of_those_trained_whatever_updates_they_are_in(
    num_updates,
):
    """Of two updates the first has none, and their lengths differ anyhow."""
    rollouts = make_rollouts()
    trained = np.broadcast_to(np.arange(P)[:, None] % 2 == 1, (P, N))
    learner, entropies = learner_figures(rollouts)
    sampler = learner - np.random.default_rng(3).uniform(0, 0.5, learner.shape)
    rollouts = dataclasses.replace(
        rollouts, stopped=trained, sampler_log_probs=sampler.astype(np.float32)
    )
    _, metrics = run_step(rollouts=rollouts, num_updates=num_updates, **STILL)
    mask = trained[..., None] & (
        np.arange(learner.shape[-1]) < rollouts.lengths[..., None]
    )
    assert metrics['entropy'] == pytest.approx(entropies[mask].mean(), rel=1e-5)
    weights = np.exp(learner - sampler)[mask]
    assert metrics['sampler_weight'] == pytest.approx(weights.mean(), rel=1e-5)


@pytest.mark.slow
def test_without_a_cap_what_the_sampler_said_changes_no_bit():
    rng = np.random.default_rng(4)
    rollouts = make_rollouts()
    noise = rng.normal(size=rollouts.tokens.shape).astype(np.float32)
    other = dataclasses.replace(rollouts, sampler_log_probs=noise)
    for num_updates in (1, 2):
        a, metrics = run_step(rollouts=rollouts, num_updates=num_updates)
        b, _ = run_step(rollouts=other, num_updates=num_updates)
        assert_params_close(a, b, atol=0)
        assert 'sampler_weight' not in metrics


@pytest.mark.slow
def test_the_weights_are_those_of_the_sampler_against_the_learner():
    """A sampler whose log-probabilities are log 2 below: every weight is 2.

    One whose are log 8 below: every weight is capped at 4.
    """
    rollouts = make_rollouts()
    learner, _ = learner_figures(rollouts)
    settings = {'num_updates': 2}
    loss = dataclasses.replace(LOSS, sampler_weight_cap=4.0)

    def run(weight):
        shift = np.float32(np.log(weight))
        shifted = dataclasses.replace(rollouts, sampler_log_probs=learner - shift)
        return run_step(rollouts=shifted, loss=loss, **settings)

    plain, metrics = run_step(rollouts=rollouts, **settings)
    agreed, weighted = run(1)
    assert_params_close(plain, agreed, atol=1e-5)
    assert weighted['loss'] == pytest.approx(metrics['loss'], abs=1e-5)
    assert weighted['sampler_weight'] == pytest.approx(1, abs=1e-5)
    _, doubled = run(2)
    assert doubled['sampler_weight'] == pytest.approx(2, abs=1e-5)
    assert doubled['sampler_weight_capped'] == 0
    first = (0, slice(0, None, 2))
    np.testing.assert_allclose(
        doubled['problem_loss'][first], 2 * metrics['problem_loss'][first], atol=1e-5
    )
    _, capped = run(8)
    assert capped['sampler_weight'] == pytest.approx(4)
    assert capped['sampler_weight_capped'] == 1


def learner_figures(rollouts):
    """Log-probabilities and entropies of the tokens before the first update."""
    figures = figures_of(make_policy(), start().params, rollouts)[:2]
    return tuple(map(np.asarray, figures))


@pytest.mark.slow
def test_epochs_are_more_updates_against_the_same_old_policy():
    """Three epochs of one mini-batch are three updates of the surrogate."""
    rollouts, advantages = make_rollouts(), make_advantages()
    policy, params = make_policy(), start().params
    old = log_probs_of(policy, params, rollouts)
    mask = batch_loss.response_mask(rollouts)

    def surrogate(params):
        log_probs = log_probs_of(policy, params, rollouts)
        clips = {'clip_low': LOSS.clip_low, 'clip_high': LOSS.clip_high}
        values = losses.policy_loss(log_probs, old, advantages, mask, **clips).values
        return values.sum() / mask.sum()

    transform = optimizers.make_optimizer(OPTIMIZER)

    @jax.jit
    def update(params, state):
        moves, state = transform.update(jax.grad(surrogate)(params), state, params)
        return optax.apply_updates(params, moves), state

    state, expected = jax.jit(transform.init)(params), params
    for _ in range(3):
        expected, state = update(expected, state)
    got, metrics = run_step(epochs=3)
    assert_params_close(got, expected, atol=2e-5)
    one, _ = run_step(steps=3)
    assert any(np.abs(one[name] - expected[name]).max() > 1e-3 for name in expected)
    assert metrics['finite_updates'].tolist() == [[True]] * 3
    assert metrics['problem_loss'].shape == (3, P)
    assert metrics['clip_fraction_high_update_3'] > 0
    # The gap to the sampler is that of the policy before the step.
    gap = jnp.where(mask, jnp.abs(old), 0).max()
    assert metrics['sampler_gap_max'] == pytest.approx(float(gap), rel=1e-5)


def test_an_epoch_of_several_mini_batches_begins_on_policy_and_only_the_first():
    _, once = run_step(num_updates=2)
    _, twice = run_step(num_updates=2, epochs=2)
    assert twice['clip_fraction_high_update_2'] == pytest.approx(
        once['clip_fraction_high_update_2'], abs=1e-6
    )
    assert twice['ratio_max'] > once['ratio_max']
    assert twice['padding'] == pytest.approx(once['padding'], abs=1e-6)
    assert twice['problem_loss'][0] == pytest.approx(once['problem_loss'][0], abs=1e-6)
    # The same mini-batches with other parameters.
    assert (np.abs(twice['problem_loss'][1] - twice['problem_loss'][0]) > 1e-6).all()


def test_the_learning_rate_is_that_of_the_last_update():
    for steps, rate in ((1, 2 / 3), (2, 1.0)):
        _, metrics = run_step(num_updates=2, steps=steps, **STILL)
        assert metrics['learning_rate'] == pytest.approx(rate * 1e-30, rel=1e-6, abs=0)


def test_the_gradients_of_a_pass_never_exist_beside_their_sum():
    policy, mesh = make_policy(), make_mesh()
    sizes = {'num_layers': 8, 'embed_dim': 64, 'mlp_dim': 512, 'remat': 'full'}
    policy = dataclasses.replace(policy, arch=dataclasses.replace(policy.arch, **sizes))
    loss = batch_loss.BatchLoss(policy, 1.0, LOSS)
    batch = batch_loss.Batch(make_rollouts(), make_advantages())
    args = jax.tree.map(lambda x: x[:1], batch), jnp.bool_(True), jnp.float32(9), None

    def add_to(total, params):
        return add_gradient(total, lambda x: loss(x, *args), params)[0]

    def add_in_full(total, params):
        grads, _ = jax.grad(loss, has_aux=True)(params, *args)
        return jax.tree.map(jnp.add, total, grads)

    def run(fn):
        """The sum, and the temporary bytes by those of the parameters."""
        params = policies.init_params(policy, jax.random.key(0), mesh)
        total = jax.tree.map(jnp.ones_like, params)
        compiled = jax.jit(fn, donate_argnums=0).lower(total, params).compile()
        temporary = compiled.memory_analysis().temp_size_in_bytes
        return compiled(total, params), temporary / sum(
            x.nbytes for x in params.values()
        )

    with jax.set_mesh(mesh):
        (in_place, few), (in_full, many) = run(add_to), run(add_in_full)
    assert_params_close(in_place, in_full, atol=1e-6)
    assert few < many - 0.5
