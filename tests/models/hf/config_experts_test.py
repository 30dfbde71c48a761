import pytest

from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from tests.models import oracle
from tests.models.hf.config_test import QWEN3, read, read_arch

# As published, less the sizes, which are those of the oracle's tiny policy.
QWEN3_MOE = {
    **QWEN3,
    'architectures': ['Qwen3MoeForCausalLM'],
    'decoder_sparse_step': 1,
    'intermediate_size': 6144,
    'mlp_only_layers': [],
    'model_type': 'qwen3_moe',
    'moe_intermediate_size': 48,
    'norm_topk_prob': True,
    'num_experts': 4,
    'num_experts_per_tok': 2,
    'output_router_logits': False,
    'router_aux_loss_coef': 0.001,
}
EXPECTED = oracle.tiny_arch(
    qkv_bias=False, qk_norm=True, feed_forward='moe', norm_topk_prob=True
)


def test_a_published_config_is_read_into_the_architecture(tmp_path):
    assert read_arch(tmp_path, QWEN3_MOE) == EXPECTED


def test_experts_are_read_under_either_name(tmp_path):
    # transformers 5 writes the second name.
    renamed = {'num_experts': None, 'num_local_experts': 4}
    assert read_arch(tmp_path, QWEN3_MOE, **renamed) == EXPECTED
    assert read_arch(tmp_path, QWEN3_MOE, num_local_experts=4) == EXPECTED


def test_what_changes_no_logit_may_have_any_value(tmp_path):
    for change in (
        {'output_router_logits': True},
        {'router_aux_loss_coef': 0.0},
        {'intermediate_size': None},
        {'max_window_layers': 48},
        # As in Qwen3-Coder's file.
        {
            **{'qkv_bias': False, 'use_qk_norm': True},
            'shared_expert_intermediate_size': 0,
        },
    ):
        assert read_arch(tmp_path, QWEN3_MOE, **change) == EXPECTED
    assert read(QWEN3_MOE | {'mlp_only_layers': None}) == EXPECTED


def test_what_the_file_does_not_say_is_as_transformers_has_it(tmp_path):
    # Not the published value.
    assert not read_arch(tmp_path, QWEN3_MOE, norm_topk_prob=None).norm_topk_prob


@pytest.mark.parametrize('size', hf_config._required_fields(family_of('qwen3_moe')))
def test_a_size_is_never_transformers_own(size, tmp_path):
    with pytest.raises(ValueError, match=f'config.json: every size .* {size}=None'):
        read_arch(tmp_path, QWEN3_MOE, **{size: None})


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'mlp_only_layers': [1]}, r'mlp_only_layers=\[1\]; only \[\] is supported'),
        ({'decoder_sparse_step': 2}, 'decoder_sparse_step=2; only 1 is supported'),
        ({'num_local_experts': 8}, '=8 and num_experts=4 are two names'),
        ({'num_experts_per_tok': 5}, 'num_experts=4, experts_per_token=5'),
        ({'num_experts_per_tok': -1}, 'experts_per_token=-1'),
        ({'moe_intermediate_size': -1}, 'mlp_dim=-1 must be positive'),
        ({'shared_expert_intermediate_size': 4}, '_size=4; only 0 is supported'),
        ({'hidden_act': 'gelu'}, "hidden_act='gelu'"),
    ],
)
def test_a_field_that_the_network_does_not_honour_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        read_arch(tmp_path, QWEN3_MOE, **changes)


def test_a_dense_family_has_no_experts(tmp_path):
    with pytest.raises(ValueError, match='does not know: num_experts=4'):
        read_arch(tmp_path, QWEN3, num_experts=4)


def test_what_is_written_has_the_published_names():
    fields = hf_config.hf_config_fields(
        EXPECTED,
        family_of('qwen3_moe'),
        dtype='bfloat16',
        max_positions=64,
        eos_token_ids=(1,),
        pad_token_id=None,
    )
    for name in ('num_experts', 'num_experts_per_tok', 'moe_intermediate_size'):
        assert fields[name] == QWEN3_MOE[name]
    assert (fields['norm_topk_prob'], fields['mlp_only_layers']) == (True, [])
    assert 'num_local_experts' not in fields
