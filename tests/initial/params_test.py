"""The first policy: made, read, cached, or refused with the reason."""

import json
import shutil
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import config as configs
from passk_jax.config import checks
from passk_jax.initial import params as initial
from tests import tiny


def make(workdir, **overrides):
    """The initial parameters as numpy."""
    setup = tiny.make_setup(tiny.make_config(**overrides))
    with jax.set_mesh(setup.mesh):
        return jax.device_get(setup.initial_params(workdir))


def same(a, b):
    assert a.keys() == b.keys()
    return all(a[name].tobytes() == b[name].tobytes() for name in a)


def from_run(workdir):
    return {'init__kind': 'checkpoint', 'init__checkpoint': str(workdir)}


def test_scratch_is_a_function_of_the_seed(tmp_path):
    first = make(tmp_path, init__kind='scratch')
    assert same(first, make(tmp_path, init__kind='scratch'))
    assert not same(first, make(tmp_path, init__kind='scratch', seed=1))
    assert not list(tmp_path.iterdir())


def test_a_warm_start_is_made_once_and_read_ever_after(finished_run, tmp_path):
    first = make(tmp_path)
    assert not same(first, make(tmp_path, init__kind='scratch'))
    with mock.patch.object(initial, 'warm_start', side_effect=AssertionError):
        assert same(first, make(tmp_path))
        # So was the run's: the directory has no part in it.
        assert same(first, make(finished_run))


@pytest.mark.parametrize(
    ('override', 'name'),
    [
        ({'seed': 1}, 'seed'),
        ({'init__warm_start__steps': 3}, 'warm_start'),
        ({'task__params__seed': 5}, 'task'),
        ({'model__arch__norm_eps': 1e-5}, 'model'),
        ({'sampling__max_response_tokens': 6}, 'max_response_tokens'),
        ({'data__system_prompt': 'UD'}, 'system_prompt'),
    ],
)
def test_a_warm_start_of_another_config_is_refused(override, name, finished_run):
    with pytest.raises(ValueError, match=rf'made with another {name}; delete'):
        make(finished_run, **override)


def test_what_does_not_decide_the_values_may_differ(finished_run):
    ours = make(finished_run)
    assert same(ours, make(finished_run, advantage__k=3, loss__kl_coef=0.1))
    on_other_devices = {
        'model__attention': 'plain',
        'model__remat': 'full',
        'model__head_chunk_tokens': 7,
    }
    assert same(ours, make(finished_run, **on_other_devices))


def test_a_warm_start_that_is_older_than_an_option_is_still_read(finished_run):
    meta = json.loads((finished_run / 'warm_start' / '0' / 'commit.json').read_text())
    assert (
        not {'system_prompt', 'chat_template_kwargs', 'chat_date'}
        & meta['meta']['fingerprint'].keys()
    )


def test_what_only_rounds_otherwise_is_a_key_of_the_configuration():
    keys = checks.flatten(configs.to_dict(tiny.make_config()))
    assert keys.keys() > set(initial.ONLY_ROUNDING)


def test_a_corrupted_warm_start_is_refused(finished_run, tmp_path):
    workdir = tiny.warm_copy(finished_run, tmp_path)
    for file in (workdir / 'warm_start' / '0').rglob('d/*'):
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r'warm_start/0 is corrupted'):
        make(workdir)


def test_another_run_gives_its_newest_parameters(finished_run, tmp_path):
    params = make(tmp_path, **from_run(finished_run))
    saved = tiny.saved_arrays(finished_run, 5)
    assert same(
        {f'params/{name}': x for name, x in params.items()},
        {name: x for name, x in saved.items() if name.startswith('params/')},
    )


ROUNDED = {'model__frozen': ('embed',), 'model__frozen_dtype': 'bfloat16'}
ADAPTERS = {
    'model__lora__rank': 2,
    'model__lora__alpha': 4.0,
    'model__lora__targets': ('q_proj',),
}


@pytest.mark.parametrize('adapters', [{}, ADAPTERS], ids=['frozen', 'adapters'])
def test_another_run_gives_frozen_parameters_their_dtype(
    adapters, finished_run, tmp_path
):
    changes = adapters or ROUNDED
    changes = changes | {'model__frozen_dtype': 'bfloat16'}
    first = make(tmp_path, **from_run(finished_run))
    params = make(tmp_path, **from_run(finished_run), **changes)
    for name, x in first.items():
        is_frozen = bool(adapters) or name == 'embed.embedding'
        assert params[name].dtype == ('bfloat16' if is_frozen else 'float32')
        np.testing.assert_array_equal(params[name], x.astype(params[name].dtype))


@pytest.mark.parametrize('changes', [{}, ADAPTERS], ids=['all', 'adapters'])
def test_a_run_trains_what_another_froze_in_another_dtype(changes, rounded, tmp_path):
    params = make(tmp_path, **from_run(rounded), **changes)
    saved = tiny.saved_arrays(rounded, 1)
    scratch = make(tmp_path, init__kind='scratch')
    table = scratch['embed.embedding'].astype('bfloat16')
    for name in scratch:
        want = table if name == 'embed.embedding' else saved[f'params/{name}']
        assert params[name].dtype == 'float32'
        np.testing.assert_array_equal(params[name], want.astype('float32'))


@pytest.fixture(scope='module')
def rounded(tmp_path_factory):
    """A run that froze its token table in bfloat16."""
    workdir = tmp_path_factory.mktemp('rounded')
    settings = tiny.ONLY_STEPS | ROUNDED | {'train__steps': 1}
    assert tiny.run(tiny.make_config(**settings), workdir)
    return workdir


def test_a_resumed_run_gets_the_parameters_it_began_with(finished_run, tmp_path):
    """Though the run they are from has gone on since."""
    other = tmp_path / 'other'
    shutil.copytree(finished_run, other)
    newest = other / 'checkpoints' / '5'
    newest.rename(tmp_path / '5')
    began = make(tmp_path, **from_run(other))
    assert json.loads((tmp_path / 'initial.json').read_text())['step'] == 4
    (tmp_path / 'metrics.jsonl').touch()
    (tmp_path / '5').rename(newest)
    assert same(began, make(tmp_path, **from_run(other)))
    # Another directory, or another source, begins with the newest.
    assert not same(began, make(tmp_path / 'other', **from_run(other)))
    assert not same(began, make(tmp_path, **from_run(finished_run)))


def test_a_run_that_died_before_it_began_starts_from_the_newest(finished_run, tmp_path):
    other = tmp_path / 'other'
    shutil.copytree(finished_run, other)
    newest = other / 'checkpoints' / '5'
    newest.rename(tmp_path / '5')
    make(tmp_path, **from_run(other))
    (tmp_path / '5').rename(newest)
    params = make(tmp_path, **from_run(other))
    assert same(params, make(other, **from_run(other)))
    assert json.loads((tmp_path / 'initial.json').read_text())['step'] == 5


def test_a_relative_path_is_where_it_was_at_first(finished_run, tmp_path, monkeypatch):
    shutil.copytree(finished_run, tmp_path / 'other')
    (tmp_path / 'run').mkdir()
    monkeypatch.chdir(tmp_path)
    began = make(tmp_path / 'run', **from_run('other'))
    (tmp_path / 'run' / 'metrics.jsonl').touch()
    noted = json.loads((tmp_path / 'run' / 'initial.json').read_text())
    path = str(tmp_path / 'other')
    assert noted == {'checkpoint': 'other', 'path': path, 'step': 5}
    monkeypatch.chdir(tmp_path / 'run')
    assert same(began, make(tmp_path / 'run', **from_run('other')))


def test_a_run_may_be_in_the_home_directory(finished_run, tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(finished_run.parent))
    began = make(tmp_path, **from_run(f'~/{finished_run.name}'))
    assert same(began, make(tmp_path, **from_run(finished_run)))


@pytest.mark.parametrize('content', [b'{', b'\xff', b'[]', b'{"checkpoint": "a"}'])
def test_a_damaged_note_is_named(finished_run, tmp_path, content):
    (tmp_path / 'initial.json').write_bytes(content)
    (tmp_path / 'metrics.jsonl').touch()
    with pytest.raises(ValueError, match=r'initial.json is damaged'):
        make(tmp_path, **from_run(finished_run))


def test_a_run_that_has_saved_nothing_is_refused(tmp_path):
    for workdir in (tmp_path, tmp_path / 'absent'):
        with pytest.raises(ValueError, match=r'no checkpoint to restore: .*not exist'):
            make(tmp_path, **from_run(workdir))
    (tmp_path / 'checkpoints').mkdir()
    with pytest.raises(ValueError, match=r'no checkpoint to restore: .* is empty'):
        make(tmp_path, **from_run(tmp_path))


def test_a_run_of_another_model_is_refused(finished_run, tmp_path):
    settings = from_run(finished_run) | {'model__arch__mlp_dim': 48}
    with pytest.raises(ValueError, match=r'(?s)does not fit this run.*mlp.up.kernel'):
        make(tmp_path, **settings)


@pytest.mark.slow
def test_training_goes_on_from_another_run(finished_run, tmp_path):
    config = tiny.make_config(
        **tiny.ONLY_STEPS | from_run(finished_run), train__steps=1
    )
    assert tiny.run(config, tmp_path)
    row = tiny.metrics(tmp_path, 'train')[0]
    last = tiny.metrics(finished_run, 'train')[-1]
    # Its entropy, and not that of random parameters (2.4 nats).
    assert row['entropy'] == pytest.approx(last['entropy'], abs=0.15)


@pytest.fixture(scope='module')
def hf_model(tmp_path_factory):
    """A directory such as the hub has: a tiny random Qwen2, and its state."""
    torch = pytest.importorskip('torch', reason='torch writes the model')
    import transformers

    directory = tmp_path_factory.mktemp('qwen2')
    tokenizer = tiny.make_setup(tiny.make_config()).tokenizer
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=None,
            bos_token_id=None,
        )
    )
    model.save_pretrained(directory)
    return directory, {name: x.numpy() for name, x in model.state_dict().items()}


def of_hf(directory):
    arch = dict.fromkeys(
        ('num_layers', 'embed_dim', 'num_heads', 'num_kv_heads', 'head_dim', 'mlp_dim'),
        0,
    )
    arch |= {'rope_theta': 0.0, 'norm_eps': 0.0, 'tie_embeddings': False}
    return {f'model__arch__{name}': value for name, value in arch.items()} | {
        'model__source': str(directory),
        'model__tokenizer': 'source',
        'init__kind': 'hf',
    }


def test_a_hugging_face_directory_gives_weights_and_tokenizer(hf_model, tmp_path):
    directory, state = hf_model
    params = make(tmp_path, **of_hf(directory))
    np.testing.assert_array_equal(
        params['embed.embedding'], state['model.embed_tokens.weight']
    )
    np.testing.assert_array_equal(
        params['layers.mlp.down.kernel'][0],
        state['model.layers.0.mlp.down_proj.weight'].T,
    )


def test_a_hugging_face_model_trains_and_resumes(hf_model, tmp_path):
    directory, _ = hf_model
    settings = tiny.ONLY_STEPS | of_hf(directory) | {'train__steps': 2}
    config = tiny.make_config(**settings, checkpoint__every=1)
    assert tiny.run(config, tmp_path / 'a')
    assert len(tiny.metrics(tmp_path / 'a', 'train')) == 2
    with tiny.stop_before(1):
        assert not tiny.run(config, tmp_path / 'b')
    assert tiny.run(config, tmp_path / 'b')
    tiny.assert_same_run(tmp_path / 'a', tmp_path / 'b', last=2)


def test_a_directory_that_holds_no_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=str(tmp_path)):
        make(tmp_path, **of_hf(tmp_path))
