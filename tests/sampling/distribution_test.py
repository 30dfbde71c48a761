"""Temperature, top-k, top-p and the draw, against sorting in float64."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.sampling import distribution
from passk_jax.sampling.distribution import choose, traced_options
from passk_jax.sampling.vocabulary_rows import Rows, rows_on_mesh
from tests.sampling import oracle
from tests.slow import slow_rows

LARGEST_UNIFORM = np.float32(1 - 2**-24)


def settings(**options):
    # Only min() with the vocabulary's size, which no test here needs.
    return traced_options(sampling_options(**options), vocab_size=2**31 - 1)


def random_logits(*shape, seed=0, scale=3.0):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=scale, size=shape).astype(np.float32)


def allowed(logits, **kwargs):
    logits = jnp.asarray(logits, jnp.float32)
    scores = logits - logits.max(axis=-1, keepdims=True)
    rows = Rows(logits.shape[-1])
    marks = jax.jit(distribution.mark_allowed, static_argnums=2)(
        rows.split(scores, pad=-jnp.inf), settings(**kwargs), rows
    )
    return np.asarray(marks).reshape(*logits.shape[:-1], -1)[..., : logits.shape[-1]]


def draw(weights, both):
    rows = Rows(weights.shape[-1])
    weights = rows.split(jnp.asarray(weights), pad=0)
    return distribution.draw(weights, rows.block_sums(weights), both, rows)


def run(logits, uniforms, *, greedy=False, truncate=False, **kwargs):
    function = functools.partial(choose, greedy=greedy, truncate=truncate)
    return jax.jit(function)(
        jnp.asarray(logits, jnp.float32), uniforms, settings(**kwargs)
    )


def uniforms(*shape, seed=1):
    return np.random.default_rng(seed).random((*shape, 2), np.float32)


@pytest.mark.parametrize('vocab_size', [2, 12, 1500])
@pytest.mark.parametrize('top_k', [0, 1, 3, 10_000])
@pytest.mark.parametrize('top_p', [0.01, 0.5, 0.95, 1.0])
def test_truncation_keeps_what_sorting_keeps(vocab_size, top_k, top_p):
    logits = random_logits(50, vocab_size)
    expected = oracle.allowed_tokens(logits, top_p=top_p, top_k=top_k)
    mask = allowed(logits, top_p=top_p, top_k=top_k)
    np.testing.assert_array_equal(mask, expected)


def test_top_p_acts_on_what_top_k_left_renormalised():
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # After top-k the first token has 0.571, enough for 0.55; 0.4 would not be.
    assert allowed(logits, top_k=2, top_p=0.55).tolist() == [True, False, False, False]
    assert allowed(logits, top_k=2, top_p=0.58).tolist() == [True, True, False, False]
    assert allowed(logits, top_k=0, top_p=0.55).tolist() == [True, True, False, False]


def test_of_equal_tokens_the_first_are_kept():
    equal = np.zeros(8)
    assert np.flatnonzero(allowed(equal, top_k=3)).tolist() == [0, 1, 2]
    # 4 of 8 are exactly half: enough.
    assert np.flatnonzero(allowed(equal, top_p=0.5)).tolist() == [0, 1, 2, 3]
    two_best = np.array([0.0, 5.0, 0.0, 5.0, 5.0])
    assert np.flatnonzero(allowed(two_best, top_k=2)).tolist() == [1, 3]


def test_at_least_one_token_is_kept():
    logits = random_logits(20, 12)
    mask = allowed(logits, top_p=1e-6)
    np.testing.assert_array_equal(mask.sum(axis=-1), 1)
    np.testing.assert_array_equal(mask.argmax(axis=-1), logits.argmax(axis=-1))


def test_truncation_that_is_off_drops_nothing():
    logits = np.array([0.0, -20.0, -80.0, -1e4, -3e38])
    assert allowed(logits, top_p=1.0, top_k=0).all()
    assert allowed(logits, top_p=1.0, top_k=5).all()


@pytest.mark.parametrize('vocab_size', [12, 513, 2000])
def test_a_token_of_no_weight_is_never_drawn(vocab_size):
    rng = np.random.default_rng(0)
    weights = rng.random((300, vocab_size), np.float32)
    weights[rng.random(weights.shape) < 0.9] = 0
    weights[:, 0] = 0
    weights[:, -1] = 0
    weights[:, 5] = 1e-30
    for u in (0.0, 0.3, LARGEST_UNIFORM):
        for v in (0.0, 0.7, LARGEST_UNIFORM):
            both = np.broadcast_to(np.array([u, v], np.float32), (300, 2))
            tokens = np.asarray(draw(weights, both))
            assert (np.take_along_axis(weights, tokens[:, None], -1) > 0).all()


def test_draws_follow_the_weights_evenly():
    # Inversion of an even grid: every count is within one of what it should be.
    weights = np.random.default_rng(0).random(12).astype(np.float32)
    grid = (np.arange(10_000, dtype=np.float32) + 0.5) / 10_000
    tokens = draw(
        np.broadcast_to(weights, (10_000, 12)), np.stack([grid, grid], axis=-1)
    )
    counts = np.bincount(tokens, minlength=12)
    np.testing.assert_allclose(counts, 10_000 * weights / weights.sum(), atol=1.01)


# Nine blocks, the last of them padded; 159 of two pieces, the last of one and padded.
@pytest.mark.parametrize('vocab_size', [1100, 40_500])
def test_draws_from_a_long_row_follow_the_weights(vocab_size):
    rng = np.random.default_rng(0)
    weights = rng.random(vocab_size, np.float32) ** 4
    weights[100 : vocab_size - 1000] /= vocab_size
    number = 20_000
    tokens = jax.jit(
        lambda u: jax.lax.map(lambda x: draw(weights, x), u, batch_size=500)
    )(rng.random((number, 2), np.float32))
    counts = np.bincount(tokens, minlength=vocab_size)
    assert counts.size == vocab_size
    expected = number * weights.astype(np.float64) / weights.sum(dtype=np.float64)
    assert oracle.chi_square_sigmas(counts, expected) < 5
    # Sharper, where most tokens are seldom drawn: those count as one.
    seldom = expected < 1
    counts = np.append(counts[~seldom], counts[seldom].sum())
    expected = np.append(expected[~seldom], expected[seldom].sum())
    assert oracle.chi_square_sigmas(counts, expected) < 5


@pytest.mark.parametrize('tail', [1e-3, 1e-4])
def test_every_token_of_a_large_vocabularys_tail_is_drawn(tail):
    # 150,000 tokens of 6.7e-9 each or less, finer than a float32 uniform: by one
    # running sum over the row at most every tenth of them could ever be drawn.
    weights = np.full(150_001, tail / 150_000, np.float32)
    weights[0] = 1 - tail
    both = np.random.default_rng(0).random((4000, 2), np.float32)
    both[:, 0] = 1 - tail * (0.99 * both[:, 0] + 1e-3)  # those of the tail
    both[:, 0] = np.floor(both[:, 0] * 2**23) / 2**23  # as jax.random.uniform gives
    tokens = jax.jit(
        lambda u: jax.lax.map(lambda x: draw(weights, x), u, batch_size=100)
    )(both)
    assert (np.asarray(tokens) > 0).all()
    # 4000 of 150,000 with replacement: 1.3 % meet.
    assert np.unique(tokens).size > 0.97 * 4000
    # From everywhere: 3 % of so many stretches are missed by chance.
    assert np.unique(tokens // 128).size > 0.95 * 150_000 / 128
    # Evenly: the mean rank is 1/2 with sigma 1/sqrt(12 n).
    assert abs(np.mean(tokens) / 150_000 - 0.5) < 5 / np.sqrt(12 * 4000)


def test_min_p_keeps_what_is_probable_enough_beside_the_best():
    logits = np.log([[0.5, 0.3, 0.15, 0.05]])
    assert allowed(logits, min_p=0.25)[0].tolist() == [True, True, True, False]
    assert allowed(logits, min_p=0.4)[0].tolist() == [True, True, False, False]
    # The best alone, and of equals all.
    assert allowed(logits, min_p=1.0)[0].tolist() == [True, False, False, False]
    assert allowed(np.zeros((1, 4)), min_p=1.0).all()
    # min_p after top-k, against the same best token.
    assert allowed(logits, min_p=0.25, top_k=2)[0].tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert allowed(logits, min_p=0.25, top_p=0.4)[0].tolist() == [True] + 3 * [False]


@pytest.mark.parametrize(
    ('temperature', 'top_p', 'top_k', 'min_p'),
    [
        (1.0, 1.0, 0, 0.0),
        (0.7, 1.0, 0, 0.0),
        (1.0, 0.95, 0, 0.0),
        (1.3, 1.0, 3, 0.0),
        (0.7, 0.9, 5, 0.0),
        (1.3, 1.0, 0, 0.2),
        (0.7, 0.9, 5, 0.1),
    ],
)
def test_figures_equal_the_float64_ones(temperature, top_p, top_k, min_p):
    logits = random_logits(400, 12)
    truncate = top_p < 1 or top_k > 0 or min_p > 0
    choice = run(
        logits,
        uniforms(400),
        truncate=truncate,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
    )
    expected = oracle.figures(
        logits,
        np.asarray(choice.tokens),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
    )
    np.testing.assert_allclose(choice.sampler_log_probs, expected.sampler, atol=2e-6)
    np.testing.assert_allclose(
        choice.untruncated_log_probs, expected.untruncated, atol=2e-6
    )
    np.testing.assert_allclose(choice.entropies, expected.entropies, atol=2e-6)
    gain = np.asarray(choice.sampler_log_probs - choice.untruncated_log_probs)
    assert truncate == (gain.max() > 0.01)


def test_greedy_is_a_point_mass_with_the_figures_of_temperature_one():
    logits = random_logits(50, 12)
    choice = run(logits, uniforms(50), greedy=True, temperature=0.0)
    expected = oracle.figures(
        logits, np.asarray(choice.tokens), temperature=1.0, top_p=1.0, top_k=0
    )
    np.testing.assert_array_equal(choice.tokens, logits.argmax(axis=-1))
    np.testing.assert_array_equal(choice.sampler_log_probs, 0)
    np.testing.assert_allclose(
        choice.untruncated_log_probs, expected.untruncated, atol=2e-6
    )
    np.testing.assert_allclose(choice.entropies, expected.entropies, atol=2e-6)


def test_the_most_probable_of_one_is_the_greedy_token():
    logits = np.round(random_logits(200, 12))  # with many ties
    top_1 = run(logits, uniforms(200), truncate=True, top_k=1)
    greedy = run(logits, uniforms(200), greedy=True, temperature=0.0)
    np.testing.assert_array_equal(top_1.tokens, greedy.tokens)
    np.testing.assert_array_equal(top_1.sampler_log_probs, 0)


@pytest.mark.parametrize('temperature', [1e-30, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize(
    'row',
    [
        [3e38, -3e38, 0.0, 1.0],
        [-3e38, -3e38, -3e38, -3e38],
        [1e-40, 0.0, -1e-40, 0.0],
        [1e4, 1e4, -1e4, 9.9e3],
    ],
)
@pytest.mark.parametrize('top_p', [0.9, 1.0])
def test_no_finite_logits_give_a_nan(row, temperature, top_p):
    logits = np.broadcast_to(np.array(row, np.float32), (20, 4))
    choice = run(
        logits,
        uniforms(20),
        truncate=top_p < 1,
        temperature=temperature,
        top_p=top_p,
        top_k=0,
    )
    for figure in jax.tree.leaves(choice):
        assert np.isfinite(figure).all()
    assert (np.asarray(choice.untruncated_log_probs) <= 0).all()
    assert (np.asarray(choice.entropies) >= 0).all()
    assert (np.asarray(choice.entropies) <= np.log(4) + 1e-6).all()


MESHES = [(1, 1, 1, 2), (1, 1, 1, 4), (1, 1, 1, 8), (2, 1, 2, 2), (1, 2, 1, 4)]
OPTIONS = [
    {},
    {'temperature': 0.0},
    {'temperature': 0.3, 'top_p': 0.9},
    {'top_k': 7},
    {'temperature': 1.3, 'top_k': 40, 'top_p': 0.8, 'min_p': 0.01},
    {'min_p': 0.2},
]


@functools.cache
def compiled(greedy, truncate):
    return jax.jit(functools.partial(choose, greedy=greedy, truncate=truncate))


def chosen(logits, both, **how):
    """Tokens and figures, on the mesh that is set."""
    options = sampling_options(**how)
    function = compiled(options.greedy, options.truncates)
    traced = traced_options(options, vocab_size=logits.shape[-1])
    return jax.tree.map(np.asarray, function(logits, both, traced))


@pytest.mark.parametrize('how', OPTIONS, ids=str)
# The most devices that share a row: 32 blocks of 128; four of 375, which eight devices
# would cut; one block; and a padded one.
@pytest.mark.parametrize(
    ('vocab_size', 'most'),
    slow_rows([(4096, 8), (1500, 4), (12, 1), (1111, 1)], quick=[(1500, 4)]),
)
def test_devices_that_share_rows_choose_what_one_would(vocab_size, most, how):
    logits = random_logits(4, 6, vocab_size)
    logits[1] = np.round(logits[1])  # with many ties, at the best and at each edge
    logits[2, :, ::3] = -np.inf
    logits[3] = 0
    both = uniforms(4, 6)
    expected = chosen(logits, both, **how)
    for sizes in MESHES:
        mesh = sharding.make_mesh(
            **dict(zip(sharding.MESH_AXES, sizes, strict=True)),
            devices=jax.devices()[: np.prod(sizes)],
        )
        with jax.set_mesh(mesh):
            choice = chosen(logits, both, **how)
            assert bool(rows_on_mesh(vocab_size).axes) == (sizes[3] <= most)
        for name in ('tokens', 'sampler_log_probs', 'untruncated_log_probs'):
            np.testing.assert_array_equal(
                getattr(choice, name), getattr(expected, name)
            )
        # The sums of entropies have an order of their own on each mesh.
        np.testing.assert_allclose(choice.entropies, expected.entropies, atol=2e-6)
