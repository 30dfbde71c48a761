"""``python -m passk_jax.export``, called as the command calls itself."""

import dataclasses
import json
import shutil
import types

import jax
import numpy as np
import pytest
import transformers

from passk_jax import export, sampling
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf import weights
from passk_jax.runs import checkpoints
from tests import tiny
from tests.models.hf import oracle as hf_oracle
from tests.models.hf.source import make_source
from tests.slow import slow_values

_SIZES = (
    'num_layers',
    'embed_dim',
    'num_heads',
    'num_kv_heads',
    'head_dim',
    'mlp_dim',
)


def run(workdir, out, *, num_devices=1, **arguments):
    """Calls the command with these flags."""
    with tiny.devices(num_devices):
        export.main(workdir=str(workdir), out=str(out), **arguments)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope='module')
def exported(finished_run, tmp_path_factory):
    """A policy made from scratch, exported."""
    out = tmp_path_factory.mktemp('exported') / 'out'
    run(finished_run, out)
    return out


def load(directory):
    """What transformers makes of a directory; nothing is missing or left over."""
    model, notes = hf_oracle.load(directory, output_loading_info=True)
    assert not any(notes[kind] for kind in notes), notes
    return model.eval(), transformers.AutoTokenizer.from_pretrained(directory)


def assert_generates_as_the_run(directory, config, workdir, *, step):
    """Greedily, from the same texts, with nothing but what lies in the directory."""
    model, tokenizer = load(directory)
    setup = tiny.make_setup(config)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    params, _ = checkpoints.restore_params(workdir, shapes, step=step)
    T = config.sampling.max_response_tokens
    source = setup.task.source('test', data_dir=config.data.dir)
    for problem in source[:4]:
        ids = setup.encode(problem)
        ours = sampling.sample(
            setup.policy,
            params,
            hf_oracle.one_prompt(ids),
            key=jax.random.key(0),
            num_rollouts=1,
            max_response_tokens=T,
            options=sampling_options(temperature=0.0),
            stop_tokens=setup.stop_tokens,
        )
        turn = [{'role': 'user', 'content': problem.prompt}]
        inputs = tokenizer.apply_chat_template(
            turn, add_generation_prompt=True, return_tensors='pt', return_dict=True
        )
        assert inputs['input_ids'][0].tolist() == ids
        # Ids that no token has are not sampled here.
        unused = [
            *range(setup.policy.num_tokens, model.get_output_embeddings().out_features)
        ]
        generated = model.generate(
            **inputs, do_sample=False, max_new_tokens=T, suppress_tokens=unused or None
        )
        length = int(ours.lengths[0, 0])
        response = generated[0, len(ids) :].tolist()
        assert response == np.asarray(ours.tokens[0, 0, :length]).tolist()


def test_a_policy_made_from_scratch_generates_as_it_did(exported, finished_run):
    assert_generates_as_the_run(exported, tiny.make_config(), finished_run, step=5)


def test_what_lies_beside_the_weights_is_the_runs(exported):
    assert contents(exported).keys() >= {
        'config.json',
        'generation_config.json',
        'model.safetensors',
        'tokenizer.json',
        'tokenizer_config.json',
        'chat_template.jinja',
    }
    run_config = tiny.make_config()
    config = json.loads((exported / 'config.json').read_text())
    longest = (
        run_config.data.max_prompt_tokens + run_config.sampling.max_response_tokens
    )
    assert config['max_position_embeddings'] == longest
    assert config['torch_dtype'] == run_config.model.compute_dtype
    generation = transformers.GenerationConfig.from_pretrained(exported)
    assert generation.do_sample
    assert generation.max_new_tokens == run_config.sampling.max_response_tokens
    assert (generation.temperature, generation.top_p, generation.top_k) == (1.0, 1.0, 0)
    assert (generation.eos_token_id, generation.pad_token_id) == ([1], 0)


def test_it_generates_as_the_stage_of_its_step(finished_run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    config = json.loads((workdir / 'config.json').read_text())
    cooler = {'start': 5, 'reset_optimizer': False, 'sampling': {'temperature': 0.5}}
    # As if it had gone on to step 8: step 5 is the first of the later stage.
    config['stages'], config['train']['steps'] = {'cooler': cooler}, 8
    (workdir / 'config.json').write_text(json.dumps(config))
    for step, temperature in ((4, 1.0), (5, 0.5)):
        out = tmp_path / str(step)
        run(workdir, out, step=step)
        fields = json.loads((out / 'generation_config.json').read_text())
        assert fields['temperature'] == temperature


def test_another_mesh_writes_the_same_bytes(exported, finished_run, tmp_path):
    run(finished_run, tmp_path / 'out', mesh='1,2,1,-1', num_devices=4)
    assert contents(tmp_path / 'out') == contents(exported)


def test_an_earlier_step_and_another_dtype_may_be_asked_for(
    exported, finished_run, tmp_path
):
    run(finished_run, tmp_path / 'out', step=4, dtype='bfloat16')
    config = json.loads((tmp_path / 'out' / 'config.json').read_text())
    assert config['torch_dtype'] == 'bfloat16'
    setup = tiny.make_setup(tiny.make_config())
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    want, _ = checkpoints.restore_params(finished_run, shapes, step=4)
    have = weights.load_params(setup.policy, str(tmp_path / 'out'), setup.mesh)
    for name, x in want.items():
        np.testing.assert_array_equal(have[name], x.astype('bfloat16').astype(x.dtype))


@pytest.mark.parametrize('family', slow_values(FAMILIES, quick=['llama']))
def test_from_hugging_face_to_a_trained_policy_and_back(family, tmp_path):
    """Warm start, training, export; then transformers goes on as the policy does."""
    source, workdir, out = (tmp_path / name for name in ('source', 'run', 'out'))
    before = make_source(source, family, max_position_embeddings=128)
    sizes = {f'model__arch__{name}': 0 for name in _SIZES} | {
        f'model__arch__{name}': 0.0 for name in ('rope_theta', 'norm_eps')
    }
    config = tiny.make_config(
        model__family='',
        model__source=str(source),
        model__tokenizer='source',
        model__arch__tie_embeddings=False,
        data__max_prompt_tokens=64,
        init__warm_start__steps=4,
        train__steps=1,
        eval__every=0,
        eval__final_split='',
        log__rollouts_every=0,
        **sizes,
    )
    assert tiny.run(config, workdir)
    run(workdir, out)
    assert_generates_as_the_run(out, config, workdir, step=1)
    # It was trained, and everything else is as it was.
    after, _ = load(out)
    assert not np.allclose(
        after.get_input_embeddings().weight.detach(),
        before.get_input_embeddings().weight.detach(),
        atol=1e-3,
    )
    for name in ('config.json', 'generation_config.json'):
        fields, original = (
            json.loads((directory / name).read_text()) for directory in (out, source)
        )
        assert fields.pop('dtype', None) == original.pop('dtype', None)
        assert fields == original


@pytest.mark.parametrize(
    ('stated', 'written'),
    [([256, 258], [256, 258]), (258, [256, 258]), (None, [256, 258])],
)
def test_generation_stops_where_the_run_did(stated, written, tmp_path):
    """The tokenizer's end token may be missing in the source's file."""
    fields = {'temperature': 0.6, 'eos_token_id': stated}
    (tmp_path / 'generation_config.json').write_text(json.dumps(fields))
    config = tiny.make_config()
    model = dataclasses.replace(config.model, source=str(tmp_path), tokenizer='source')
    setup = types.SimpleNamespace(
        config=dataclasses.replace(config, model=model),
        stop_tokens=(256, 258),
        tokenizer=types.SimpleNamespace(pad_token_id=0),
    )
    have = export._generation_config(setup)
    assert have == {'temperature': 0.6, 'eos_token_id': written}
    # Of a tokenizer from elsewhere, the model's file says nothing.
    model = dataclasses.replace(model, tokenizer='characters')
    setup.config = dataclasses.replace(config, model=model)
    have = export._generation_config(setup)
    assert (have['temperature'], have['eos_token_id']) == (1.0, [256, 258])


@pytest.mark.parametrize('stated', [{}, {'torch_dtype': 'a'}, {'dtype': 'a'}])
def test_the_sources_config_has_another_dtype_and_is_else_the_same(stated, tmp_path):
    (tmp_path / 'config.json').write_text(json.dumps({'vocab_size': 3, **stated}))
    config = tiny.make_config()
    model = dataclasses.replace(config.model, source=str(tmp_path))
    setup = types.SimpleNamespace(config=dataclasses.replace(config, model=model))
    name = 'dtype' if 'dtype' in stated else 'torch_dtype'
    have = export._config(setup, dtype='bfloat16')
    assert have == {'vocab_size': 3, name: 'bfloat16'}


def test_a_directory_with_content_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / 'file').write_text('mine')
    with pytest.raises(ValueError, match='exists and is not an empty directory'):
        run(tmp_path / 'absent', tmp_path)
    assert contents(tmp_path) == {'file': b'mine'}


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'step': 3}, r'no checkpoint of step=3 .* there is \(4, 5\)'),
        ({'mesh': '1,1'}, 'must be data,fsdp,rollout,tensor'),
        ({'mesh': '3,-1,1,1'}, 'does not fit 1 devices'),
        ({'hosts': 'many'}, r"hosts='many' must be 'auto'"),
    ],
)
def test_a_bad_flag_is_an_error_and_leaves_nothing(
    arguments, message, finished_run, tmp_path
):
    with pytest.raises(ValueError, match=message):
        run(finished_run, tmp_path / 'out', **arguments)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_no_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match='is not a run directory'):
        run(tmp_path, tmp_path / 'out')
