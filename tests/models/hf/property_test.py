"""Architectures drawn at random: ours gives the logits of transformers."""

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from passk_jax.models.families.table import FAMILIES
from tests.models.hf import oracle as hf_oracle


@st.composite
def models(draw):
    """Arguments of :func:`hf_oracle.make_model`."""
    groups = draw(st.sampled_from([1, 2, 3]))
    kv_heads = draw(st.sampled_from([1, 2, 3]))
    # Those that read pictures: vision_parity_test.py.
    families = sorted(name for name, x in FAMILIES.items() if x.vision is None)
    family = draw(st.sampled_from(families))
    experts = {}
    if 'num_experts' in FAMILIES[family].sizes:
        count = draw(st.integers(1, 9))
        experts = {
            'moe_intermediate_size': draw(st.integers(1, 30)),
            'num_experts': count,
            'num_experts_per_tok': draw(st.integers(1, count)),
            'norm_topk_prob': draw(st.booleans()),
        }
    return {
        'family': family,
        **experts,
        'rope': draw(st.sampled_from(sorted(hf_oracle.ROPES))),
        'theta': draw(st.sampled_from([100.0, 1e4, 1e6])),
        'vocab_size': draw(st.integers(5, 50)),
        'num_hidden_layers': draw(st.integers(1, 3)),
        # Llama's config takes no other multiples, whatever its head_dim.
        'hidden_size': groups * kv_heads * draw(st.sampled_from([3, 8])),
        'num_attention_heads': groups * kv_heads,
        'num_key_value_heads': kv_heads,
        'head_dim': draw(st.sampled_from([2, 6, 8, 16])),
        'intermediate_size': draw(st.integers(1, 50)),
        'rms_norm_eps': draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        'tie_word_embeddings': draw(st.booleans()),
    }


@settings(derandomize=True, max_examples=14, database=None)
@given(
    arguments=models(),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple),
    seed=st.integers(0, 2**16),
)
def test_any_architecture_has_the_logits_of_transformers(arguments, lengths, seed):
    model = hf_oracle.make_model(**arguments, seed=seed)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        policy, params = hf_oracle.read(directory)
    prompts = hf_oracle.unequal_prompts(
        arguments['vocab_size'], lengths=lengths, seed=seed
    )
    assert hf_oracle.logits_error(model, policy, params, prompts) < 1e-5
