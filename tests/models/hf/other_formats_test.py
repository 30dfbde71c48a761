import re

import pytest

from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.hf import config, other_formats, weights
from tests.models import oracle
from tests.models.hf.oracle import one_device

FILES = {
    'adapter_config.json': r'a LoRA adapter .*merge_and_unload\(\)\.save_pretrained',
    'model-Q4_K_M.gguf': r'llama\.cpp.* experiments\.smollm2 .*Q4_K_M\.gguf --out=',
    'pytorch_model.bin': r'pickled by PyTorch.*from_pretrained\(.*\)\.save_pretrained',
    'pytorch_model-00001-of-00002.bin': 'pickled by PyTorch',
    'model_world_size_8_rank_0.pt': "verl's FSDP .*verl.model_merger merge --backend f",
    'dist_ckpt': "verl's .*Megatron.*verl.model_merger merge --backend megatron",
    'pytorch_model_fsdp_0': 'FSDP.*accelerate merge-weights .*pytorch_model_fsdp_0 ',
    '__0_0.distcp': 'distributed checkpoint.*dcp_to_torch',
    'zero_to_fp32.py': 'DeepSpeed.*with python .*zero_to_fp32.py',
    'consolidated.00.pth': "Meta's own format.*convert_llama_weights_to_hf",
    'consolidated.safetensors': "Mistral's own format.*with model.safetensors",
    'weights.pth': 'pickled by PyTorch: load it .*save_pretrained',
    'last.ckpt': 'a checkpoint of a trainer: load it .*save_pretrained',
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


def test_a_file_says_what_it_is_and_what_converts_it(tmp_path):
    file = tmp_path / 'model.gguf'
    file.touch()
    command = re.escape(f'python -m experiments.smollm2 {file} --out=models/smollm2')
    words = f'is a file, not a directory; .*{command}'
    for read in (tokenizers.load_tokenizer, config.position_limit):
        with pytest.raises(ValueError, match=words):
            read(str(file))


def test_a_file_that_was_converted_is_no_matter(tmp_path):
    (tmp_path / 'pytorch_model.bin').touch()
    assert other_formats.hint(tmp_path)
    (tmp_path / 'model-00001-of-00001.safetensors').touch()
    assert not other_formats.hint(tmp_path)


def test_the_folder_that_verl_writes_names_the_shards_above_it(tmp_path):
    shard = tmp_path / 'model_world_size_2_rank_0.pt'
    shard.touch()
    (below := tmp_path / 'huggingface').mkdir()
    assert f'; {shard} is' in (words := other_formats.hint(below))
    assert f'--local_dir {tmp_path} ' in words
    # Only a folder of this name lies below shards.
    (other := tmp_path / 'other').mkdir()
    assert not other_formats.hint(other)


def test_the_state_of_a_trainer_is_no_model(tmp_path):
    for name in ('optimizer.pt', 'rng_state_0.pth', 'scheduler.pt'):
        (tmp_path / name).touch()
    assert not other_formats.hint(tmp_path)


POINTER = 'version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3087467144\n'
STAND_INS = {
    POINTER: 'is a pointer of Git LFS, not the file.*git lfs pull.*hf download',
    '# xet version 0\n': 'is a pointer of Xet, not the file',
    '<!DOCTYPE html>\n<html>': 'is a page of HTML, not the file',
    '\n<html lang="en">': 'is a page of HTML, not the file',
}


@pytest.mark.parametrize('text', STAND_INS)
def test_a_file_that_stands_for_another_is_called_what_it_is(text, tmp_path):
    policy = oracle.tiny_policy()
    readers = {
        'tokenizer.json': tokenizers.load_tokenizer,
        'config.json': config.position_limit,
        'generation_config.json': tokenizers.load_generation_config,
        'model.safetensors': lambda x: weights.load_params(policy, x, one_device()),
        'model.safetensors.index.json': (
            lambda x: weights.load_params(policy, x, one_device())
        ),
    }
    for name, read in readers.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=f'{name} {STAND_INS[text]}'):
            read(str(tmp_path))


def test_a_damaged_file_is_no_stand_in(tmp_path):
    (tmp_path / 'model.safetensors').write_bytes(b'\x00' * 9)
    assert not other_formats.stand_in(tmp_path / 'model.safetensors')
    assert not other_formats.stand_in(tmp_path / 'absent')
