"""The published sizes: they are read like any config.json and give the known totals."""

import json
import types

import jax
import pytest

from configs import base
from passk_jax.models import policy as policies
from passk_jax.models.arch import Layer
from passk_jax.models.hf import config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.models.rope import Rope
from passk_jax.sharding import one_device_mesh

# Parameters in the published safetensors files, as their metadata counts them; where
# embeddings are tied the head is counted once.
PARAMETERS = {
    'Qwen/Qwen2.5-0.5B-Instruct': 494_032_768,
    'Qwen/Qwen2.5-1.5B-Instruct': 1_543_714_304,
    'Qwen/Qwen2.5-3B-Instruct': 3_085_938_688,
    'Qwen/Qwen2.5-7B-Instruct': 7_615_616_512,
    'Qwen/Qwen2.5-32B-Instruct': 32_763_876_352,
    'Qwen/Qwen3-0.6B': 596_049_920,
    'Qwen/Qwen3-8B': 8_190_735_360,
    'Qwen/Qwen3-30B-A3B': 30_532_122_624,
    'Qwen/Qwen3-VL-2B-Instruct': 2_127_532_032,
    'Qwen/Qwen3-VL-4B-Instruct': 4_437_815_808,
    'Qwen/Qwen3-VL-8B-Instruct': 8_767_123_696,
    'Qwen/Qwen3-VL-30B-A3B-Instruct': 31_070_754_032,
    'Qwen/Qwen2.5-VL-3B-Instruct': 3_754_622_976,
    'Qwen/Qwen2.5-VL-7B-Instruct': 8_292_166_656,
    'meta-llama/Llama-3.2-1B-Instruct': 1_235_814_400,
    'meta-llama/Llama-3.2-3B-Instruct': 3_212_749_824,
    'meta-llama/Llama-3.1-8B-Instruct': 8_030_261_248,
    'HuggingFaceTB/SmolLM2-135M-Instruct': 134_515_008,
    'HuggingFaceTB/SmolLM3-3B': 3_075_098_624,
    'google/gemma-3-270m-it': 268_098_176,
    'google/gemma-3-1b-it': 999_885_952,
    'allenai/Olmo-3-7B-Instruct': 7_298_011_136,
    'Qwen/Qwen3-4B-Instruct-2507': 4_022_468_096,
    'HuggingFaceTB/SmolLM2-360M-Instruct': 361_821_120,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B': 1_777_088_000,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B': 7_615_616_512,
    'deepseek-ai/DeepSeek-R1-Distill-Llama-8B': 8_030_261_248,
}

# Bytes of keys and values that a token leaves in the cache in bfloat16: what a count of
# parameters says least about, the number of key/value heads.
CACHE_BYTES = {
    'Qwen/Qwen2.5-0.5B-Instruct': 12_288,
    'Qwen/Qwen2.5-1.5B-Instruct': 28_672,
    'Qwen/Qwen2.5-3B-Instruct': 36_864,
    'Qwen/Qwen2.5-7B-Instruct': 57_344,
    'Qwen/Qwen2.5-32B-Instruct': 262_144,
    'Qwen/Qwen3-0.6B': 114_688,
    'Qwen/Qwen3-8B': 147_456,
    'Qwen/Qwen3-30B-A3B': 98_304,
    'Qwen/Qwen3-VL-2B-Instruct': 114_688,
    'Qwen/Qwen3-VL-4B-Instruct': 147_456,
    'Qwen/Qwen3-VL-8B-Instruct': 147_456,
    'Qwen/Qwen3-VL-30B-A3B-Instruct': 98_304,
    'Qwen/Qwen2.5-VL-3B-Instruct': 36_864,
    'Qwen/Qwen2.5-VL-7B-Instruct': 57_344,
    'meta-llama/Llama-3.2-1B-Instruct': 32_768,
    'meta-llama/Llama-3.2-3B-Instruct': 114_688,
    'meta-llama/Llama-3.1-8B-Instruct': 131_072,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B': 28_672,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B': 57_344,
    'deepseek-ai/DeepSeek-R1-Distill-Llama-8B': 131_072,
    'HuggingFaceTB/SmolLM2-135M-Instruct': 23_040,
    'HuggingFaceTB/SmolLM3-3B': 73_728,
    'google/gemma-3-270m-it': 18_432,
    'google/gemma-3-1b-it': 26_624,
    'allenai/Olmo-3-7B-Instruct': 524_288,
    'Qwen/Qwen3-4B-Instruct-2507': 147_456,
    'HuggingFaceTB/SmolLM2-360M-Instruct': 40_960,
}


@pytest.fixture(params=PUBLISHED)
def name(request):
    return request.param


@pytest.fixture
def source(name, tmp_path):
    """A directory as the hub gives it, but for the weights."""
    (tmp_path / 'config.json').write_text(json.dumps(dict(PUBLISHED[name])))
    return str(tmp_path)


@pytest.fixture
def arch(source):
    return config.arch_from_hf(
        source,
        param_dtype='float32',
        compute_dtype='bfloat16',
        remat='full',
        attention='plain',
    )


def test_the_parameters_are_as_many_as_published(name, arch):
    # All that shapes need of a policy; NNX takes seconds to define a large one.
    policy = types.SimpleNamespace(arch=arch, frozen=frozenset(), frozen_dtype='')
    shapes = policies.param_shapes(policy, one_device_mesh(jax.devices()[0]))
    assert sum(x.size for x in shapes.values()) == PARAMETERS[name]


def test_a_token_takes_as_much_of_the_cache_as_published(name, arch):
    values = 2 * arch.num_layers * arch.num_kv_heads * arch.head_dim
    assert 2 * values == CACHE_BYTES[name]


def test_positions_are_those_of_the_model(name, source, arch):
    """Wrong ones change no size and no speed, so only this notices."""
    rope, limit = arch.layers[0].rope, config.position_limit(source)
    if 'Llama' in name:
        factor = 32.0 if '3.2' in name else 8.0
        stretch = (rope.low_freq_factor, rope.high_freq_factor)
        assert (rope.kind, rope.theta, rope.factor) == ('llama3', 500_000.0, factor)
        assert (rope.original_max_positions, *stretch) == (8192, 1.0, 4.0)
        assert limit == 131_072
    elif 'SmolLM2' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 100_000.0, 8192)
    elif 'R1-Distill' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 10_000.0, 131_072)
    elif '2507' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 5e6, 262_144)
    elif 'SmolLM3' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 5e6, 65_536)
        assert arch.layers == (*3 * [Layer(rope)], Layer(None))
    elif 'gemma-3' in name:
        near, far = (Rope(kind='default', theta=theta) for theta in (1e4, 1e6))
        windowed, full = Layer(near, 512, 'geglu'), Layer(far, 0, 'geglu')
        pattern = (*5 * [windowed], full)
        # 26 layers are four patterns and a part of one.
        short = arch.num_layers % 6 == 0
        assert arch.layers == (pattern if short else (5 * pattern)[:26])
        assert limit == 32_768
    elif 'Olmo-3' in name:
        near, far = arch.layers[0].rope, arch.layers[3].rope
        assert arch.layers == (*3 * [Layer(near, 4096)], Layer(far))
        assert (near.kind, near.theta, far.kind, far.theta) == (
            *('default', 5e5),
            *('yarn', 5e5),
        )
        assert (far.factor, far.attention_factor) == (8.0, 1.2079441541679836)
        assert (far.original_max_positions, limit) == (8192, 65_536)
    elif '2.5-VL' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 1e6, 128_000)
        assert (rope.sections, rope.interleaved) == ((16, 24, 24), False)
    elif 'VL' in name:
        assert (rope.kind, rope.theta, limit) == ('default', 5e6, 262_144)
        assert (rope.sections, rope.interleaved) == ((24, 20, 20), True)
    else:
        longest = 40_960 if 'Qwen3' in name else 32_768
        assert (rope.kind, rope.theta, limit) == ('default', 1e6, longest)
    wide = 'Llama' in name or 'SmolLM2' in name
    assert arch.norm_eps == (1e-5 if wide else 1e-6)


def test_every_entry_has_its_totals_here():
    assert PUBLISHED.keys() == PARAMETERS.keys() == CACHE_BYTES.keys()


def test_the_default_model_is_there():
    assert base.get_config().model.source in PUBLISHED
