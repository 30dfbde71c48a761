"""The configuration with which a published model is evaluated."""

import jax
import pytest

from passk_jax.errors import InputError
from passk_jax.models.hf import config as hf_config
from passk_jax.setup import published
from passk_jax.setup.published import published_config
from tests import tiny


def test_a_task_by_its_name_has_the_defaults_of_the_base_file():
    config = published_config('a/b', 'maze,arc')
    assert (config.task.name, config.task.params['test_sizes'][0]) == ('maze', 7)
    assert (config.eval.top_p, config.sampling.max_response_tokens) == (0.95, 4096)
    assert (config.model.source, config.model.tokenizer) == ('a/b', 'source')
    assert config.init.kind == 'hf'


def test_a_file_says_how_a_model_is_prompted():
    path = str(tiny.ROOT / 'configs' / 'smollm2.py')
    config = published_config('some/model', f'maze,{path}:sets=out_of_domain')
    assert config.model.source == 'some/model'
    assert config.sampling.max_response_tokens == 30
    assert set(config.task.params['sets']) >= {'gcd'}


def test_a_class_of_a_file_is_a_task_and_no_config_file(tmp_path):
    path = tmp_path / 'two.py'
    path.write_text('from tests.tasks.toy import LastDigit')
    config = published_config('a/b', f'{path}:LastDigit')
    assert (config.task.name, config.task.params) == (f'{path}:LastDigit', {})
    assert config.sampling.max_response_tokens == 4096
    file = str(tiny.ROOT / 'configs' / 'smollm2.py')
    config = published_config('a/b', f'{path}:LastDigit,{file}')
    assert config.task.name == 'reasoning_gym'


def test_the_base_file_is_that_of_the_package_in_any_directory(monkeypatch, tmp_path):
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'base.py').write_text('raise OSError')
    monkeypatch.chdir(tmp_path)
    assert published_config('a/b', 'maze').task.name == 'maze'


def test_what_a_cpu_changes_is_no_more_than_rounding():
    config = published_config('a/b', 'maze', mesh='1,1,1,-1')
    assert config.mesh.tensor == -1
    fitted = published.fit_to_devices(config)
    assert fitted.model.compute_dtype == 'float32'
    memory = published.device_bytes(jax.local_devices()[0])
    assert 0 < fitted.sampling.max_cache_bytes < memory
    assert 0 < fitted.eval.batch_size <= 8
    assert fitted.eval.num_responses == config.eval.num_responses


def test_a_prompt_limit_beyond_the_model_names_what_evaluate_can_set(monkeypatch):
    monkeypatch.setattr(hf_config, 'position_limit', lambda source: 100)
    config = published_config('a/b', 'maze')
    words = r"""(?x)model\.source='a/b'\ addresses\ 100: .*
        A\ config\ file\ in\ --task\ sets\ data\.max_prompt_tokens,\ which\ is\ \d+,
        .* --max_response_tokens\ sets"""
    with pytest.raises(InputError, match=words):
        published.check_lengths(config)


def test_every_file_that_decides_a_model_is_digested(tmp_path):
    for name in ('config.json', 'model.safetensors', 'README.md'):
        (tmp_path / name).write_text(name)
    before = published.digest_weights(str(tmp_path))
    assert before.keys() == {'config.json', 'model.safetensors'}
    # Mistral's weights in another format, which nobody reads.
    (tmp_path / 'consolidated.safetensors').write_text('twice')
    assert published.digest_weights(str(tmp_path)) == before
    (tmp_path / 'model.safetensors').write_text('other')
    assert published.digest_weights(str(tmp_path)) != before


def test_settings_of_experts_do_not_bind_another_model(tmp_path):
    (tmp_path / 'experts.py').write_text(
        'from configs import base\n'
        'def get_config():\n'
        '    config = base.get_config()\n'
        "    config.task.name = 'maze'\n"
        '    config.model.replay_routing = True\n'
        '    config.loss.router_aux_coef = 0.001\n'
        "    config.stages = {'b': {'start': 5, 'reset_optimizer': False,\n"
        "                           'loss': {'router_aux_coef': 0.01}}}\n"
        '    return config\n'
    )
    config = published_config('a/b', str(tmp_path / 'experts.py'))
    assert not config.model.replay_routing
    assert config.loss.router_aux_coef == 0
    assert config.stages == {}


def test_a_task_that_is_unknown_is_named():
    with pytest.raises(ValueError, match="task 'mazes' is none of"):
        published_config('a/b', 'mazes')
