import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.learning.expert_load import count_tokens, load_metrics


def test_only_tokens_under_the_mask_are_counted():
    rng = np.random.default_rng(0)
    P, N, T, L, E, k = 2, 3, 4, 2, 5, 2
    routing = np.argsort(rng.random((P, N, T, L, E)))[..., :k].astype(np.uint8)
    mask = rng.random((P, N, T)) < 0.6
    have = count_tokens(jnp.asarray(routing), jnp.asarray(mask), num_experts=E)
    want = np.zeros((L, E))
    for place in zip(*np.nonzero(mask), strict=True):
        for layer in range(L):
            want[layer, routing[place][layer]] += 1
    np.testing.assert_array_equal(have, want)
    assert have.sum() == mask.sum() * L * k


@pytest.mark.parametrize(
    ('tokens', 'busiest', 'idle'),
    [
        ([[4, 4, 4, 4]], 1, 0),
        ([[8, 8, 0, 0]], 2, 0.5),
        ([[4, 4, 4, 4], [16, 0, 0, 0]], 2.5, 0.375),
        # Nothing was trained.
        ([[0, 0, 0, 0]], 0, 1),
    ],
)
def test_the_busiest_and_the_idle_experts_of_the_layers(tokens, busiest, idle):
    metrics = load_metrics(jnp.asarray(tokens, jnp.float32))
    assert metrics['expert_load_max'] == pytest.approx(busiest)
    assert metrics['experts_idle'] == pytest.approx(idle)
