import itertools
import json
import pathlib
import signal
import subprocess
import sys
from unittest import mock

import jax
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import torch
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES, family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import save as hf_save
from passk_jax.models.hf import weights
from tests import tiny
from tests.models import oracle
from tests.models.hf import oracle as hf_oracle
from tests.slow import slow_values

ONE_FILE = 10**9


def save(policy, params, directory, **options):
    """Writes the weights into a new directory."""
    with hf_save.new_directory(directory) as path:
        hf_save.write_params(policy, params, path, **options)


def reload(directory, dtype):
    """What transformers makes of a directory, with nothing missing or left over."""
    model, notes = hf_oracle.load(directory, dtype=dtype, output_loading_info=True)
    assert not any(notes[kind] for kind in notes), notes
    return model


@pytest.mark.parametrize('shard_bytes', [ONE_FILE, 10_000])
@pytest.mark.parametrize('dtype', ['float32', *slow_values(['bfloat16'])])
@pytest.mark.parametrize('tie', [False, *slow_values([True])])
@pytest.mark.parametrize('family', FAMILIES)
def test_a_model_comes_back_bit_for_bit(family, tie, dtype, shard_bytes, tmp_path):
    model = hf_oracle.make_model(family, tie_word_embeddings=tie)
    model = model.to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / 'theirs')
    policy, params = hf_oracle.read(tmp_path / 'theirs', param_dtype=dtype)
    ours = tmp_path / 'ours'
    save(policy, params, ours, dtype=dtype, max_shard_bytes=shard_bytes)
    config = (tmp_path / 'theirs' / 'config.json').read_text()
    (ours / 'config.json').write_text(config)
    again = reload(ours, dtype).state_dict()
    assert again.keys() == model.state_dict().keys()
    for name, x in model.state_dict().items():
        assert torch.equal(x, again[name]), name
        assert x.dtype == again[name].dtype
    files = list(ours.glob('*.safetensors'))
    assert (len(files) > 1) == (shard_bytes < ONE_FILE)
    stored = [name for file in files for name in safetensors.numpy.load_file(file)]
    assert len(stored) == len(set(stored))
    assert ('lm_head.weight' in stored) != tie


def test_a_policy_made_from_scratch_is_a_model_of_its_family(tmp_path):
    policy = oracle.tiny_policy(qkv_bias=False, qk_norm=True)
    params = oracle.random_params(policy)
    save(policy, params, tmp_path, dtype='float32', max_shard_bytes=ONE_FILE)
    fields = hf_config.hf_config_fields(
        policy.arch,
        family_of('qwen3'),
        dtype='float32',
        max_positions=64,
        eos_token_ids=(1,),
        pad_token_id=0,
    )
    (tmp_path / 'config.json').write_text(json.dumps(fields))
    model = reload(tmp_path, 'float32').eval()
    model.set_attn_implementation('eager')
    prompts = hf_oracle.unequal_prompts(16, lengths=(5, 2, 7), seed=0)
    assert hf_oracle.logits_error(model, policy, params, prompts) < 1e-5


def test_float32_masters_are_rounded_to_the_nearest_bfloat16(tmp_path):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    save(policy, params, tmp_path / 'a', dtype='bfloat16', max_shard_bytes=ONE_FILE)
    have = weights.load_params(policy, str(tmp_path / 'a'), hf_oracle.one_device())
    for name, x in params.items():
        rounded = x.astype(jnp.bfloat16).astype(jnp.float32)
        np.testing.assert_array_equal(have[name], rounded)


@pytest.mark.parametrize('shard_bytes', [ONE_FILE, 20_000, 1])
def test_files_are_no_larger_than_asked_and_the_same_from_any_mesh(
    shard_bytes, tmp_path
):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    shapes = policies.param_shapes(
        policy, sharding.make_mesh(data=1, fsdp=2, rollout=2, tensor=2)
    )
    placed = {
        name: jax.device_put(params[name], x.sharding) for name, x in shapes.items()
    }
    options = {'dtype': 'float32', 'max_shard_bytes': shard_bytes}
    save(policy, params, tmp_path / 'one', **options)
    save(policy, placed, tmp_path / 'eight', **options)
    one, eight = (
        {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()}
        for name in ('one', 'eight')
    )
    assert one == eight
    sizes = {}
    for path in (tmp_path / 'one').glob('*.safetensors'):
        tensors = safetensors.numpy.load_file(path)
        sizes[path.name] = [x.nbytes for x in tensors.values()]
    for file_sizes in sizes.values():
        assert sum(file_sizes) <= shard_bytes or len(file_sizes) == 1
    total = 4 * sum(x.size for x in params.values())
    assert sum(map(sum, sizes.values())) == total
    if shard_bytes == ONE_FILE:
        assert sizes.keys() == one.keys() == {'model.safetensors'}
        return
    index = json.loads(one['model.safetensors.index.json'])
    assert index['metadata'] == {'total_size': total}
    assert set(index['weight_map'].values()) == sizes.keys()
    # Nor are there more of them: the next one's first had no room.
    ordered = sorted(sizes.items())
    for (_, file_sizes), (name, _) in itertools.pairwise(ordered):
        with safetensors.safe_open(tmp_path / 'one' / name, 'numpy') as file:
            # Of transformers 4, which reads no file that does not say so.
            assert file.metadata() == {'format': 'pt'}
            first = file.get_tensor(file.offset_keys()[0])
        assert sum(file_sizes) + first.nbytes > shard_bytes


def test_one_tensor_at_a_time_is_gathered(tmp_path, monkeypatch):
    """The largest array that is made has a layer of one parameter, or the table."""
    policy = oracle.tiny_policy()
    sizes = []
    gather = hf_save._gather
    monkeypatch.setattr(
        hf_save, '_gather', lambda *args: sizes.append(x := gather(*args)) or x
    )
    params = oracle.random_params(policy)
    save(policy, params, tmp_path, dtype='float32', max_shard_bytes=ONE_FILE)
    assert len(sizes) == 3 + 2 * 12
    assert max(x.size for x in sizes) == 32 * 48


def test_a_directory_with_content_is_refused_and_left_alone(tmp_path):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    (tmp_path / 'there').mkdir()
    (tmp_path / 'there' / 'mine').write_text('kept')
    (tmp_path / 'file').write_text('kept')
    for name in ('there', 'file'):
        with pytest.raises(
            ValueError, match=f'{name} exists and is not an empty directory'
        ):
            save(
                policy,
                params,
                tmp_path / name,
                dtype='float32',
                max_shard_bytes=ONE_FILE,
            )
    assert {p.name for p in tmp_path.iterdir()} == {'there', 'file'}
    assert [p.name for p in (tmp_path / 'there').iterdir()] == ['mine']


def test_a_directory_must_have_a_name_that_it_can_get(tmp_path, monkeypatch):
    """Said before the work, by the check, and again when the directory is made."""
    (tmp_path / 'file').write_text('mine')
    (tmp_path / 'circle').symlink_to(tmp_path / 'circle')
    (tmp_path / 'link').symlink_to(tmp_path)
    (tmp_path / 'mounted').mkdir()
    is_mount = pathlib.Path.is_mount
    monkeypatch.setattr(
        pathlib.Path, 'is_mount', lambda p: p.name == 'mounted' or is_mount(p)
    )
    before = sorted(tmp_path.rglob('*'))
    for path, words in (
        ('/', 'mount point.*name a directory in it'),
        (tmp_path / 'mounted', 'mount point.*name a directory in it'),
        (tmp_path / 'circle', 'exists and is not an empty'),
        (tmp_path / 'link', f'{tmp_path.name} exists and is not an empty'),
        (tmp_path / 'file' / 'a' / 'out', 'out cannot be made: .*Not a dir'),
        # Where not even root can write.
        ('/proc/a/out', '/proc/a/out cannot be made: '),
        (tmp_path / ('a' * 250), 'cannot be made: .*too long'),
    ):
        with pytest.raises(ValueError, match=words):
            hf_save.new_directory(path).__enter__()
        if 'too long' not in words:
            with pytest.raises(ValueError, match=words):
                hf_save.check_new(path)
    assert sorted(tmp_path.rglob('*')) == before


@pytest.mark.parametrize('target', [True, False])
def test_a_link_is_the_directory_that_it_names(target, tmp_path):
    if target:
        (tmp_path / 'elsewhere').mkdir()
    (tmp_path / 'link').symlink_to('elsewhere')
    hf_save.check_new(tmp_path / 'link')
    with hf_save.new_directory(tmp_path / 'link') as path:
        (path / 'file').write_text('x')
    assert (tmp_path / 'link').is_symlink()
    assert [p.name for p in (tmp_path / 'elsewhere').iterdir()] == ['file']
    assert {p.name for p in tmp_path.iterdir()} == {'link', 'elsewhere'}


def test_the_check_makes_nothing(tmp_path):
    hf_save.check_new(tmp_path / 'a' / 'b')
    assert not list(tmp_path.iterdir())


def test_what_could_not_get_its_name_stays(tmp_path):
    """Somebody else was quicker."""

    def write():
        with hf_save.new_directory(tmp_path / 'out') as path:
            (path / 'weights').write_text('hours of work')
            (tmp_path / 'out').mkdir()
            (tmp_path / 'out' / 'file').write_text('theirs')

    with pytest.raises(ValueError, match='all is written and stays in') as error:
        write()
    (path,) = tmp_path.glob('.out.*')
    assert str(path) in str(error.value)
    assert (path / 'weights').read_text() == 'hours of work'
    assert [p.name for p in (tmp_path / 'out').iterdir()] == ['file']


def test_what_a_killed_one_left_behind_is_named(tmp_path):
    script = f"""if True:
        import os, signal
        from passk_jax.models.hf import save as hf_save
        with hf_save.new_directory({str(tmp_path / 'out')!r}):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, '-c', script], check=False, env=tiny.environment()
    )
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = tmp_path.iterdir()
    (tmp_path / '.out.more.a.unfinished').mkdir()
    (tmp_path / '.another.a.unfinished').mkdir()
    with (
        mock.patch.object(hf_save.logging, 'warning') as warned,
        mock.patch.object(hf_save.logging, 'info') as info,
        hf_save.new_directory(tmp_path / 'out') as path,
    ):
        pass
    assert [call.args[1] for call in warned.call_args_list] == [leftover]
    assert [call.args[1] for call in info.call_args_list] == [path]


def test_what_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    seen = []

    def fails(*args):
        seen.extend(p.name for p in tmp_path.iterdir())
        raise OSError('no space left')

    monkeypatch.setattr(hf_save, '_gather', fails)
    with pytest.raises(OSError, match='no space left'):
        save(
            policy, params, tmp_path / 'out', dtype='float32', max_shard_bytes=ONE_FILE
        )
    assert seen
    assert 'out' not in seen
    assert not list(tmp_path.iterdir())


def test_what_is_written_is_as_readable_as_any_other(tmp_path):
    usual = tmp_path / 'usual'
    usual.mkdir()
    (usual / 'file').write_text('x')
    policy = oracle.tiny_policy()
    ours = tmp_path / 'a' / 'b'
    save(
        policy,
        oracle.random_params(policy),
        ours,
        dtype='float32',
        max_shard_bytes=ONE_FILE,
    )
    assert ours.stat().st_mode == usual.stat().st_mode
    mode = (usual / 'file').stat().st_mode
    assert (ours / 'model.safetensors').stat().st_mode == mode


def test_only_process_0_makes_a_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, 'process_index', lambda: 1)
    # It may be there already: process 0 was quicker.
    with hf_save.new_directory('/') as path:
        assert path is None
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    save(policy, params, tmp_path / 'out', dtype='float32', max_shard_bytes=1000)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'dtype': 'float16'}, r"dtype='float16' is none of \('bfloat16', 'float32'\)"),
        ({'max_shard_bytes': 0}, 'max_shard_bytes=0 must be positive'),
        ({'params': {'layers.0.mlp.up.kernel': None}}, r'layers\.0\.mlp.* are none of'),
    ],
)
def test_what_cannot_be_written_is_refused(changes, words, tmp_path):
    policy = oracle.tiny_policy()
    arguments = {
        'params': oracle.random_params(policy),
        'dtype': 'float32',
        'max_shard_bytes': ONE_FILE,
    }
    with pytest.raises(ValueError, match=words):
        save(policy, directory=tmp_path / 'out', **(arguments | changes))
