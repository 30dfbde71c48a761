"""The optimizer's updates by hand, with no setting at its default."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from passk_jax.config import OptimizerConfig
from passk_jax.learning import optimizer as optimizers

CONFIG = OptimizerConfig(
    name='adamw',
    learning_rate=3e-3,
    warmup_updates=3,
    schedule='cosine',
    b1=0.8,
    b2=0.9,
    # Large, so that the size of a gradient counts.
    eps=1e-1,
    weight_decay=0.3,
    max_grad_norm=0.5,
)


def gradients():
    """Of five updates; some are clipped, and by different factors."""
    rng = np.random.default_rng(0)
    sizes = (2.0, 0.1, 1.0, 0.2, 5.0)
    return [
        {'a.kernel': s * rng.normal(size=(2, 3)), 'b.bias': s * rng.normal(size=3)}
        for s in sizes
    ]


def start():
    rng = np.random.default_rng(1)
    return {'a.kernel': rng.normal(size=(2, 3)), 'b.bias': rng.normal(size=3)}


def by_hand(config, clip=True):
    """In float64: clip, AdamW's moments and bias correction, decay, rate."""
    params = start()
    first = {name: np.zeros_like(x) for name, x in params.items()}
    second = {name: np.zeros_like(x) for name, x in params.items()}
    for u, grads in enumerate(gradients(), start=1):
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        factor = min(1.0, config.max_grad_norm / norm) if clip else 1.0
        rate = config.learning_rate * min(1.0, u / config.warmup_updates)
        # The third of five updates has the full rate; a sixth would have none.
        x = max(0.0, (u - 3) / 3)
        falls = {'constant': 1, 'linear': 1 - x, 'cosine': (1 + np.cos(np.pi * x)) / 2}
        rate *= falls[config.schedule]
        for name, g in grads.items():
            g = g * factor
            first[name] = config.b1 * first[name] + (1 - config.b1) * g
            second[name] = config.b2 * second[name] + (1 - config.b2) * g**2
            mean = first[name] / (1 - config.b1**u)
            root = np.sqrt(second[name] / (1 - config.b2**u))
            decay = config.weight_decay if name.endswith('kernel') else 0.0
            adam = mean / (root + config.eps)
            move = adam if config.name == 'adamw' else g
            move = move + decay * params[name]
            params[name] = params[name] - rate * move
    return params


def ours(config):
    optimizer = optimizers.make_optimizer(config, num_updates=5)
    params = {name: jnp.float32(x) for name, x in start().items()}
    state = optimizer.init(params)
    for grads in gradients():
        grads = {name: jnp.float32(x) for name, x in grads.items()}
        moves, state = optimizer.update(grads, state, params)
        params = {name: params[name] + moves[name] for name in params}
    return params


def assert_same(a, b):
    for name in b:
        np.testing.assert_allclose(a[name], b[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize('schedule', ['linear', 'cosine'])
def test_updates_of_sgd_are_those_of_the_formulas(schedule):
    config = dataclasses.replace(CONFIG, name='sgd', schedule=schedule)
    assert_same(ours(config), by_hand(config))
    # It has no moments.
    assert_same(
        ours(dataclasses.replace(config, b1=0.1, b2=0.2, eps=1.0)), ours(config)
    )


@pytest.mark.parametrize('schedule', ['constant', 'linear', 'cosine'])
def test_updates_are_those_of_the_formulas(schedule):
    config = dataclasses.replace(CONFIG, schedule=schedule)
    assert_same(ours(config), by_hand(config))


@pytest.mark.parametrize(
    ('schedule', 'warmup', 'num_updates', 'rates'),
    [
        ('constant', 2, 0, [0.5, 1, 1, 1, 1]),
        ('linear', 2, 4, [0.5, 1, 2 / 3, 1 / 3, 0, 0]),
        ('linear', 0, 4, [1, 3 / 4, 2 / 4, 1 / 4, 0]),
        ('cosine', 0, 2, [1, 0.5, 0]),
        # A run that ends in its warm-up.
        ('linear', 4, 2, [0.25, 0.5]),
    ],
)
def test_the_rate_rises_and_falls_to_zero_after_the_last_update(
    schedule, warmup, num_updates, rates
):
    config = dataclasses.replace(
        CONFIG, learning_rate=2.0, warmup_updates=warmup, schedule=schedule
    )
    rate = optimizers.make_optimizer(config, num_updates=num_updates).learning_rate
    got = [rate(jnp.int32(count)) for count in range(len(rates))]
    np.testing.assert_allclose(got, 2 * np.array(rates), atol=1e-6)


def test_a_rate_that_falls_needs_to_know_when_the_run_ends():
    with pytest.raises(ValueError, match=r"schedule='cosine' needs .*num_updates=0"):
        optimizers.make_optimizer(CONFIG)


def test_the_moments_of_bfloat16_parameters_fall_too():
    config = dataclasses.replace(CONFIG, b2=0.999, max_grad_norm=0.0)
    optimizer = optimizers.make_optimizer(config, num_updates=5)
    params = {'a.kernel': jnp.ones(3, jnp.bfloat16)}
    state = optimizer.init(params)
    second = []
    for value in (1.0, *[0.0] * 5):
        grads = {'a.kernel': jnp.full(3, value)}
        _, state = optimizer.update(grads, state, params)
        second += [float(optax.tree.get(state, 'nu')['a.kernel'][0])]
    np.testing.assert_allclose(second, 1e-3 * 0.999 ** np.arange(6), rtol=1e-4)


def test_a_norm_of_0_clips_nothing():
    config = dataclasses.replace(CONFIG, max_grad_norm=0.0)
    assert_same(ours(config), by_hand(config, clip=False))


@pytest.mark.parametrize('field', [f.name for f in dataclasses.fields(CONFIG)])
def test_every_setting_shows(field):
    """Or the comparison above would not notice that one is ignored."""
    values = {'b1': 0.5, 'b2': 0.5, 'schedule': 'constant'}
    value = values[field] if field in values else 2 * getattr(CONFIG, field)
    other = dataclasses.replace(CONFIG, **{field: value})
    moved = {name: x - by_hand(other)[name] for name, x in by_hand(CONFIG).items()}
    assert max(np.abs(x).max() for x in moved.values()) > 1e-4
