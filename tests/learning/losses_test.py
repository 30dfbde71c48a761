"""The loss by hand, its gradients, and what must not be able to change it."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from configs import maze_tiny
from passk_jax.config import AGGREGATIONS, LossConfig, from_config_dict
from passk_jax.learning import losses
from tests.shape_checks import call_checked

CLIPS = {'clip_low': 0.2, 'clip_high': 0.28}
DEFAULT = from_config_dict(maze_tiny.get_config()).loss
FULL = dataclasses.replace(DEFAULT, entropy_coef=0.01, kl_coef=0.1)
CONFIGS = [
    DEFAULT,
    FULL,
    dataclasses.replace(FULL, aggregation='sequence'),
    dataclasses.replace(FULL, kl_estimator='k2'),
]


def batch(seed: int = 0, shape: tuple[int, int, int] = (4, 3, 7)) -> dict:
    """A batch off its old policy, with responses of unequal lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, shape[-1] + 1, size=shape[:2])
    old = -rng.uniform(0.1, 3, size=shape)
    arrays = {
        'log_probs': old + rng.normal(scale=0.3, size=shape),
        'entropies': rng.uniform(0, 2, size=shape),
        'old_log_probs': old,
        'ref_log_probs': old + rng.normal(scale=0.3, size=shape),
        'sampler_log_probs': old,
        'advantages': rng.normal(size=shape[:2]),
        'mask': np.arange(shape[-1]) < lengths[..., None],
    }
    # Cast by numpy: JAX would compile a program for it.
    return {
        name: jax.device_put(x.astype(bool if name == 'mask' else np.float32))
        for name, x in arrays.items()
    }


@functools.partial(jax.jit, static_argnames='config')
def loss_and_gradients(arrays: dict, config: LossConfig, normalizer=None):
    if normalizer is None:
        normalizer = losses.normalizer(arrays['mask'], aggregation=config.aggregation)

    def loss(differentiated):
        return losses.total_loss(
            **(arrays | differentiated), normalizer=normalizer, config=config
        )

    names = ('log_probs', 'entropies')
    (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(
        {name: arrays[name] for name in names}
    )
    return value, gradients, metrics


def numpy_loss(arrays: dict, config: LossConfig) -> float:
    """The formulas, token by token in float64."""
    x = {name: np.asarray(value, np.float64) for name, value in arrays.items()}
    per_sequence, num_tokens = [], 0
    for p, n in np.ndindex(x['advantages'].shape):
        advantage, terms = x['advantages'][p, n], []
        for t in np.flatnonzero(x['mask'][p, n]):
            ratio = np.exp(x['log_probs'][p, n, t] - x['old_log_probs'][p, n, t])
            clipped = np.clip(ratio, 1 - config.clip_low, 1 + config.clip_high)
            d = x['log_probs'][p, n, t] - x['ref_log_probs'][p, n, t]
            kl = {'k1': d, 'k2': d**2 / 2, 'k3': np.exp(-d) - 1 + d}
            terms.append(
                -min(ratio * advantage, clipped * advantage)
                + config.kl_coef * kl[config.kl_estimator]
                - config.entropy_coef * x['entropies'][p, n, t]
            )
        num_tokens += len(terms)
        per_sequence.append(terms)
    if config.aggregation == 'token':
        return sum(map(sum, per_sequence)) / num_tokens
    return float(np.mean([np.mean(terms) for terms in per_sequence]))


@pytest.mark.parametrize('config', CONFIGS)
def test_loss_equals_the_formulas_in_float64(config):
    arrays = batch()
    value, _, _ = loss_and_gradients(arrays, config)
    np.testing.assert_allclose(value, numpy_loss(arrays, config), rtol=2e-6)


@pytest.mark.parametrize(
    ('ratio', 'advantage', 'loss', 'slope'),
    [
        # Inside the clip the gradient in log_probs is -ratio * advantage.
        (1.0, 2.0, -2.0, -2.0),
        (1.25, 1.0, -1.25, -1.25),
        (0.85, -1.0, 0.85, 0.85),
        # Clip-higher: 1.25 is inside for a positive advantage, 1.3 is not.
        (1.3, 1.0, -1.28, 0.0),
        (0.7, -1.0, 0.8, 0.0),
        # A clip never binds against the direction that undoes the change.
        (0.5, 1.0, -0.5, -0.5),
        (3.0, -1.0, 3.0, 3.0),
        # No dual clip: a large ratio on a wrong response costs in full.
        (50.0, -2.0, 100.0, 100.0),
        (0.9, 0.0, 0.0, 0.0),
    ],
)
def test_clip_by_hand(ratio, advantage, loss, slope):
    def token_loss(log_probs):
        return losses.policy_loss(
            log_probs,
            jnp.full((1, 1, 1), -1.0),
            jnp.full((1, 1), advantage),
            jnp.ones((1, 1, 1), bool),
            **CLIPS,
        ).values.sum()

    log_probs = jnp.full((1, 1, 1), np.log(ratio) - 1.0)
    value, gradient = jax.value_and_grad(token_loss)(log_probs)
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    np.testing.assert_allclose(gradient[0, 0, 0], slope, rtol=1e-5)


def test_gradient_at_ratio_1_is_that_of_reinforce():
    arrays = batch()
    arrays['log_probs'] = arrays['old_log_probs']
    value, gradients, metrics = loss_and_gradients(arrays, DEFAULT)
    mask, advantages = np.asarray(arrays['mask']), np.asarray(arrays['advantages'])
    expected = -advantages[..., None] * mask / mask.sum()
    np.testing.assert_allclose(gradients['log_probs'], expected, rtol=1e-6)
    np.testing.assert_allclose(value, expected.sum(), rtol=1e-5)
    assert metrics['old_kl'] == 0
    assert metrics['clip_fraction_low'] == metrics['clip_fraction_high'] == 0


@pytest.mark.parametrize('log_ratio', [200.0, -200.0])
@pytest.mark.parametrize('advantage', [1.0, -1.0, 0.0])
def test_a_ratio_that_overflows_gives_no_nan(log_ratio, advantage):
    def token_loss(log_probs):
        return losses.policy_loss(
            log_probs,
            jnp.zeros((1, 1, 1)),
            jnp.full((1, 1), advantage),
            jnp.ones((1, 1, 1), bool),
            **CLIPS,
        ).values.sum()

    value, gradient = jax.value_and_grad(token_loss)(jnp.full((1, 1, 1), log_ratio))
    clipped = advantage * log_ratio > 0
    assert not np.isnan(value)
    assert not np.isnan(gradient).any()
    # An infinite loss is what the formula says there; a clipped one is flat.
    assert np.isfinite(value) or (advantage < 0 and log_ratio > 0)
    if clipped or advantage == 0:
        assert gradient[0, 0, 0] == 0


@pytest.mark.parametrize('log_prob', [np.nan, np.inf, -np.inf])
def test_a_response_without_advantage_adds_nothing_whatever_its_log_probs(log_prob):
    arrays = batch()
    arrays['advantages'] = arrays['advantages'].at[1, 2].set(0.0)
    polluted = arrays | {'log_probs': arrays['log_probs'].at[1, 2].set(log_prob)}
    value, gradients, _ = loss_and_gradients(arrays, DEFAULT)
    other_value, other_gradients, _ = loss_and_gradients(polluted, DEFAULT)
    assert value == other_value
    jax.tree.map(np.testing.assert_array_equal, gradients, other_gradients)


@pytest.mark.parametrize('config', CONFIGS)
@pytest.mark.parametrize('garbage', [np.nan, np.inf, -np.inf, 1e30])
def test_what_is_in_the_padding_changes_nothing(config, garbage):
    arrays = batch()
    polluted = {
        name: jnp.where(arrays['mask'], x, garbage) if x.ndim == 3 else x
        for name, x in arrays.items()
        if name != 'mask'
    } | {'mask': arrays['mask']}
    value, gradients, metrics = loss_and_gradients(arrays, config)
    other_value, other_gradients, other_metrics = loss_and_gradients(polluted, config)
    assert value == other_value
    jax.tree.map(np.testing.assert_array_equal, metrics, other_metrics)
    jax.tree.map(np.testing.assert_array_equal, gradients, other_gradients)


@pytest.mark.parametrize('config', CONFIGS)
def test_more_padding_changes_nothing(config):
    arrays = batch()
    padded = {
        name: jnp.pad(x, ((0, 0), (0, 0), (0, 5))) if x.ndim == 3 else x
        for name, x in arrays.items()
    }
    value, gradients, _ = loss_and_gradients(arrays, config)
    other_value, other_gradients, _ = loss_and_gradients(padded, config)
    np.testing.assert_allclose(value, other_value, rtol=1e-6)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, other_gradients[name][..., :-5], rtol=1e-6)
        assert not other_gradients[name][..., -5:].any()


@pytest.mark.parametrize('config', CONFIGS)
def test_an_empty_response_changes_nothing(config):
    arrays = batch()
    extra = {name: jnp.concatenate([x, x[:1]]) for name, x in arrays.items()}
    extra['mask'] = extra['mask'].at[-1].set(False)
    value, _, _ = loss_and_gradients(arrays, config)
    other_value, gradients, _ = loss_and_gradients(extra, config)
    np.testing.assert_allclose(value, other_value, rtol=1e-6)
    assert not gradients['log_probs'][-1].any()


@pytest.mark.parametrize('config', CONFIGS)
def test_a_batch_without_tokens_has_loss_0(config):
    arrays = batch()
    arrays['mask'] = jnp.zeros_like(arrays['mask'])
    value, gradients, _ = loss_and_gradients(arrays, config)
    assert value == 0
    assert not any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize('config', CONFIGS)
@pytest.mark.parametrize('parts', [2, 4])
def test_micro_batches_add_up_to_the_whole(config, parts):
    arrays = batch()
    counts = np.asarray(arrays['mask']).sum(axis=(1, 2))
    assert len(set(counts)) > 1, 'equal token counts would hide a mean of means'
    value, gradients, metrics = loss_and_gradients(arrays, config)
    normalizer = losses.normalizer(arrays['mask'], aggregation=config.aggregation)
    pieces = []
    for i in range(parts):
        piece = {name: x[i::parts] for name, x in arrays.items()}
        pieces.append(loss_and_gradients(piece, config, normalizer))
    np.testing.assert_allclose(sum(p[0] for p in pieces), value, rtol=1e-6, atol=1e-6)
    for name, gradient in gradients.items():
        for i in range(parts):
            np.testing.assert_allclose(
                pieces[i][1][name], gradient[i::parts], rtol=1e-6
            )

    @jax.jit
    def finish(several):
        stacked = {name: jnp.stack([m[name] for m in several]) for name in several[0]}
        del stacked['problem_loss']
        joined = losses.join_metrics(stacked)
        # A second update, because the clip fractions are not of the first.
        twice = {name: jnp.stack([x, x]) for name, x in joined.items()}
        return losses.finish_metrics(twice, jnp.full(2, arrays['mask'].sum()))

    undivided, summed = finish([metrics]), finish([p[2] for p in pieces])
    assert undivided.keys() == summed.keys()
    for name, x in undivided.items():
        np.testing.assert_allclose(summed[name], x, rtol=1e-5, atol=1e-6)


def test_token_and_sequence_means_differ_as_they_should():
    values = jnp.asarray([[[1.0, 1.0, 1.0, 1.0], [5.0, 9.0, 9.0, 9.0]]])
    mask = jnp.asarray([[[True] * 4, [True] + [False] * 3]])

    def mean(aggregation):
        normalizer = losses.normalizer(mask, aggregation=aggregation)
        return losses.aggregate(
            values, mask, aggregation=aggregation, normalizer=normalizer
        ).sum()

    assert mean('token') == pytest.approx(9 / 5)
    assert mean('sequence') == pytest.approx((1 + 5) / 2)


def test_problem_loss_names_the_prompt_that_is_not_finite():
    arrays = batch()
    arrays['log_probs'] = arrays['log_probs'].at[2, 1, 0].set(jnp.nan)
    _, _, metrics = loss_and_gradients(arrays, FULL)
    np.testing.assert_array_equal(
        np.isfinite(metrics['problem_loss']), [True, True, False, True]
    )


def test_problem_losses_add_up_to_the_loss():
    value, _, metrics = loss_and_gradients(batch(), FULL)
    np.testing.assert_allclose(metrics['problem_loss'].sum(), value, rtol=1e-6)


def test_a_loss_of_twice_the_advantages_has_twice_the_gradient():
    arrays = batch()
    _, gradients, _ = loss_and_gradients(arrays, DEFAULT)
    doubled = arrays | {'advantages': 2 * arrays['advantages']}
    _, twice, _ = loss_and_gradients(doubled, DEFAULT)
    np.testing.assert_array_equal(twice['log_probs'], 2 * gradients['log_probs'])


def test_entropy_bonus_raises_the_entropy_evenly():
    arrays = batch()
    config = dataclasses.replace(DEFAULT, entropy_coef=0.5)
    _, gradients, _ = loss_and_gradients(arrays, config)
    mask = np.asarray(arrays['mask'])
    np.testing.assert_allclose(
        gradients['entropies'], -0.5 * mask / mask.sum(), rtol=1e-6
    )


def test_bfloat16_inputs_are_computed_in_float32():
    arrays = batch()
    halves = {
        name: x.astype(jnp.bfloat16) if name != 'mask' else x
        for name, x in arrays.items()
    }
    back = {
        name: x.astype(jnp.float32) if name != 'mask' else x
        for name, x in halves.items()
    }
    value, _, metrics = loss_and_gradients(halves, FULL)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, loss_and_gradients(back, FULL)[0], rtol=1e-6)
    assert all(x.dtype == jnp.float32 for x in metrics.values())


def test_the_reference_and_the_old_policy_are_constants():
    arrays = batch()

    def loss(old, ref):
        return losses.total_loss(
            **(arrays | {'old_log_probs': old, 'ref_log_probs': ref}),
            normalizer=jnp.float32(1),
            config=FULL,
        )[0]

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(
        arrays['old_log_probs'], arrays['ref_log_probs']
    )
    assert not any(gradient.any() for gradient in gradients)


def test_a_kl_without_a_reference_is_refused():
    arrays = batch() | {'ref_log_probs': None}
    with pytest.raises(ValueError, match=r'kl_coef=0.1 needs ref_log_probs'):
        loss_and_gradients(arrays, FULL)


def test_annotations_hold():
    arrays = batch()
    mask, values = arrays['mask'], arrays['entropies']
    new, old = arrays['log_probs'], arrays['old_log_probs']
    call_checked(losses.policy_loss, new, old, arrays['advantages'], mask, **CLIPS)
    call_checked(losses.kl_penalty, new, old, mask, estimator='k3')
    for name in AGGREGATIONS:
        count = call_checked(losses.normalizer, mask, aggregation=name)
        call_checked(losses.aggregate, values, mask, aggregation=name, normalizer=count)


def test_sharded_over_devices_equals_unsharded():
    arrays = batch(shape=(8, 3, 7))
    mesh = jax.make_mesh((8,), ('data',), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))
    spread = jax.tree.map(lambda x: jax.device_put(x, split), arrays)

    @jax.jit
    def step(arrays):
        return loss_and_gradients(arrays, FULL)[:2]

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7),
        step(arrays),
        step(spread),
    )
