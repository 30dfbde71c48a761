"""Which one runs where, and the blocks; expert_products_test.py has the values."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import grouped_products
from passk_jax.models.expert_products import KERNEL_AXES, mix
from passk_jax.models.layers import INSIDE_LAYERS
from passk_jax.planning import topologies


@pytest.mark.parametrize(
    ('name', 'platform', 'meant'),
    [
        ('auto', 'cpu', 'blocks'),
        ('auto', 'gpu', 'blocks'),
        ('auto', 'tpu', 'ragged'),
        ('blocks', 'tpu', 'blocks'),
        ('ragged', 'tpu', 'ragged'),
    ],
)
def test_the_platform_chooses_the_implementation(name, platform, meant):
    choose = grouped_products.choose_implementation
    assert choose(name, platform=platform) == meant


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('dense', "experts 'dense' is none of .*'auto', 'blocks', 'ragged'"),
        ('ragged', "'ragged' cannot run on platform='cpu'; have .'blocks'"),
    ],
)
def test_what_cannot_run_there_is_refused(name, words):
    with pytest.raises(ValueError, match=words):
        grouped_products.choose_implementation(name, platform='cpu')


def test_blocks_cover_the_rows_of_each_expert_once():
    sizes = jnp.asarray([3, 0, 17, 8, 0, 1])
    width, count, place = grouped_products._blocks(sizes, 48)
    rows = []
    for i in range(int(count)):
        expert, first, size = map(int, place(i))
        rows += [(expert, first + j) for j in range(min(width, size))]
    experts = np.repeat(np.arange(6), np.asarray(sizes))
    assert rows == list(zip(experts.tolist(), range(29), strict=True))


@pytest.mark.slow
def test_on_tpus_no_product_has_every_expert():
    """A layer of Qwen3-30B-A3B with 8,192 tokens a shard, compiled for 64 chips."""
    pytest.importorskip('libtpu')
    devices = topologies.connect(topologies.parse('v5p:4x4x4'))
    mesh = sharding.make_mesh(data=1, fsdp=16, rollout=1, tensor=4, devices=devices)
    E, width, k, shape = 128, 768, 8, (16, 2, 4096)
    rows = ('batch', 'rollouts', None, None)

    def array(axes, shape, dtype=jnp.float32):
        spec = sharding.partition_spec(axes, shape, mesh.shape)
        placed = jax.sharding.NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=placed)

    sizes = (E, 2048, width), (E, 2048, width), (E, width, 2048)
    kernels = tuple(map(array, KERNEL_AXES, sizes))
    arguments = (
        array(rows, (*shape, 2048), jnp.bfloat16),
        array(rows, (*shape, k)),
        kernels,
        array(rows, (*shape, k), jnp.int32),
    )

    def loss(x, weights, kernels, chosen):
        (y,) = mix((x,), (chosen,), (weights,), kernels, INSIDE_LAYERS[1:], 'ragged')
        return jnp.square(y.astype(jnp.float32)).sum()

    with jax.set_mesh(mesh):
        gradient = jax.jit(jax.grad(loss, (0, 1, 2)))
        compiled = gradient.lower(*arguments).compile()
    assert 'all-to-all' not in compiled.as_text()
    assert compiled.memory_analysis().temp_size_in_bytes < 1.7 * 2**30
    # Three products of all rows and of each kernel, three times: not one by 32 experts.
    products = 3 * 3 * 2 * 8192 * k * 2048 * width
    assert compiled.cost_analysis()['flops'] < 1.2 * products
