import pytest

from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.hf import config, other_formats, weights
from tests.models import oracle
from tests.models.hf.oracle import one_device

FILES = {
    'adapter_config.json': r'a LoRA adapter .*merge_and_unload\(\)\.save_pretrained',
    'model-Q4_K_M.gguf': r"llama\.cpp.*, gguf_file='model-Q4_K_M\.gguf'\)\.save_pre",
    'pytorch_model.bin': r'pickled by PyTorch.*from_pretrained\(.*\)\.save_pretrained',
    'pytorch_model-00001-of-00002.bin': 'pickled by PyTorch',
}


@pytest.mark.parametrize('name', FILES)
def test_a_directory_says_what_it_is_whatever_is_read_first(name, tmp_path):
    (tmp_path / name).write_text('{}')
    words = rf'; {name} is .*{FILES[name]}'
    policy = oracle.tiny_policy()
    for read in (
        tokenizers.load_tokenizer,
        config.position_limit,
        lambda source: weights.load_params(policy, source, one_device()),
    ):
        with pytest.raises(ValueError, match=words) as error:
            read(str(tmp_path))
        assert str(tmp_path) in str(error.value)


def test_a_file_that_was_converted_is_no_matter(tmp_path):
    (tmp_path / 'pytorch_model.bin').touch()
    assert other_formats.hint(tmp_path)
    (tmp_path / 'model-00001-of-00001.safetensors').touch()
    assert not other_formats.hint(tmp_path)
