import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import ArchConfig, ModelConfig
from passk_jax.models import policy as policies
from passk_jax.models import qwen2
from tests.models import oracle

TEMPERATURE = 0.7


def log_probs_of(policy, prompts, tokens):
    return lambda params: policies.token_log_probs(
        policy, params, prompts, tokens, temperature=TEMPERATURE
    )


def weighted(log_probs, entropies, lengths):
    """A loss in which every real token has its own weight."""
    mask = jnp.arange(log_probs.shape[-1]) < lengths[..., None]
    weights = jnp.cos(jnp.arange(log_probs.size)).reshape(log_probs.shape)
    return (mask * weights * (log_probs + 0.3 * entropies)).sum()


def loss_of(policy, prompts, tokens, lengths):
    fn = log_probs_of(policy, prompts, tokens)
    return lambda params: weighted(*fn(params), lengths)


@functools.partial(jax.jit, static_argnums=0)
def evaluate(policy, params, prompts, tokens, lengths, scale=1.0):
    """Log-probabilities and entropies, and gradients of a loss on them."""

    def loss(params):
        values = log_probs_of(policy, prompts, tokens)(params)
        return scale * weighted(*values, lengths), values

    grads, values = jax.grad(loss, has_aux=True)(params)
    return values, grads


@functools.partial(jax.jit, static_argnums=0)
def evaluate_naively(arch, params, prompts, tokens, lengths):
    def loss(params):
        values = oracle.token_log_probs(
            params, arch, prompts, tokens, temperature=TEMPERATURE
        )
        return weighted(*values, lengths), values

    grads, values = jax.grad(loss, has_aux=True)(params)
    return values, grads


def relative_error(a, b):
    """Largest error of a tree relative to each leaf's largest value."""
    errors = jax.tree.map(lambda x, y: np.abs(x - y).max() / np.abs(y).max(), a, b)
    return max(jax.tree.leaves(errors))


@pytest.mark.parametrize(('tie', 'num_kv_heads'), [(False, 2), (True, 1), (False, 4)])
def test_prompt_once_equals_prompt_repeated_in_values_and_gradients(tie, num_kv_heads):
    policy = oracle.tiny_policy(tie=tie, num_kv_heads=num_kv_heads)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = evaluate(policy, params, *batch)
    want, want_grads = evaluate_naively(policy.arch, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-5, rtol=0)
    assert relative_error(have_grads, want_grads) < 1e-5


def test_a_response_of_one_token_is_predicted_by_the_prompt_alone():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    (have, _), _ = evaluate(policy, params, prompts, tokens[..., :1], lengths)
    (want, _), _ = evaluate(policy, params, prompts, tokens, lengths)
    np.testing.assert_allclose(have, want[..., :1], atol=1e-6)


def test_prefill_and_decode_token_by_token_equal_the_full_forward():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    P, N, T = tokens.shape
    hidden, prefix = policies.prefill(policy, params, prompts)
    steps = [jnp.broadcast_to(hidden[:, None], (P, N, hidden.shape[-1]))]
    # One slot more than is written: a dead slot must not be seen.
    cache = policies.empty_cache(policy, num_prompts=P, num_rollouts=N, num_tokens=T)
    decode = jax.jit(policies.decode, static_argnums=0)
    for t in range(T - 1):
        hidden, cache = decode(policy, params, tokens[..., t], prefix, cache)
        steps.append(hidden)
    assert int(cache.index) == T - 1
    have = policies.logits(policy, params, jnp.stack(steps, axis=2))
    for p in range(P):
        length = int(prompts.lengths[p])
        for n in range(N):
            whole = jnp.concatenate([prompts.tokens[p, :length], tokens[p, n]])
            want = oracle.sequence_logits(params, policy.arch, whole)[length - 1 : -1]
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

    want, want_grads = evaluate(policy, params, prompts, tokens, lengths)
    have, have_grads = evaluate(policy, params, spoilt, spoilt_tokens, lengths)
    for x, y in zip(have, want, strict=True):
        np.testing.assert_array_equal(np.where(keep, x, 0), np.where(keep, y, 0))
    assert relative_error(have_grads, want_grads) < 1e-6


def test_the_width_of_the_padding_changes_nothing():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    wider = dataclasses.replace(
        prompts, tokens=jnp.pad(prompts.tokens, ((0, 0), (0, 3)))
    )
    longer = jnp.pad(tokens, ((0, 0), (0, 0), (0, 2)))
    want, _ = evaluate(policy, params, prompts, tokens, lengths)
    have, _ = evaluate(policy, params, wider, longer, lengths)
    have = jax.tree.map(lambda x: x[..., :-2], have)
    np.testing.assert_allclose(have, want, atol=2e-6)


def test_a_token_is_predicted_by_its_past_only():
    # Every position has a token of its own, so that the gradient with respect to
    # the (untied) token table tells which positions a log-probability saw.
    P, S, N, T = 2, 3, 2, 4
    count = P * S + P * N * T
    policy = oracle.tiny_policy(vocab_size=count)
    params = oracle.random_params(policy)
    prompts, _, _ = oracle.random_batch(vocab_size=count, P=P, S=S)
    prompts = dataclasses.replace(
        prompts,
        tokens=jnp.arange(P * S).reshape(P, S),
        lengths=jnp.array([S, S - 1]),
    )
    tokens = P * S + jnp.arange(P * N * T).reshape(P, N, T)
    seen = jax.jit(jax.jacrev(lambda x: log_probs_of(policy, prompts, tokens)(x)[0]))
    seen = np.abs(seen(params)['embed.embedding']).sum(-1) > 0
    for p, n, t in np.ndindex(P, N, T):
        past = [*prompts.tokens[p, : prompts.lengths[p]], *tokens[p, n, :t]]
        want = np.zeros(count, bool)
        want[np.array(past)] = True
        np.testing.assert_array_equal(seen[p, n, t], want)


@pytest.mark.parametrize('head_chunk_tokens', [1, 12, 23])
def test_the_size_of_the_head_chunks_changes_nothing(head_chunk_tokens):
    whole = oracle.tiny_policy()
    chunked = oracle.tiny_policy(head_chunk_tokens=head_chunk_tokens)
    params = oracle.random_params(whole)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = evaluate(chunked, params, *batch)
    want, want_grads = evaluate(whole, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-6, rtol=1e-6)
    assert relative_error(have_grads, want_grads) < 2e-6


def array_sizes(jaxpr):
    """Sizes of all float32 arrays of a jaxpr and of those inside it."""
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            if getattr(var.aval, 'dtype', None) == jnp.float32:
                yield var.aval.size
        for inner in jax.tree.leaves(
            list(eqn.params.values()), is_leaf=lambda x: hasattr(x, 'eqns')
        ):
            inner = getattr(inner, 'jaxpr', inner)
            if hasattr(inner, 'eqns'):
                yield from array_sizes(inner)


@pytest.mark.parametrize('tie', [True, False])
@pytest.mark.parametrize('backward', [False, True])
def test_no_array_of_all_logits_exists(tie, backward):
    P, N, T, V = 2, 3, 8, 1024
    prompts, tokens, lengths = oracle.random_batch(vocab_size=V, P=P, N=N, T=T)

    def largest(head_chunk_tokens):
        policy = oracle.tiny_policy(
            vocab_size=V, tie=tie, head_chunk_tokens=head_chunk_tokens
        )
        shapes = jax.eval_shape(lambda: oracle.random_params(policy))
        fn = loss_of(policy, prompts, tokens, lengths)
        jaxpr = jax.make_jaxpr(jax.grad(fn) if backward else fn)(shapes)
        return max(array_sizes(jaxpr.jaxpr))

    assert largest(P * N * 2) < P * N * T * V
    assert largest(P * N * T) >= P * N * T * V


def test_log_probs_of_a_forward_pass_and_of_a_gradient_are_the_same_bits():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)
    want, _ = jax.jit(log_probs_of(policy, *batch[:2]))(params)
    (have, _), _ = evaluate(policy, params, *batch)
    np.testing.assert_array_equal(have, want)


def test_a_gradient_is_linear_in_the_loss():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16)
    _, once = evaluate(policy, params, *batch)
    _, twice = evaluate(policy, params, *batch, 2.0)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(2 * x, y), once, twice)


def test_remat_recomputes_each_layer_and_changes_nothing():
    plain, remat = oracle.tiny_policy(), oracle.tiny_policy(remat=True)
    params = oracle.random_params(plain)
    batch = oracle.random_batch(vocab_size=16)
    have, have_grads = evaluate(remat, params, *batch)
    want, want_grads = evaluate(plain, params, *batch)
    np.testing.assert_allclose(have, want, atol=1e-6)
    assert relative_error(have_grads, want_grads) < 1e-6

    def kept(policy):
        _, pull = jax.vjp(loss_of(policy, *batch), params)
        return sum(x.size for x in jax.tree.leaves(pull))

    assert kept(remat) < kept(plain) / 2


def test_bfloat16_products_stay_close_and_masters_get_float32_gradients():
    plain, half = oracle.tiny_policy(), oracle.tiny_policy(dtype='bfloat16')
    params = oracle.random_params(plain)
    batch = oracle.random_batch(vocab_size=16)
    want, want_grads = evaluate(plain, params, *batch)
    have, have_grads = evaluate(half, params, *batch)
    assert all(x.dtype == jnp.float32 for x in (*have, *have_grads.values()))
    np.testing.assert_allclose(have, want, atol=0.15)  # 8 bits through two layers.
    assert relative_error(have_grads, want_grads) < 0.1
    kernel = np.asarray(have_grads['layers.0.mlp.up.kernel'])
    rounded = kernel.astype(jnp.bfloat16).astype(np.float32)
    assert (kernel != rounded).any(), 'the gradient was rounded to bfloat16'


def place(mesh, tree):
    return jax.device_put(tree, sharding.batch_sharding(mesh, tree))


def place_params(policy, mesh, params):
    shapes = policies.param_shapes(policy, mesh)
    return jax.tree.map(lambda x, s: jax.device_put(x, s.sharding), params, shapes)


@pytest.mark.parametrize(('tie', 'head_chunk_tokens'), [(True, 1 << 20), (False, 16)])
def test_sharded_log_probs_and_gradients_equal_one_devices(tie, head_chunk_tokens):
    policy = oracle.tiny_policy(tie=tie, head_chunk_tokens=head_chunk_tokens)
    params = oracle.random_params(policy)
    batch = oracle.random_batch(vocab_size=16, P=4)
    want, want_grads = evaluate(policy, params, *batch)
    mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
    with jax.set_mesh(mesh):
        have, have_grads = evaluate(
            policy, place_params(policy, mesh, params), *place(mesh, batch)
        )
    np.testing.assert_allclose(have, want, atol=1e-5)
    assert relative_error(have_grads, want_grads) < 1e-5


def test_sharded_prefill_and_decode_equal_one_devices():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, _ = oracle.random_batch(vocab_size=16, P=4)

    @jax.jit
    def run(params, prompts, tokens):
        P, N, T = tokens.shape
        hidden, prefix = policies.prefill(policy, params, prompts)
        out = [policies.logits(policy, params, hidden)[:, None].repeat(N, 1)]
        cache = policies.empty_cache(
            policy, num_prompts=P, num_rollouts=N, num_tokens=T
        )
        for t in range(T):
            hidden, cache = policies.decode(
                policy, params, tokens[..., t], prefix, cache
            )
            out.append(policies.logits(policy, params, hidden))
        return jnp.stack(out)

    want = run(params, prompts, tokens)
    mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
    with jax.set_mesh(mesh):
        have = run(place_params(policy, mesh, params), *place(mesh, (prompts, tokens)))
    np.testing.assert_allclose(have, want, atol=1e-5)


def test_first_parameters_are_the_same_bits_on_every_mesh():
    policy = oracle.tiny_policy(num_layers=1)

    def init(data, fsdp, tensor):
        devices = jax.devices()[: data * fsdp * tensor]
        mesh = sharding.make_mesh(data=data, fsdp=fsdp, tensor=tensor, devices=devices)
        params = policies.init_params(policy, jax.random.key(3), mesh)
        shapes = policies.param_shapes(policy, mesh)
        assert params.keys() == shapes.keys()
        for name, x in params.items():
            assert (x.shape, x.dtype) == (shapes[name].shape, shapes[name].dtype)
            assert x.sharding == shapes[name].sharding
        return params

    want = init(1, 1, 1)
    for sizes in [(1, 2, 4), (2, 2, 2)]:
        have = init(*sizes)
        jax.tree.map(np.testing.assert_array_equal, have, want)


@pytest.mark.parametrize('tie', [True, False])
def test_every_parameter_has_axes_and_no_row_of_the_table_is_idle(tie):
    policy = oracle.tiny_policy(tie=tie)
    mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
    shapes = policies.param_shapes(policy, mesh)
    for name, x in shapes.items():
        axes = policies.param_axes(name)
        assert len(axes) == len(x.shape), name
        spec = sharding.partition_spec(axes, x.shape, mesh.shape)
        assert x.sharding.spec == spec, name
    used = {'.'.join(name.split('.')[-2:]) for name in shapes}
    assert used == set(qwen2.AXES) - ({'head.kernel'} if tie else set())


def test_parameters_are_split_by_the_rules_and_whole_where_they_do_not_divide():
    policy = oracle.tiny_policy(vocab_size=15)
    mesh = sharding.make_mesh(data=1, fsdp=2, tensor=4)
    params = policies.init_params(policy, jax.random.key(0), mesh)

    def part(name):
        x = params[name]
        shards = {s.data.shape for s in x.addressable_shards}
        assert len(shards) == 1
        return shards.pop()

    assert part('layers.0.attention.query.kernel') == (16, 1, 8)
    assert part('layers.0.attention.key.kernel') == (16, 2, 8)  # 2 heads, 4 devices
    assert part('layers.0.attention.out.kernel') == (1, 8, 16)
    assert part('layers.1.mlp.gate.kernel') == (16, 12)
    assert part('layers.1.mlp.down.kernel') == (12, 16)
    assert part('embed.embedding') == (15, 16)
    assert part('head.kernel') == (16, 15)
    assert part('final_norm.scale') == (32,)


def test_qwen25_7b_has_its_published_size_and_costs_nothing_to_define():
    arch = ArchConfig(
        num_layers=28,
        embed_dim=3584,
        num_heads=28,
        num_kv_heads=4,
        head_dim=128,
        mlp_dim=18944,
        rope_theta=1e6,
        norm_eps=1e-6,
        tie_embeddings=False,
    )
    config = ModelConfig(
        family='qwen2',
        source='',
        tokenizer='characters',
        arch=arch,
        param_dtype='float32',
        compute_dtype='bfloat16',
        remat=True,
        head_chunk_tokens=1024,
    )
    policy = policies.make_policy(
        config, policies.arch_from_config(config, vocab_size=152064)
    )
    mesh = sharding.make_mesh(data=1, fsdp=4, tensor=2)
    shapes = policies.param_shapes(policy, mesh)
    assert sum(x.size for x in shapes.values()) == 7_615_616_512
    held = sum(np.prod(x.sharding.shard_shape(x.shape)) for x in shapes.values())
    # Norms and QKV biases are all that is not split eight ways.
    assert held < 1.001 * 7_615_616_512 / 8


def test_a_policy_is_a_static_argument():
    assert oracle.tiny_policy() == oracle.tiny_policy()
    assert hash(oracle.tiny_policy()) == hash(oracle.tiny_policy())
    assert oracle.tiny_policy() != oracle.tiny_policy(tie=True)


def test_unknown_names_and_impossible_sizes_are_refused():
    policy = oracle.tiny_policy()
    config = ModelConfig(
        family='gpt2',
        source='',
        tokenizer='characters',
        arch=None,
        param_dtype='float32',
        compute_dtype='float32',
        remat=False,
        head_chunk_tokens=1,
    )
    with pytest.raises(ValueError, match=r"gpt2.*\['qwen2'\]"):
        policies.make_policy(config, policy.arch)
    with pytest.raises(ValueError, match='router'):
        policies.param_axes('layers.0.router.kernel')
    for change, words in [
        ({'num_kv_heads': 3}, 'num_heads=4.*multiple.*num_kv_heads=3'),
        ({'head_dim': 7}, 'head_dim=7'),
        ({'num_layers': 0}, 'num_layers=0'),
        ({'rope_theta': -1.0}, 'rope_theta=-1.0'),
    ]:
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(policy.arch, **change)
