import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.arch import Layer
from passk_jax.models.rope import Rope
from tests.models import oracle
from tests.slow import slow_values

# One layer rotates faster than the other, and one has a window and rotates nothing.
MIXED = (Layer(Rope(kind='default', theta=50.0)), Layer(None, window=3))


@functools.partial(jax.jit, static_argnums=0)
def evaluate_naively(arch, params, prompts, tokens, lengths):
    def loss(params):
        values = oracle.token_log_probs(
            params, arch, prompts, tokens, temperature=oracle.TEMPERATURE
        )
        return oracle.weighted(*values, lengths), values

    grads, values = jax.grad(loss, has_aux=True)(params)
    return values, grads


@pytest.mark.parametrize(
    'changes',
    slow_values(
        [
            {},
            {'tie_embeddings': True, 'num_kv_heads': 1, 'qkv_bias': False}
            | {'windows': (2, 0), 'num_layers': 4, 'remat': 'full'},
            {'num_kv_heads': 4, 'qkv_bias': False, 'qk_norm': True}
            | {'windows': (0, 4, 1), 'num_layers': 3, 'remat': 'attention'},
            {'layers': MIXED, 'num_layers': 4},
        ],
        quick=[{}],
    ),
)
def test_prompt_once_equals_prompt_repeated_in_values_and_gradients(changes):
    policy = oracle.tiny_policy(**changes)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = oracle.evaluate(policy, params, *batch)
    want, want_grads = evaluate_naively(policy.arch, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-5, rtol=0)
    assert oracle.relative_error(have_grads, want_grads) < 1e-5


def test_a_response_of_one_token_is_predicted_by_the_prompt_alone():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    have, _ = jax.jit(oracle.log_probs_of(policy, prompts, tokens[..., :1]))(params)
    (want, _), _ = oracle.evaluate(policy, params, prompts, tokens, lengths)
    np.testing.assert_allclose(have, want[..., :1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('changes', [{}, {'windows': (3, 0)}, {'layers': MIXED}])
def test_prefill_and_decode_token_by_token_equal_the_full_forward(changes):
    policy = oracle.tiny_policy(**changes)
    params = oracle.random_params(policy)
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    P, N, T = tokens.shape
    decode, prefill, logits_of = (
        jax.jit(fn, static_argnums=0)
        for fn in (policies.decode, policies.prefill, policies.logits)
    )
    naive = jax.jit(oracle.sequence_logits, static_argnums=1)
    weights = policies.prepare_decoding(policy, params)
    hidden, prefix = prefill(policy, weights, prompts)
    steps = [jnp.broadcast_to(hidden[:, None], (P, N, hidden.shape[-1]))]
    # One slot more than is written: a dead slot must not be seen.
    cache = policies.empty_cache(policy, num_prompts=P, num_rollouts=N, num_tokens=T)
    for t in range(T - 1):
        hidden, cache = decode(policy, weights, tokens[..., t], prefix, cache)
        steps.append(hidden)
    assert int(cache.index) == T - 1
    have = np.asarray(logits_of(policy, weights, jnp.stack(steps, axis=2)))
    prompts, tokens = jax.device_get((prompts, tokens))
    for p in range(P):
        length = prompts.lengths[p]
        for n in range(N):
            # Causality hides what is behind, and one program serves all lengths.
            sequence = np.zeros(prompts.tokens.shape[1] + T, np.int32)
            sequence[: length + T] = [*prompts.tokens[p, :length], *tokens[p, n]]
            want = np.asarray(naive(params, policy.arch, sequence))
            want = want[length - 1 : length + T - 1]
            np.testing.assert_allclose(have[p, n], want, atol=1e-5)


def test_garbage_in_pads_changes_neither_values_nor_gradients():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    assert (np.asarray(prompts.lengths) < prompts.tokens.shape[1]).any()
    other = jax.random.randint(jax.random.key(1), prompts.tokens.shape, 0, 16)
    real = jnp.arange(prompts.tokens.shape[1]) < prompts.lengths[:, None]
    spoilt = dataclasses.replace(prompts, tokens=jnp.where(real, prompts.tokens, other))
    keep = jnp.arange(tokens.shape[-1]) < lengths[..., None]
    other = jax.random.randint(jax.random.key(2), tokens.shape, 0, 16)
    spoilt_tokens = jnp.where(keep, tokens, other)
    assert (np.asarray(spoilt_tokens) != np.asarray(tokens)).any()
    assert (np.asarray(spoilt.tokens) != np.asarray(prompts.tokens)).any()

    want, want_grads = oracle.evaluate(policy, params, prompts, tokens, lengths)
    have, have_grads = oracle.evaluate(policy, params, spoilt, spoilt_tokens, lengths)
    for x, y in zip(have, want, strict=True):
        np.testing.assert_array_equal(np.where(keep, x, 0), np.where(keep, y, 0))
    assert oracle.relative_error(have_grads, want_grads) < 1e-6


def test_the_width_of_the_padding_changes_nothing():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    wider = dataclasses.replace(
        prompts, tokens=jnp.pad(prompts.tokens, ((0, 0), (0, 3)))
    )
    longer = jnp.pad(tokens, ((0, 0), (0, 0), (0, 2)))
    want, _ = oracle.evaluate(policy, params, prompts, tokens, lengths)
    have = jax.jit(oracle.log_probs_of(policy, wider, longer))(params)
    have = jax.tree.map(lambda x: x[..., :-2], have)
    # Sums over other widths round otherwise; a pad that is seen moves whole units.
    np.testing.assert_allclose(have, want, atol=1e-5, rtol=0)


@pytest.mark.parametrize('window', slow_values([0, 1, 3], quick=[0, 3]))
def test_a_token_is_predicted_by_its_past_only(window):
    # Every position has a token of its own, so that the gradient with respect to
    # the (untied) token table tells which positions a log-probability saw.
    P, S, N, T = 2, 3, 2, 4
    count = P * S + P * N * T
    # Two layers with a window would see twice as far.
    policy = oracle.tiny_policy(
        vocab_size=count, windows=(window,), num_layers=1 if window else 2
    )
    params = oracle.random_params(policy)
    prompts, _, _ = oracle.random_batch(vocab_size=count, P=P, S=S)
    prompts = dataclasses.replace(
        prompts,
        tokens=np.arange(P * S, dtype=np.int32).reshape(P, S),
        lengths=np.array([S, S - 1], np.int32),
    )
    tokens = P * S + np.arange(P * N * T, dtype=np.int32).reshape(P, N, T)
    seen = jax.jit(
        jax.jacrev(lambda x: oracle.log_probs_of(policy, prompts, tokens)(x)[0])
    )
    seen = np.abs(seen(params)['embed.embedding']).sum(-1) > 0
    for p, n, t in np.ndindex(P, N, T):
        past = [*prompts.tokens[p, : prompts.lengths[p]], *tokens[p, n, :t]]
        want = np.zeros(count, bool)
        want[np.array(past[-window:])] = True
        np.testing.assert_array_equal(seen[p, n, t], want)


# Of 24 tokens: equal chunks, and a last one that is smaller.
@pytest.mark.parametrize('head_chunk_tokens', slow_values([1, 23], quick=[23]))
def test_the_size_of_the_head_chunks_changes_nothing(head_chunk_tokens):
    unchunked = oracle.tiny_policy()
    chunked = oracle.tiny_policy(head_chunk_tokens=head_chunk_tokens)
    params = oracle.random_params(unchunked)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = oracle.evaluate(chunked, params, *batch)
    want, want_grads = oracle.evaluate(unchunked, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-6, rtol=1e-6)
    assert oracle.relative_error(have_grads, want_grads) < 2e-6


@pytest.mark.parametrize('tie', [True, False])
@pytest.mark.parametrize('backward', [False, True])
def test_no_array_of_all_logits_exists(tie, backward):
    P, N, T, V = 2, 3, 8, 1024
    prompts, tokens, lengths = oracle.random_batch(vocab_size=V, P=P, N=N, T=T)

    def largest(head_chunk_tokens):
        policy = oracle.tiny_policy(
            vocab_size=V, tie_embeddings=tie, head_chunk_tokens=head_chunk_tokens
        )
        shapes = jax.eval_shape(lambda: oracle.random_params(policy))
        fn = oracle.loss_of(policy, prompts, tokens, lengths)
        jaxpr = jax.make_jaxpr(jax.grad(fn) if backward else fn)(shapes)
        return max(oracle.array_sizes(jaxpr.jaxpr))

    assert largest(P * N * 2) < P * N * T * V
    assert largest(P * N * T) >= P * N * T * V


@pytest.mark.parametrize(
    ('T', 'remat'), [(4, 'none'), (16, 'none'), (16, 'attention'), (4, 'full')]
)
def test_log_probs_of_a_forward_pass_and_of_a_gradient_are_bit_equal(T, remat):
    have, want = forward_and_gradient_log_probs(T, remat)
    np.testing.assert_array_equal(have, want)


def test_log_probs_of_long_responses_differ_by_rounding_only():
    # Not by nothing: XLA:CPU hands a long softmax to a library where no backward pass
    # reads its exponentials, and computes them itself where one does.
    have, want = forward_and_gradient_log_probs(64, 'none')
    np.testing.assert_allclose(have, want, atol=2e-6, rtol=0)


def forward_and_gradient_log_probs(T, remat):
    policy = oracle.tiny_policy(remat=remat)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16, T=T)
    forward, _ = jax.jit(oracle.log_probs_of(policy, *batch[:2]))(params)
    (gradient, _), _ = oracle.evaluate(policy, params, *batch)
    return forward, gradient


def test_a_gradient_is_linear_in_the_loss():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)
    _, once = oracle.evaluate(policy, params, *batch)
    _, twice = oracle.evaluate(policy, params, *batch, 2.0)
    for name, x in jax.device_get(once).items():
        np.testing.assert_array_equal(2 * x, twice[name])


def test_remat_recomputes_each_layer_and_changes_nothing():
    plain, remat = oracle.tiny_policy(), oracle.tiny_policy(remat='full')
    params = oracle.random_params(plain)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = oracle.evaluate(remat, params, *batch)
    want, want_grads = oracle.evaluate(plain, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-6)
    assert oracle.relative_error(have_grads, want_grads) < 1e-6

    def residual_bytes(policy):
        pull = jax.eval_shape(
            lambda x: jax.vjp(oracle.loss_of(policy, *batch), x)[1], params
        )
        return sum(x.size for x in jax.tree.leaves(pull))

    assert residual_bytes(remat) < residual_bytes(plain) / 2


def test_bfloat16_products_stay_close_and_masters_get_float32_gradients():
    plain, half = oracle.tiny_policy(), oracle.tiny_policy(dtype='bfloat16')
    params = oracle.random_params(plain)
    batch = oracle.random_batch(vocab_size=16)
    want, want_grads = oracle.evaluate(plain, params, *batch)
    have, have_grads = oracle.evaluate(half, params, *batch)
    assert all(x.dtype == jnp.float32 for x in (*have, *have_grads.values()))
    np.testing.assert_allclose(have, want, atol=0.15)  # 8 bits through two layers.
    assert oracle.relative_error(have_grads, want_grads) < 0.1
    kernel = np.asarray(have_grads['layers.mlp.up.kernel'])
    rounded = kernel.astype(jnp.bfloat16).astype(np.float32)
    assert (kernel != rounded).any(), 'the gradient was rounded to bfloat16'


@pytest.mark.slow
@pytest.mark.parametrize('tie', [True, False])
def test_bfloat16_gradients_of_many_tokens_are_those_of_float32(tie):
    batch = oracle.random_batch(vocab_size=16, P=4, S=16, N=16, T=32, seed=1)
    plain = oracle.tiny_policy(tie_embeddings=tie)
    half = oracle.tiny_policy(tie_embeddings=tie, dtype='bfloat16')
    params = {
        # Half as large, and the same in both: what is left is how sums are rounded.
        name: (x if 'norm' in name else x / 2).astype(jnp.bfloat16).astype(x.dtype)
        for name, x in jax.device_get(oracle.random_params(plain, seed=1)).items()
    }

    def gradients(policy):
        fn = oracle.log_probs_of(policy, *batch[:2])
        grads = jax.jit(jax.grad(lambda params: -fn(params)[0].mean()))(params)
        return jax.device_get(grads)

    have, want = gradients(half), gradients(plain)
    errors = {
        name: np.linalg.norm(x - want[name]) / np.linalg.norm(want[name])
        for name, x in have.items()
    }
    # It was 0.03 to 0.18 for biases and norms when they were summed in bfloat16.
    assert max(errors.values()) < 0.02, errors


@pytest.mark.slow
def test_how_many_rollouts_start_from_a_prompt_does_not_round_its_gradient():
    policy = oracle.tiny_policy(dtype='bfloat16')
    params = oracle.random_params(policy)
    prompts, _, _ = oracle.random_batch(vocab_size=16, P=2)

    def gradients(N):
        fn = oracle.log_probs_of(policy, prompts, jnp.zeros((2, N, 1), jnp.int32))
        return jax.jit(jax.grad(lambda params: -fn(params)[0].mean()))(params)

    assert oracle.relative_error(gradients(1024), gradients(2)) < 1e-3


@pytest.mark.parametrize('backward', [False, True])
def test_no_array_of_all_pairs_of_tokens_exists_for_long_responses(backward):
    # A layer of Qwen2.5-7B and the batch of configs/maze.py, only traced.
    N, T = 32, 4096
    policy = oracle.tiny_policy(
        head_chunk_tokens=1024,
        remat='full',
        dtype='bfloat16',
        num_layers=1,
        embed_dim=3584,
        num_heads=28,
        num_kv_heads=4,
        head_dim=128,
        mlp_dim=18944,
    )
    arch = policy.arch
    prompts, _, _ = oracle.random_batch(vocab_size=16, P=1, S=512, N=1, T=1)
    tokens = jax.ShapeDtypeStruct((1, N, T), jnp.int32)
    params = policies.param_shapes(
        policy, sharding.make_mesh(data=8, fsdp=1, rollout=1, tensor=1)
    )

    def fn(params, tokens):
        return oracle.log_probs_of(policy, prompts, tokens)(params)[0].sum()

    jaxpr = jax.make_jaxpr(jax.grad(fn) if backward else fn)(params, tokens)
    # The MLP's activations are the largest there is.
    assert max(oracle.array_sizes(jaxpr.jaxpr)) <= N * T * arch.mlp_dim
    assert N * T * arch.mlp_dim < arch.num_heads * N * T * T / 4


def test_a_policy_is_a_static_argument():
    assert oracle.tiny_policy() == oracle.tiny_policy()
    assert hash(oracle.tiny_policy()) == hash(oracle.tiny_policy())
    assert oracle.tiny_policy() != oracle.tiny_policy(tie_embeddings=True)


def test_a_parameter_without_known_axes_is_refused():
    with pytest.raises(ValueError, match='router'):
        policies.param_axes(oracle.tiny_policy(), 'layers.router.kernel')


def test_entropies_of_a_uniform_policy_are_the_log_of_its_vocabulary():
    policy = oracle.tiny_policy(tie_embeddings=False)
    params = oracle.random_params(policy)
    params['head.kernel'] = jnp.zeros_like(params['head.kernel'])
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    log_probs, entropies = jax.jit(oracle.log_probs_of(policy, prompts, tokens))(params)
    np.testing.assert_allclose(entropies, np.log(16), rtol=1e-6)
    np.testing.assert_allclose(log_probs, -np.log(16), rtol=1e-6)


def test_a_cpu_decodes_with_the_layers_where_they_lie():
    policy = oracle.tiny_policy(num_layers=3, embed_dim=64, mlp_dim=64)
    params = oracle.random_params(policy)
    weights = policies.decoding_weights(policy, params)
    want = policies.prepare_decoding(policy, params)
    assert weights.keys() == want.keys()
    for name, x in weights.items():
        np.testing.assert_array_equal(x, want[name])
    name = 'layers.{}attention.out.kernel'
    stack = params[name.format('')]
    for i in range(3):
        layer = weights[name.format(f'{i}.')]
        offset = layer.unsafe_buffer_pointer() - stack.unsafe_buffer_pointer()
        assert offset == i * layer.nbytes
    # A donation cannot take them away.
    jax.jit(lambda x: x + 1, donate_argnums=0)(stack)
    np.testing.assert_array_equal(layer, want[name.format('2.')])


def test_weights_of_another_dtype_are_cast_for_decoding():
    policy = oracle.tiny_policy(dtype='bfloat16')
    weights = policies.decoding_weights(policy, oracle.random_params(policy))
    assert {x.dtype for x in weights.values()} == {jnp.dtype('bfloat16')}


def test_large_parameters_are_made_alone_and_no_other_for_it(monkeypatch):
    policy, mesh = oracle.tiny_policy(), sharding.one_device_mesh(jax.devices()[0])
    key = jax.random.key(0)
    together = policies.init_params(policy, key, mesh)
    groups = []
    init = policies._init

    def watched(arch, key, names=None):
        groups.append(names)
        return init(arch, key, names)

    monkeypatch.setattr(policies, '_init', watched)
    # The three of the MLP are larger.
    monkeypatch.setattr(policies, '_SMALL_PARAMETER', 2048)
    apart = policies.init_params(policy, key, mesh)
    sizes = [[apart[name].size for name in names] for names in groups if names]
    *alone, small = sizes
    assert alone == sorted(alone, reverse=True)
    assert all(len(one) == 1 for one in alone)
    assert len(alone) == 3
    assert max(small) == 2048 < min(alone)[0]
    assert list(apart) == list(together)
    for name, x in together.items():
        np.testing.assert_array_equal(apart[name], x)
