"""``experiments/smollm2.py``, and configs/smollm2.py with the model that it makes.

What needs the model runs if ``PASSK_SMOLLM2`` names its directory.
"""

import dataclasses
import functools
import os
import subprocess
import sys
import zipfile

import jax
import nbclient
import nbformat
import numpy as np
import pytest

from configs import smollm2 as config_file
from experiments import smollm2
from passk_jax import config as configs
from passk_jax.config import sampling_options
from passk_jax.errors import InputError
from passk_jax.models.hf import weights
from passk_jax.sampling import Purpose, step_key
from tests import tiny
from tests.multihost_test import finish, start_pair

MODEL = os.environ.get('PASSK_SMOLLM2', '')
needs_model = pytest.mark.skipif(
    not MODEL, reason='PASSK_SMOLLM2 does not name what experiments/smollm2.py makes'
)
NUM_PROMPTS = 20
LIMIT = 30


def write_wheel(path, *names):
    with zipfile.ZipFile(path, 'w') as wheel:
        for name in names:
            wheel.writestr(name, b'GGUF')


def test_the_file_is_found_in_a_wheel_and_nothing_else_is_unpacked(tmp_path):
    wheel, scratch = tmp_path / 'x.whl', tmp_path / 'scratch'
    write_wheel(wheel, 'x/__init__.py', 'x/model.gguf')
    path = smollm2.find_model(wheel, scratch)
    assert path.read_bytes() == b'GGUF'
    assert [p for p in scratch.rglob('*') if p.is_file()] == [path]
    assert smollm2.find_model(path, scratch) == path


@pytest.mark.parametrize(
    ('names', 'message'),
    [
        ((), r'must have one \.gguf file, and has \[\]'),
        (('a.gguf', 'b.gguf'), r"has \['a\.gguf', 'b\.gguf'\]"),
    ],
)
def test_a_wheel_with_another_number_of_models_is_refused(names, message, tmp_path):
    write_wheel(tmp_path / 'x.whl', 'x/__init__.py', *names)
    with pytest.raises(InputError, match=message):
        smollm2.find_model(tmp_path / 'x.whl', tmp_path / 'scratch')


def test_what_is_no_wheel_is_refused_before_any_work(tmp_path):
    text, out = tmp_path / 'x.txt', str(tmp_path / 'out')
    text.write_text('text')
    with pytest.raises(InputError, match=r'x\.txt must be a wheel or a \.gguf file'):
        smollm2.find_model(text, tmp_path)
    with pytest.raises(InputError, match='must be one wheel'):
        smollm2.main(['a', 'b'], out=out)
    with pytest.raises(InputError, match='is no file'):
        smollm2.main([str(tmp_path / 'absent.whl')], out=out)
    with pytest.raises(InputError, match='must be absent or an empty directory'):
        smollm2.main([str(text)], out=str(tmp_path))


@functools.cache
def problems():
    """As many test problems of each set, with their prompts for ``encode``."""
    pytest.importorskip('reasoning_gym')
    chosen = make_setup(MODEL).problems('test')
    return chosen[:: len(chosen) // NUM_PROMPTS][:NUM_PROMPTS]


def make_setup(source):
    config = config_file.get_config(f'source={source}')
    config.eval.batch_size = NUM_PROMPTS
    return tiny.make_setup(configs.from_config_dict(config))


def our_texts(source):
    setup = make_setup(source)
    params = weights.load_params(setup.policy, source, setup.mesh)
    greedy = sampling_options(temperature=0.0)
    sample = dataclasses.replace(setup.sample(), options=greedy, num_rollouts=1)
    ((batch, _),) = setup.evaluation_batches('test', problems())
    with jax.set_mesh(setup.mesh):
        key = step_key(seed=0, purpose=Purpose.EVALUATION, step=0)
        rollouts = sample(params, batch, key=key).rollouts
    return [
        setup.tokenizer.decode(tokens[0, :length], skip_special_tokens=True)
        for tokens, (length,) in zip(rollouts.tokens, rollouts.lengths, strict=True)
    ]


def their_texts(source):
    """Of transformers: its tokenizer, its chat template and its greedy generation."""
    transformers = pytest.importorskip('transformers')
    torch = pytest.importorskip('torch')
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32
    )
    texts = []
    for problem in problems():
        ids = tokenizer.apply_chat_template(
            [{'role': 'user', 'content': problem.prompt}],
            add_generation_prompt=True,
            return_tensors='pt',
            return_dict=True,
        )
        tokens = model.generate(**ids, do_sample=False, max_new_tokens=LIMIT)
        tokens = tokens[0, ids['input_ids'].shape[1] :]
        texts.append(tokenizer.decode(tokens, skip_special_tokens=True))
    return texts


@needs_model
@pytest.mark.slow
def test_greedy_texts_are_those_of_transformers_before_and_after_training(tmp_path):
    ours = our_texts(MODEL)
    assert ours == their_texts(MODEL)
    assert len(set(ours)) > NUM_PROMPTS // 2
    run, exported = str(tmp_path / 'run'), str(tmp_path / 'hf')
    settings = {
        'train.steps': 1,
        'train.num_prompts': 2,
        'train.mini_batch_prompts': 2,
        'init.warm_start.steps': 2,
        'init.warm_start.batch_size': 4,
        'eval.every': 0,
        'eval.final_split': '',
        # Far enough that greedy texts change.
        'optimizer.warmup_updates': 1,
        'init.warm_start.optimizer.warmup_updates': 1,
    }
    overrides = [f'--config.{key}={value}' for key, value in settings.items()]
    config = f'--config=configs/smollm2.py:source={MODEL}'
    command('train', config, *overrides, f'--workdir={run}')
    (row,) = tiny.read_lines(tmp_path / 'run' / 'metrics.jsonl')
    assert (row['step'], row['split']) == (0, 'train')
    command('export', f'--workdir={run}', f'--out={exported}', '--dtype=float32')
    other = '--task=configs/smollm2.py:sets=out_of_domain'
    few = ('--split=test', '--num_problems=7', '--num_responses=2')
    command('evaluate', f'--workdir={run}', other, *few)
    trained = our_texts(exported)
    assert trained == their_texts(exported)
    assert trained != ours


@needs_model
@pytest.mark.slow
def test_two_processes_train_it_as_one_does(tmp_path):
    settings = {
        'train.steps': 2,
        'train.num_prompts': 4,
        'train.mini_batch_prompts': 4,
        'init.warm_start.steps': 4,
        'init.warm_start.batch_size': 8,
        'eval.every': 0,
        'eval.final_split': '',
        'mesh.data': -1,
        'mesh.fsdp': 1,
    }
    options = [
        f'--config=configs/smollm2.py:source={MODEL}',
        *(f'--config.{key}={value}' for key, value in settings.items()),
    ]
    devices = {'JAX_NUM_CPU_DEVICES': '2', 'JAX_PLATFORMS': 'cpu'}
    command('train', *options, f'--workdir={tmp_path / "one"}', **devices)
    finish(*start_pair(tmp_path / 'two', 'train', *options))
    both = (tiny.read_lines(tmp_path / x / 'metrics.jsonl') for x in ('one', 'two'))
    for a, b in zip(*both, strict=True):
        # The same responses; sums in another order.
        for name in ('response_length', 'reward', 'pass_at_4'):
            assert a[name] == b[name], name
        assert a['loss'] == pytest.approx(b['loss'], abs=1e-5)
    arrays = (tiny.saved_arrays(tmp_path / x, 2) for x in ('one', 'two'))
    for (name, a), b in zip(next(arrays).items(), next(arrays).values(), strict=True):
        assert np.abs(a - b).max() <= 1e-5, name


@needs_model
@pytest.mark.slow
def test_the_cells_for_a_hosted_runtime_run_with_this_model(tmp_path, monkeypatch):
    """From the parameters to the report, on this machine's devices."""
    pytest.importorskip('reasoning_gym')
    settings = {
        'train.steps': 1,
        'train.num_prompts': 2,
        'train.mini_batch_prompts': 2,
        'train.micro_batch_prompts': 1,
        'init.warm_start.steps': 2,
        'init.warm_start.batch_size': 2,
        'task.params.test_count': 2,
        'eval.every': 0,
        'eval.num_responses': 4,
    }
    overrides = ' '.join(f'--config.{key}={x}' for key, x in settings.items())
    monkeypatch.setenv('PASSK_MODEL', MODEL)
    monkeypatch.setenv('PASSK_CONFIG', f'configs/smollm2.py:source={MODEL}')
    monkeypatch.setenv('PASSK_FLAGS', overrides)
    monkeypatch.setenv('PASSK_WORKDIR', str(tmp_path / 'run'))
    monkeypatch.setenv('PYTHONPATH', str(tiny.ROOT))
    notebook = nbformat.read(tiny.ROOT / 'examples' / 'hosted.ipynb', as_version=4)
    where = {'metadata': {'path': str(tiny.ROOT)}}
    nbclient.NotebookClient(notebook, resources=where).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == 'code']
    outputs = [output for cell in code for output in cell.outputs]
    assert not [x for x in outputs if x.get('name') == 'stderr']
    texts = ['\n'.join(map(str, x.get('data', {}).values())) for x in outputs]
    assert any('| Pass@4 | ' in text for text in texts)
    assert any('<h2>Responses</h2>' in text for text in texts)
    assert any('image/png' in x.get('data', {}) for x in outputs)
    (row,) = [
        x
        for x in tiny.read_lines(tmp_path / 'run' / 'metrics.jsonl')
        if x['split'] == 'train'
    ]
    assert row['step'] == 0


def command(name, *arguments, **environment):
    program = [sys.executable, '-m', f'passk_jax.{name}', *arguments]
    subprocess.run(program, cwd=tiny.ROOT, env=os.environ | environment, check=True)
