import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec

from passk_jax import sharding
from passk_jax.models import attention_kernels
from passk_jax.models import policy as policies
from passk_jax.models.attention import KeyValues
from passk_jax.models.decode_attention import attend_filled, newest_seen
from passk_jax.models.expert_products import mix
from passk_jax.models.frozen import picture_features
from passk_jax.models.layers import INSIDE_LAYERS
from passk_jax.models.token_costs import token_flops
from passk_jax.planning import flops
from passk_jax.planning.builder import abstract_mesh
from passk_jax.planning.flops import Flops, model_flops, program_flops
from passk_jax.types import Images, Prompts
from tests.models import oracle
from tests.planning.conftest import make_builder


def traced(fn, *shapes, dtype=jnp.float32):
    """FLOPs of a function of arrays of these shapes."""
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return program_flops(jax.jit(fn).trace(*arrays).jaxpr)


def test_a_product_is_two_flops_a_multiplication():
    assert traced(jnp.matmul, (3, 5), (5, 7)) == Flops(products=2.0 * 3 * 5 * 7)


def test_batch_axes_of_a_product_count_once():
    have = traced(lambda x, y: jnp.einsum('bij,bjk->bik', x, y), (4, 3, 5), (4, 5, 7))
    assert have.total == 2 * 4 * 3 * 5 * 7


@pytest.mark.parametrize(
    ('family', 'changes'),
    [
        ('qwen3_vl', {}),
        ('qwen3_vl', {'taps': ()}),
        # A window that has all of the picture, and none.
        ('qwen2_5_vl', {'window_size': 10**4}),
        ('qwen2_5_vl', {'global_blocks': (0, 1, 2)}),
        ('qwen2_5_vl', {}),
    ],
    ids=str,
)
def test_the_flops_of_a_tower_are_those_of_its_program(family, changes):
    arch = oracle.family_arch(family, vision=oracle.family_vision(family, **changes))
    policy, vision = policies.Policy(arch, head_chunk_tokens=1), arch.vision
    P, X = 3, 64
    mesh = abstract_mesh(dict.fromkeys(sharding.MESH_AXES, 1))
    images = Images(
        jax.ShapeDtypeStruct((P, X, vision.patch_values), jnp.float32),
        jax.ShapeDtypeStruct((P, 1, 2), jnp.int32),
    )
    with jax.sharding.use_abstract_mesh(mesh):
        params = policies.param_shapes(policy, mesh)
        read = jax.jit(picture_features, static_argnums=0)
        have = program_flops(read.trace(policy, params, images).jaxpr).total / P
    # The table is read by a product, of which only four entries count.
    have -= 2 * X * vision.table_size**2 * vision.embed_dim
    want = flops.picture_flops(vision, X, largest=X, embed_dim=arch.embed_dim)
    if 0 < vision.window_patches**2 < X:
        # The program masks what is not in a window.
        windowed = vision.depth - len(vision.global_blocks)
        masked = X - vision.window_patches**2
        want += 4 * X * windowed * masked * vision.embed_dim
    assert have == want


def test_the_body_of_a_scan_counts_as_often_as_it_runs():
    def fn(x, weights):
        return jax.lax.scan(lambda x, w: (x @ w, None), x, weights)[0]

    assert traced(fn, (3, 5), (6, 5, 5)).total == 6 * 2 * 3 * 5 * 5


def test_a_step_of_the_loop_that_ends_with_the_data_is_counted():
    def fn(x, w):
        def steps(x):
            return jax.lax.fori_loop(0, 4, lambda _, x: jnp.tanh(x @ w), x)

        return jax.lax.while_loop(lambda x: x.sum() < 0, steps, x @ w)

    arrays = [jax.ShapeDtypeStruct((5, 5), jnp.float32)] * 2
    jaxpr = jax.jit(fn).trace(*arrays).jaxpr
    assert program_flops(jaxpr, loop_steps=4) == Flops(products=2.0 * 5 * 5 * 5)


def test_a_gradient_with_recomputation_is_four_products_of_one():
    def loss(x, w):
        return jax.checkpoint(lambda x, w: jnp.sin(jnp.sin(x @ w) @ w))(x, w).sum()

    forward = traced(loss, (3, 5), (5, 5)).total
    have = traced(jax.grad(loss, argnums=(0, 1)), (3, 5), (5, 5)).total
    # Once forward, then recomputed but for the last, whose result nobody needs twice.
    assert 3 * forward <= have <= 4 * forward


def test_a_custom_gradient_is_counted():
    @jax.custom_vjp
    def product(x, w):
        return x @ w

    product.defvjp(
        lambda x, w: (product(x, w), (x, w)),
        lambda residuals, g: (g @ residuals[1].T, residuals[0].T @ g),
    )
    one = 2.0 * 3 * 5 * 7
    assert traced(product, (3, 5), (5, 7)).total == one
    grad = jax.grad(lambda x, w: product(x, w).sum(), argnums=(0, 1))
    assert traced(grad, (3, 5), (5, 7)).total == 3 * one


def test_the_larger_branch_of_a_choice_is_counted():
    def fn(x):
        return jax.lax.cond(x.sum() > 0, lambda x: x @ x @ x, lambda x: x @ x, x)

    assert traced(fn, (5, 5)).total == 2 * 2 * 5 * 5 * 5


def test_a_loop_without_a_length_is_counted_once_and_reported():
    def fn(x):
        return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: x @ x, x)

    assert traced(fn, (5, 5)) == Flops(2.0 * 5**3, 0.0, unknown_loops=1)


def test_what_each_device_does_is_counted_for_all_of_them():
    mesh = sharding.make_mesh(data=1, fsdp=4, rollout=1, tensor=2)
    split = PartitionSpec('fsdp')

    def fn(x, w):
        return jax.shard_map(
            jnp.matmul,
            mesh=mesh,
            in_specs=(split, PartitionSpec()),
            out_specs=split,
            check_vma=False,
        )(x, w)

    # The two devices along 'tensor' do the same, and both do it.
    assert traced(fn, (8, 5), (5, 7)).total == 2 * (2 * 8 * 5 * 7)


def test_a_kernel_counts_at_every_point_of_its_grid():
    def kernel(x, y, out):
        out[...] = x[...] @ y[...]

    def fn(x, y):
        return pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[
                pl.BlockSpec((2, 5), lambda i: (i, 0)),
                pl.BlockSpec((5, 7), lambda i: (0, 0)),
            ],
            out_specs=pl.BlockSpec((2, 7), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((8, 7), jnp.float32),
        )(x, y)

    assert traced(fn, (8, 5), (5, 7)) == Flops(kernels=2.0 * 8 * 5 * 7)


@pytest.mark.parametrize('window', [0, 100])
@pytest.mark.parametrize('S', [0, 256, 384])
def test_a_causal_kernel_counts_the_pairs_that_its_mask_leaves(S, window):
    """Those of a prefix are all pairs, but with a window near its own bound."""
    P, N, T, J, H = 2, 3, 256, 4, 128

    def fn(*args):
        query, *pairs = args[:5]
        prefix = (pairs[2:], *args[5:]) if S else ()
        return attention_kernels._splash(
            query, pairs[:2], *prefix, window=window, interpret=True
        ).sum()

    shapes = [(P, N, T, J, H)] * 3 + [(P, 1, S, J, H)] * 2
    arrays = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]
    arrays += [jax.ShapeDtypeStruct((P,), jnp.int32)]
    seen = T * (T + 1) / 2
    seen += seen if window and S == T else T * S
    forward = 4 * P * N * J * H * seen
    have = program_flops(jax.jit(fn).trace(*arrays).jaxpr)
    assert have.kernels == pytest.approx(forward)
    # Five products backward.
    both = program_flops(jax.jit(jax.grad(fn)).trace(*arrays).jaxpr)
    assert both.kernels == pytest.approx(3.5 * forward)


@pytest.mark.parametrize('window', [0, 100])
def test_the_kernel_of_decoding_counts_what_a_full_cache_has_in_the_window(window):
    P, N, J, C, H, R, S = 4, 2, 4, 2, 128, 384, 256

    def fn(query, cache, prefix, lengths):
        see = functools.partial(newest_seen, lengths[:, 0], lengths, jnp.int32(0))
        seen_prefix, seen = see(ring=R, window=window)
        return attend_filled(query, cache, seen, prefix, seen_prefix)

    def array(*shape, dtype=jnp.bfloat16):
        return jax.ShapeDtypeStruct(shape, dtype)

    cache = KeyValues(keys=array(P, C, N, H, R), values=array(P, C, N, R, H))
    prefix = KeyValues(keys=array(P, C, H, S), values=array(P, C, S, H))
    arrays = array(P, N, 1, J, H), cache, prefix, array(P, N, dtype=jnp.int32)
    mesh = sharding.make_mesh(data=1, fsdp=2, rollout=2, tensor=2)
    with jax.set_mesh(mesh):
        have = program_flops(jax.jit(fn).trace(*arrays).jaxpr)
    seen = (window or R) + (window or S)
    assert have.kernels == 4 * P * N * J * H * seen


@pytest.mark.parametrize(('N', 'T'), [(3, 4), (1, 1)])
def test_the_model_needs_what_a_plain_forward_pass_has(N, T):
    builder = make_builder()
    policy, P, S = builder.policy, 2, 5
    params = policies.param_shapes(policy, builder.mesh)
    tokens = jax.ShapeDtypeStruct((P, N, T), jnp.int32)
    of_prompts = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((P, S), (P,))]
    prompts = Prompts(*of_prompts, of_prompts[1])

    def forward(params, prompts, tokens):
        return policies.token_log_probs(
            policy, params, prompts, tokens, temperature=1.0
        )

    have = program_flops(jax.jit(forward).trace(params, prompts, tokens).jaxpr).total
    sizes = {'num_prompts': P, 'num_rollouts': N}
    need = model_flops(policy.arch, prompt_tokens=S, response_tokens=T, **sizes)
    # The plain attention looks at every pair, seen or not, and the prompts go through
    # the last layer to their end.
    arch = policy.arch
    L, heads = arch.num_layers, arch.num_heads * arch.head_dim
    unseen = (L - 1) * S * (S - 1) / 2 + L * N * T * (T - 1) / 2
    unwanted = 2 * S * arch.embed_dim * (2 * heads + 3 * arch.mlp_dim)
    assert have == need + P * (4 * heads * (unseen + S**2) + unwanted)


def test_prompts_alone_go_through_all_of_the_model():
    policy = make_builder().policy
    S, arch = 5, policy.arch
    sizes = {'num_rollouts': 0, 'response_tokens': 0}
    have = model_flops(arch, num_prompts=2, prompt_tokens=S, **sizes)
    per_pair = 4 * arch.num_layers * arch.num_heads * arch.head_dim
    head = arch.vocab_size * arch.embed_dim
    want = S * token_flops(arch) + 2 * head + per_pair * S * (S + 1) / 2
    assert have == 2 * want


def test_a_layer_with_a_window_needs_the_pairs_inside_it():
    arch = dataclasses.replace(make_builder().policy.arch, num_layers=2)
    windowed = oracle.with_windows(arch, 0, 3)
    sizes = {'num_prompts': 1, 'prompt_tokens': 5, 'response_tokens': 0}
    less = [model_flops(x, num_rollouts=0, **sizes) for x in (arch, windowed)]
    # The window leaves 1 + 2 + 3 + 3 + 3 of 1 + 2 + 3 + 4 + 5 pairs.
    assert less[0] - less[1] == 4 * arch.num_heads * arch.head_dim * 3
    sizes = {'sequences': 2, 'context_tokens': 10}
    less = [flops.decode_flops(x, **sizes) for x in (arch, windowed)]
    assert less[0] - less[1] == 2 * 4 * arch.num_heads * arch.head_dim * 7


def test_a_whole_model_needs_two_flops_a_weight_and_token():
    arch = dataclasses.replace(make_builder().policy.arch, vocab_size=4)
    weights = token_flops(arch) / 2 + arch.vocab_size * arch.embed_dim
    assert flops.decode_flops(arch, sequences=3, context_tokens=0) == 3 * 2 * weights


def test_each_prompt_and_response_counts_at_its_own_length():
    arch = dataclasses.replace(make_builder().policy.arch, num_layers=2)
    arch = oracle.with_windows(arch, 0, 3)
    prompts, responses = np.array([5, 2]), np.array([[3, 1], [4, 6]])
    have = flops.forward_flops(arch, prompts, responses)
    shares = []
    for S, lengths in zip(prompts, responses, strict=True):
        one_each = [
            model_flops(
                arch, num_prompts=1, num_rollouts=N, prompt_tokens=S, response_tokens=T
            )
            for N, T in ((1, lengths[0]), (1, lengths[1]), (1, 1), (2, 1))
        ]
        # The prompt, which two rollouts share, is in both: less that of one.
        shared = 2 * one_each[2] - one_each[3]
        shares.append(one_each[0] + one_each[1] - shared)
    np.testing.assert_allclose(have, shares)


def test_a_prompt_pays_for_no_pair_of_the_last_layer():
    arch = dataclasses.replace(make_builder().policy.arch, num_layers=2)
    of_window_last, of_all_last = (
        flops.forward_flops(
            oracle.with_windows(arch, *windows), np.array([5]), np.array([[1]])
        )
        for windows in ((0, 3), (3, 0))
    )
    # In the first layer 1 + 2 + 3 + 4 + 5 pairs, or 1 + 2 + 3 + 3 + 3.
    per_pair = 4 * arch.num_heads * arch.head_dim
    assert of_window_last - of_all_last == per_pair * (15 - 12)


def test_pairs_of_windows_and_of_many_sequences_are_those_that_a_loop_counts():
    arch = dataclasses.replace(make_builder().policy.arch, num_layers=4)
    arch = oracle.with_windows(arch, 0, 3)
    before, tokens = np.array([[0], [2], [7]]), np.array([[1, 2], [0, 4], [3, 9]])
    counts = np.zeros(tokens.shape)
    for place, number in np.ndenumerate(tokens):
        for position in range(number):
            seen = before[place[0], 0] + position + 1
            counts[place] += 2 * seen + 2 * min(seen, 3)
    np.testing.assert_array_equal(flops._pairs(arch, tokens, before=before), counts)


@pytest.mark.parametrize('tensor', [1, 2, 4])
def test_grouped_products_count_the_rows_of_a_devices_experts(tensor):
    """Under an even load, whatever the devices that share the experts."""
    E, D, F, k, P, N, T = 8, 16, 12, 2, 4, 2, 512
    arrays = [(P, N, T, D), (P, N, T, k), (P, N, T, k), (E, D, F), (E, D, F), (E, F, D)]
    mesh = abstract_mesh({'data': 1, 'fsdp': 2, 'rollout': 1, 'tensor': tensor})

    def loss(x, weights, *kernels):
        chosen = jnp.zeros((P, N, T, k), jnp.int32)
        axes = INSIDE_LAYERS[1:]
        return mix((x,), (chosen,), (weights,), kernels, axes, 'ragged')[0].sum()

    shapes = [jax.ShapeDtypeStruct(x, jnp.float32) for x in (*arrays[:1], *arrays[2:])]
    product = 2 * P * N * T * k * D * F
    with jax.sharding.use_abstract_mesh(mesh):
        forward = program_flops(jax.make_jaxpr(loss)(*shapes))
        both = jax.grad(loss, argnums=range(len(shapes)))
        backward = program_flops(jax.make_jaxpr(both)(*shapes))
    assert forward == Flops(kernels=3 * product)
    # Two of the three again, one back through down, two to the rows, three to kernels.
    assert backward.kernels == (3 + 2 + 1 + 2 + 3) * product


def test_a_step_of_adapters_costs_two_passes_where_a_full_one_costs_three():
    sizes = {'num_updates': 2, 'epochs': 1, 'reference': True}
    full = flops.train_passes(4, **sizes)
    np.testing.assert_array_equal(full, [4, 5, 4, 5])
    adapters = flops.train_passes(4, **sizes, adapters=True)
    np.testing.assert_array_equal(adapters, full - 1)
