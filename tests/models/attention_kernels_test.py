"""Attention of whole sequences: every implementation against the plain one."""

import collections
import functools
import re
from unittest import mock

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import attention_kernels
from tests.models import oracle
from tests.slow import slow_values


def random_inputs(*, P=2, N=2, S=6, T=5, J=4, C=2, H=8):
    draw = iter(jax.random.split(jax.random.key(0), 5))

    def normal(*shape):
        return jax.random.normal(next(draw), shape)

    query = normal(P, N, T, J, H)
    suffix = (normal(P, N, T, C, H), normal(P, N, T, C, H))
    prefix = (normal(P, 1, S, C, H), normal(P, 1, S, C, H))
    return query, suffix, prefix, jnp.array([S, 0] + [2] * (P - 2))


def dense(query, suffix, prefix, lengths, starts=None, window=0):
    if prefix is None:
        pair, lengths = suffix, None
    else:
        shifted = lengths if window else None
        pair = attention_kernels.after_prefix(suffix, prefix, shifted)
    return attention_kernels._dense(query, pair, lengths, 'xla', starts, window)


# The kernels where there is no accelerator: cuDNN's call as XLA computes it, and the
# Pallas kernel by its interpreter.
CASES = {
    'dense': dense,
    'splash': functools.partial(attention_kernels._splash, interpret=True),
}
with_interpreted_splash = mock.patch.object(
    attention_kernels, '_splash', CASES['splash']
)


def loss_and_value(mixed):
    weights = jnp.cos(jnp.arange(mixed.size)).reshape(mixed.shape)
    return (weights * mixed).sum(), mixed


@pytest.mark.parametrize('name', CASES)
@pytest.mark.parametrize('with_prefix', slow_values([False, True], quick=[True]))
@pytest.mark.parametrize('window', slow_values([0, 1, 4], quick=[0, 4]))
def test_a_kernel_equals_the_plain_form_in_values_and_gradients(
    name, with_prefix, window
):
    query, suffix, prefix, lengths = random_inputs()
    prefix = prefix if with_prefix else None

    def have(query, suffix, prefix):
        mixed = CASES[name](query, suffix, prefix, lengths, window=window)
        return loss_and_value(mixed)

    def want(query, suffix, prefix):
        mixed = attention_kernels.attend_whole(
            'plain', query, suffix, prefix, lengths, window=window
        )
        return loss_and_value(mixed)

    args = (query, suffix, prefix)
    run = functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
    have, want = (jax.jit(run(fn))(*args) for fn in (have, want))
    for x, y in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5, rtol=2e-5)


def test_gradients_of_another_splash_are_an_error():
    query, suffix, prefix, lengths = random_inputs()
    module = 'jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel'
    other = mock.patch(f'{module}._splash_attention_bwd', return_value=(None,) * 8)

    def total(query):
        return CASES['splash'](query, suffix, prefix, lengths).sum()

    with other, pytest.raises(ValueError, match='returns other gradients than that'):
        jax.grad(total)(query)


def placed(x):
    """An array as the layers hand it over."""
    axes = ('batch', 'rollouts', None, 'heads', None) if x.ndim > 1 else ('batch',)
    mesh = jax.sharding.get_mesh()
    spec = sharding.partition_spec(axes, x.shape, mesh.shape)
    return jax.device_put(x, jax.NamedSharding(mesh, spec))


@pytest.mark.parametrize('name', CASES)
# In the last there are more devices than key heads: queries are split, keys are not.
@pytest.mark.parametrize(
    'sizes', slow_values([(1, 2, 2, 2), (2, 1, 1, 4)], quick=[(1, 2, 2, 2)])
)
def test_a_kernel_on_a_mesh_equals_one_devices_and_gathers_nothing(name, sizes):
    inputs = random_inputs(P=4)
    run = jax.jit(CASES[name])
    want = run(*inputs)
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        args = jax.tree.map(placed, inputs)
        have = run(*args)
        text = run.lower(*args).compile().as_text()
    np.testing.assert_allclose(have, want, atol=2e-5)
    assert 'all-gather' not in text


def test_cudnn_under_a_window_gets_the_prefix_next_to_the_sequence():
    """The way from attend_whole to the kernel, which needs an accelerator itself."""
    query, suffix, prefix, lengths = random_inputs()
    with mock.patch.object(attention_kernels, '_dense') as call:
        attention_kernels.attend_whole(
            'cudnn', query, suffix, prefix, lengths, window=2
        )
    _, pair, *arguments = call.call_args.args
    assert arguments[-1] == 2
    for have, before, after in zip(pair, prefix, suffix, strict=True):
        S = before.shape[2]
        np.testing.assert_array_equal(have[0, 1, :S], before[0, 0])
        np.testing.assert_array_equal(have[:, :, S:], after)
    query, suffix, prefix, lengths = random_inputs(P=3)
    shifted = attention_kernels.after_prefix(suffix, prefix, lengths)[0]
    np.testing.assert_array_equal(shifted[2, 0, 4:6], prefix[0][2, 0, :2])


def test_cudnn_gets_even_sizes_and_one_mask_for_all_rollouts():
    query, suffix, prefix, lengths = random_inputs(P=3, N=4, S=6, T=5)
    shapes = []

    def spy(query, key, value, *, mask=None, **_):
        sizes = () if mask is None else mask.shape
        shapes.append((query.shape[1], key.shape[1], sizes))
        return query

    pair = attention_kernels.after_prefix(suffix, prefix)
    with mock.patch('jax.nn.dot_product_attention', spy):
        attention_kernels._dense(query, pair, lengths, 'cudnn')
        attention_kernels._dense(query, suffix, None, 'cudnn')
    assert shapes == [(6, 12, (1, 1, 6, 12)), (6, 6, ())]


@pytest.mark.parametrize(
    ('name', 'platform', 'dtype', 'head_dim', 'want'),
    [
        ('auto', 'cpu', 'bfloat16', 128, 'plain'),
        ('auto', 'tpu', 'bfloat16', 128, 'splash'),
        ('auto', 'tpu', 'float32', 128, 'plain'),
        ('auto', 'gpu', 'bfloat16', 128, 'cudnn'),
        ('auto', 'gpu', 'float32', 128, 'plain'),
        ('auto', 'gpu', 'bfloat16', 12, 'plain'),
        ('auto', 'gpu', 'bfloat16', 256, 'plain'),
        ('plain', 'tpu', 'bfloat16', 128, 'plain'),
        ('splash', 'tpu', 'float32', 64, 'splash'),
    ],
)
def test_the_platform_decides_unless_the_config_does(
    name, platform, dtype, head_dim, want
):
    have = attention_kernels.choose_implementation(
        name, platform=platform, dtype=dtype, head_dim=head_dim
    )
    assert have == want


@pytest.mark.parametrize(
    ('name', 'platform', 'words'),
    [
        ('flash', 'cpu', r"'flash' is none of \('auto', 'plain', 'splash', 'cudnn'\)"),
        ('splash', 'cpu', r"'splash' cannot run on platform='cpu'.*\['plain'\]"),
        ('cudnn', 'gpu', "'cudnn' cannot run .*dtype='float32'"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused(name, platform, words):
    with pytest.raises(ValueError, match=words):
        attention_kernels.choose_implementation(
            name, platform=platform, dtype='float32', head_dim=64
        )


@pytest.mark.slow
def test_remat_of_all_but_attention_saves_what_the_kernel_of_a_gpu_returns():
    batch = oracle.random_batch(vocab_size=16, S=5, T=7)
    counts = {}
    for remat in ('none', 'full', 'attention'):
        policy = oracle.tiny_policy(
            remat=remat, attention='cudnn', param_dtype='bfloat16', dtype='bfloat16'
        )
        params = oracle.random_params(policy)
        # JAX asks for a GPU as it traces.
        cudnn = 'jax._src.cudnn.fused_attention_stablehlo.'
        with (
            mock.patch(f'{cudnn}check_cudnn_version', return_value=91000),
            mock.patch(f'{cudnn}check_compute_capability', return_value=True),
        ):
            loss = oracle.loss_of(policy, *batch)
            traced = str(jax.make_jaxpr(jax.grad(loss))(params))
        calls = re.findall(r'dot_product_attention_(fwd|bwd)_wrapper', traced)
        counts[remat] = collections.Counter(calls)
        # Its output would be saved twice.
        assert 'name=attention' not in traced
    # The scan's body has the calls of one layer, of prompts and of responses.
    assert counts['none'] == counts['attention'] == {'fwd': 2, 'bwd': 2}
    assert counts['full'] == {'fwd': 4, 'bwd': 2}


@pytest.mark.slow
def test_remat_of_all_but_attention_does_not_attend_twice():
    params = oracle.random_params(oracle.tiny_policy())
    batch = oracle.random_batch(vocab_size=16)

    def residuals_and_gradients(remat):
        policy = oracle.tiny_policy(remat=remat)
        loss = oracle.loss_of(policy, *batch)
        pull = jax.eval_shape(lambda x: jax.vjp(loss, x)[1], params)
        size = sum(x.size for x in jax.tree.leaves(pull))
        return size, oracle.evaluate(policy, params, *batch)[1]

    (none, want), (full, _), (some, have) = map(
        residuals_and_gradients, ('none', 'full', 'attention')
    )
    prompts, tokens, _ = batch
    # Of both streams, in each of the two layers of 4 heads of 8.
    mixed = 2 * 4 * 8 * (prompts.tokens.size + tokens.size)
    assert full + mixed == some < none
    assert oracle.relative_error(have, want) < 1e-6
