"""What a command makes of a configuration."""

from unittest import mock

import pytest

from passk_jax import config as configs
from passk_jax.learning.optimizer import make_optimizer
from passk_jax.models import tokenizer as tokenizers
from passk_jax.setup import setup as setup_lib
from passk_jax.types import Problem
from tests import tiny


def test_the_parts_fit_each_other():
    setup = tiny.make_setup(tiny.make_config())
    assert setup.task.name == 'maze'
    assert setup.policy.arch.vocab_size == len(setup.tokenizer)
    assert setup.policy.arch.num_layers == 1
    assert setup.stop_tokens == (setup.tokenizer.eos_token_id,)
    assert setup.mesh.size == 1


def test_every_character_of_prompts_and_demonstrations_has_a_token():
    setup = tiny.make_setup(tiny.make_config())
    problem = setup.task.source('train', data_dir=setup.config.data.dir)[0]
    ids = setup.encode(problem)
    assert len(ids) == len(problem.prompt)
    assert setup.tokenizer.decode(ids) == problem.prompt
    assert setup.tokenizer.encode('UDLR', add_special_tokens=False)


def test_a_saved_tokenizer_serves_another_run(tmp_path):
    setup = tiny.make_setup(tiny.make_config())
    setup.tokenizer.save_pretrained(tmp_path)
    other = tiny.make_setup(tiny.make_config(model__tokenizer=str(tmp_path)))
    problem = Problem(0, 'S.E\n', {}, '')
    assert other.encode(problem) == setup.encode(problem)
    assert other.stop_tokens == setup.stop_tokens


def test_answers_that_have_no_room_are_an_error_before_anything_is_made():
    config = tiny.make_config(sampling__max_response_tokens=3)
    with pytest.raises(ValueError, match=r'too small for answers of 3 moves'):
        tiny.make_setup(config)


@pytest.mark.parametrize(
    ('num_devices', 'init', 'names'),
    [
        (1, 'warm_start', []),
        (2, 'warm_start', ['init.warm_start.batch_size=15', 'eval.batch_size=5']),
        (2, 'scratch', ['eval.batch_size=5']),
        (8, 'scratch', ['train.micro_batch_prompts=4', 'eval.batch_size=5']),
    ],
)
def test_batches_that_the_devices_cannot_share_are_named(
    num_devices, init, names, caplog
):
    config = tiny.make_config(
        init__kind=init, init__warm_start__batch_size=15, eval__batch_size=5
    )
    with tiny.devices(num_devices):
        setup_lib.make_setup(config)
    warnings = [r.getMessage() for r in caplog.records if r.levelname == 'WARNING']
    assert len(warnings) == bool(names)
    if names:
        assert f'mesh.data x mesh.fsdp = {num_devices} ' in warnings[0]
        listed, shared = warnings[0].rpartition(': ')[2].split('. ')
        assert listed == ', '.join(names)
        assert shared == f'Multiples of {num_devices} are shared'


@pytest.mark.parametrize(
    ('name', 'value', 'n', 'warned'),
    [
        ('temperature', 0, 4, 1),
        ('temperature', 0, 1, 0),
        ('temperature', 1, 4, 0),
        ('top_k', 1, 4, 1),
        ('top_k', 2, 4, 0),
        ('min_p', 1, 4, 1),
        # The policy has some ten tokens.
        ('top_p', 0.01, 4, 1),
        ('top_p', 0.5, 4, 0),
    ],
)
def test_several_greedy_responses_are_named_for_what_they_are(
    name, value, n, warned, caplog
):
    changes = {f'eval__{name}': value, 'eval__num_responses': n}
    tiny.make_setup(tiny.make_config(**changes))
    messages = [r.getMessage() for r in caplog.records if 'greedy' in r.getMessage()]
    assert len(messages) == warned
    assert not warned or f'eval.{name}={value} is greedy' in messages[0]
    assert not warned or 'all eval.num_responses=4 responses' in messages[0]


def test_rollouts_that_are_all_equal_are_an_error_before_any_weights():
    message = r'sampling.top_p=0.01 takes only the most probable of \d+ tokens'
    with pytest.raises(ValueError, match=message):
        tiny.make_setup(tiny.make_config(sampling__top_p=0.01))


def test_rollouts_that_the_devices_cannot_share_are_named(caplog):
    config = tiny.make_config(
        mesh__fsdp=1, mesh__rollout=-1, sampling__num_rollouts=6, init__kind='scratch'
    )
    with tiny.devices(4):
        setup_lib.make_setup(config)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == 'WARNING']
    assert 'mesh.rollout = 4 divides none' in warning
    assert warning.endswith(': sampling.num_rollouts=6. Multiples of 4 are shared')


def test_a_mesh_of_sampling_that_the_devices_lack_is_refused_before_any_weights():
    config = tiny.make_config(
        mesh__rollout=4, mesh__decode_tensor=4, model__arch__num_kv_heads=2
    )
    message = r'mesh.decode_tensor=4 must be 0 .* one of \[1, 2\].* 2 key/value heads'
    with tiny.devices(8), pytest.raises(ValueError, match=message):
        setup_lib.make_setup(config)


def test_sampling_has_the_mesh_that_is_asked_for():
    config = tiny.make_config(
        mesh__rollout=4, mesh__decode_tensor=2, model__arch__num_kv_heads=2
    )
    with tiny.devices(8):
        setup = setup_lib.make_setup(config)
    assert setup.mesh.axis_sizes == (1, 2, 4, 1)
    for verb in (setup.sample(), setup.evaluate().sample):
        assert verb.mesh == setup.mesh
        assert verb.decode_mesh.axis_sizes == (1, 2, 2, 2)
    alone = tiny.make_setup(tiny.make_config())
    assert alone.sample().decode_mesh is alone.sample().mesh


def test_what_the_mesh_of_sampling_does_not_divide_is_named(caplog):
    config = tiny.make_config(
        mesh__fsdp=1,
        mesh__tensor=8,
        mesh__decode_tensor=1,
        eval__num_responses=8,
        init__kind='scratch',
    )
    with tiny.devices(8):
        setup_lib.make_setup(config)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == 'WARNING']
    assert "'rollout' of the mesh of sampling = 8 divides none" in warning
    assert warning.endswith(': sampling.num_rollouts=4. Multiples of 8 are shared')


def test_what_the_mesh_of_training_does_not_divide_is_sampled_on_another(caplog):
    config = tiny.make_config(
        mesh__rollout=4,
        mesh__decode_tensor=4,
        model__arch__num_heads=4,
        model__arch__num_kv_heads=4,
        eval__num_responses=2,
        init__kind='scratch',
    )
    with tiny.devices(8):
        setup = setup_lib.make_setup(config)
    assert setup.decode_mesh.axis_sizes == (1, 2, 1, 4)
    assert 'eval.num_responses' not in caplog.text


def test_a_run_on_all_devices_is_set_up_on_one(caplog):
    config = tiny.make_config(
        mesh__fsdp=-1, mesh__decode_tensor=2, model__arch__num_kv_heads=2
    )
    with tiny.devices(1):
        setup = setup_lib.make_setup(config)
    assert setup.decode_mesh is setup.mesh
    assert caplog.text.count('mesh.decode_tensor=2 has no mesh on these devices') == 1


def test_the_learner_of_every_attention_packs():
    """That of the platform's own choice too, which a configuration does not say."""
    choice = 'passk_jax.models.attention_kernels.choose_implementation'
    with mock.patch(choice, return_value='splash'):
        setup = tiny.make_setup(tiny.make_config(train__packing='rows'))
    assert setup.policy.arch.attention == 'splash'
    assert setup.update(make_optimizer(setup.config.optimizer)).deals


def test_a_device_that_has_one_response_to_a_problem_is_not_to_pack():
    config = tiny.make_config(
        mesh__fsdp=1, mesh__rollout=-1, train__pack_sizes=2, init__kind='scratch'
    )
    with tiny.devices(4), pytest.raises(ValueError, match=r'with mesh.rollout=4 and'):
        setup_lib.make_setup(config)
    with tiny.devices(2):
        setup_lib.make_setup(config)


def test_prompts_are_written_with_the_templates_switches(tmp_path):
    tokenizer = tokenizers.character_tokenizer('SE.*\nUDLR')
    tokenizer.chat_template += "{% if thinking == 'long' %}LR{% endif %}"
    tokenizer.save_pretrained(tmp_path)
    config = tiny.make_config(
        model__tokenizer=str(tmp_path), data__chat_template_kwargs={'thinking': 'long'}
    )
    problem = Problem(0, 'S.E', {}, '')
    assert tokenizer.decode(tiny.make_setup(config).encode(problem)) == 'S.ELR'


def test_a_run_has_one_date_which_its_configuration_records(tmp_path):
    tokenizer = tokenizers.character_tokenizer('SE.*\nUDLR0123456789-')
    tokenizer.chat_template += '{{ strftime_now("%Y-%m-%d") }}'
    tokenizer.save_pretrained(tmp_path)
    config = tiny.make_config(model__tokenizer=str(tmp_path))
    assert configs.to_dict(config)['data']['chat_date'] == tokenizers.CHAT_DATE
    problem = Problem(0, 'S.E', {}, '')
    assert tokenizer.decode(tiny.make_setup(config).encode(problem)) == 'S.E2024-07-26'
    config = tiny.make_config(
        model__tokenizer=str(tmp_path), data__chat_date='2026-11-25'
    )
    assert tokenizer.decode(tiny.make_setup(config).encode(problem)) == 'S.E2026-11-25'


@pytest.mark.parametrize('date', ['', 'today', '26 Jul 2024', '2024-13-01', '20240726'])
def test_a_date_that_is_none_is_refused(date):
    with pytest.raises(ValueError, match=r'data.chat_date=.* must be a date as 2024'):
        tiny.make_config(data__chat_date=date)


def test_a_model_that_no_memory_holds_is_an_error_at_once():
    sizes = {f'model__arch__{name}_dim': 10**6 for name in ('embed', 'mlp')}
    config = tiny.make_config(**sizes, model__arch__num_layers=1000)
    with pytest.raises(ValueError, match=r'embed_dim=1000000, .* of the mesh'):
        tiny.make_setup(config)


@pytest.mark.parametrize(
    ('key', 'value', 'message'),
    [
        ('data__system_prompt', 'Think', "the tokenizer cannot encode 'Think'"),
        (
            'data__chat_template_kwargs',
            {'think': 1},
            r"has \['think'\], which the chat",
        ),
        (
            'task__name',
            'amaze',
            r"task 'amaze' is none of \['arc', .*'maze', .*\]",
        ),
        ('model__family', 'gpt', r"model_type='gpt' is none of .*'qwen2'"),
        ('model__tokenizer', '/absent', r"no tokenizer in '/absent'"),
        ('model__attention', 'splash', "'splash' cannot run on platform='cpu'"),
        ('mesh__data', 5, r"'data': 5.*does not fit 1 devices"),
    ],
)
def test_what_does_not_exist_is_named(key, value, message):
    with pytest.raises(ValueError, match=message):
        tiny.make_setup(tiny.make_config(**{key: value}))


@pytest.mark.parametrize('dtype', ['', 'int8'])
def test_it_is_said_that_a_cpu_converts_the_cache_for_every_token(dtype, caplog):
    tiny.make_setup(tiny.make_config(sampling__cache_dtype=dtype))
    message = "with model.attention='plain' every token converts all keys and values"
    assert (message in caplog.text) == bool(dtype)


def test_a_cache_too_small_for_anything_is_an_error_at_once():
    config = tiny.make_config(sampling__max_cache_bytes=1)
    message = r'training: sampling.max_cache_bytes=1 is too small'
    with pytest.raises(ValueError, match=message):
        tiny.make_setup(config)


def test_an_evaluation_whose_rollouts_cannot_wait_is_an_error_at_once():
    """More problems alone are none: their prompts run as slots become free."""
    limit = {'sampling__max_cache_bytes': 40_000}
    tiny.make_setup(tiny.make_config(**limit, eval__batch_size=64))
    config = tiny.make_config(**limit, eval__batch_size=65, mesh__fsdp=-1)
    with tiny.devices(4), pytest.raises(ValueError, match=r'evaluation: .*65 prompts'):
        setup_lib.make_setup(config)
