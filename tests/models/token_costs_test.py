"""What is multiplied and read at a token, against the weights of small networks."""

import jax
import pytest

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.token_costs import read_by_step, token_flops
from tests.models import oracle

NETWORKS = {
    'dense': oracle.tiny_arch(),
    'tied': oracle.tiny_arch(tie_embeddings=True),
    'experts': oracle.tiny_arch(feed_forward='moe', num_experts=6),
    'tower': oracle.family_arch('qwen3_vl'),
}


def decoding_weights(arch):
    """The shapes of the weights that decoding has."""
    policy = policies.Policy(arch, 1 << 20)
    mesh = sharding.one_device_mesh(jax.devices()[0])
    shapes = policies.param_shapes(policy, mesh)
    return jax.eval_shape(lambda x: policies.prepare_decoding(policy, x), shapes)


def multiplied(arch, weights) -> int:
    """Counts the parameters of the layers that multiply a token."""
    count = 0
    for name, x in weights.items():
        if name.startswith('layers.') and name.endswith('.kernel'):
            shared = arch.num_experts and '.mlp.' in name and 'router' not in name
            count += x.size * arch.experts_per_token // x.shape[0] if shared else x.size
    return count


@pytest.mark.parametrize('arch', NETWORKS.values(), ids=NETWORKS)
def test_a_product_needs_two_flops_a_weight_and_only_the_chosen_experts(arch):
    assert token_flops(arch) == 2 * multiplied(arch, decoding_weights(arch))


@pytest.mark.parametrize(
    ('name', 'skipped'),
    [
        ('dense', ('embed.',)),
        ('tied', ()),
        ('experts', ('embed.',)),
        ('tower', ('embed.', 'vision.')),
    ],
)
def test_a_step_reads_all_but_a_table_of_few_rows_and_the_tower(name, skipped):
    weights = decoding_weights(NETWORKS[name])
    want = {key: x for key, x in weights.items() if not key.startswith(skipped)}
    assert read_by_step(NETWORKS[name], weights) == want
    assert (len(want) < len(weights)) == bool(skipped)
