"""A run on problems with pictures, from published weights to an export."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import PIL.Image
import pytest
import torch
import transformers

from passk_jax import export, sampling
from passk_jax.config import sampling_options
from passk_jax.data.batches import evaluation_batches
from passk_jax.initial.params import random_params
from passk_jax.models import policy as policies
from passk_jax.models.frozen import read_pictures
from passk_jax.models.hf import weights
from passk_jax.models.hf.config import arch_from_hf
from passk_jax.models.hf.processor import read_processor
from passk_jax.report.run_log import RunLog
from passk_jax.report.write import write_report
from passk_jax.runs import checkpoints
from tests import tiny
from tests.models.hf import oracle as hf_oracle
from tests.models.hf.source import make_source
from tests.train_resume_test import Killed, kill_at

TASK = '''
import numpy as np
from passk_jax.tasks import Problem, Task, Verdict

def problem(number):
    """Up to two pictures of unequal sizes, the first in the text's middle."""
    rng = np.random.default_rng(number)
    sizes = rng.integers(8, 25, (number % 3, 2))
    images = tuple(rng.integers(0, 256, (*s, 3)).astype(np.uint8) for s in sizes)
    text = 'a<image>b' + '<image>' if len(images) == 2 else 'c<image>' * len(images)
    return Problem(number, text + '?', {}, 'any', images=images)

class Pictures(Task):
    splits = ('train', 'test')

    def source(self, split, *, data_dir):
        return [problem(n) for n in range(24) if (n % 4 == 0) == (split == 'test')]

    @staticmethod
    def verdict(problem, response):
        return Verdict(len(response) % 2 == 0, response, None)
'''
SIZES = ('num_layers', 'embed_dim', 'num_heads', 'num_kv_heads', 'head_dim', 'mlp_dim')


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    directory = tmp_path_factory.mktemp('source')
    # After the last layer, a feature would reach no response.
    sizes = {'max_position_embeddings': 512, 'num_hidden_layers': 3}
    make_source(directory, 'qwen3_vl', **sizes)
    (directory / 'task.py').write_text(TASK)
    return directory


def make_config(source, **changes):
    settings = {
        'task__name': f'{source}/task.py:Pictures',
        'task__params': {},
        'model__family': 'qwen3_vl',
        'model__source': str(source),
        'model__tokenizer': 'source',
        'model__arch__tie_embeddings': False,
        'data__max_prompt_tokens': 256,
        'init__kind': 'hf',
        'train__steps': 2,
        'eval__every': 0,
        'eval__final_split': 'test',
        'log__rollouts_every': 1,
        **{f'model__arch__{name}': 0 for name in SIZES},
        **{f'model__arch__{name}': 0.0 for name in ('rope_theta', 'norm_eps')},
    }
    return tiny.make_config(**settings | changes)


@pytest.fixture(scope='module', params=[False, True], ids=['frozen', 'trained'])
def finished(request, source, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('run')
    config = make_config(source, model__train_vision=request.param)
    assert tiny.run(config, workdir)
    return config, workdir


def both_params(config, workdir):
    """Parameters before the run and after it."""
    setup = tiny.make_setup(config)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    before = weights.load_params(setup.policy, config.model.source, setup.mesh)
    after, _ = checkpoints.restore_params(workdir, shapes, step=2)
    return setup, before, after


def test_the_tower_is_trained_if_the_config_says_so(finished):
    config, workdir = finished
    _, before, after = both_params(config, workdir)
    same = {name for name in before if np.array_equal(before[name], after[name])}
    tower = {name for name in before if name.startswith('vision.')}
    if config.model.train_vision:
        assert not same & tower
    else:
        assert same == tower
    arrays = tiny.saved_arrays(workdir, 2)
    assert any('vision.' in name for name in arrays) == config.model.train_vision


def test_sampler_and_learner_are_one_policy(finished):
    _, workdir = finished
    lines = tiny.metrics(workdir, 'train')
    assert len(lines) == 2
    for line in lines:
        assert line['sampler_gap_max'] < 1e-4
        assert line['grad_norm'] > 0


def test_an_export_generates_as_the_run(finished, tmp_path):
    config, workdir = finished
    out = tmp_path / 'out'
    with tiny.devices(1):
        export.main(workdir=str(workdir), out=str(out))
    model, notes = hf_oracle.load(out, output_loading_info=True)
    assert not any(notes[kind] for kind in notes), notes
    model.eval()
    setup, _, params = both_params(config, workdir)
    assert arch_from_hf(
        str(out),
        param_dtype=config.model.param_dtype,
        compute_dtype=config.model.compute_dtype,
        remat=config.model.remat,
        attention='plain',
    ) == dataclasses.replace(setup.policy.arch, attention='plain')
    name = 'preprocessor_config.json'
    fields, want = (
        json.loads((x / name).read_text())
        for x in (out, pathlib.Path(config.model.source))
    )
    assert fields == want
    batches = setup.evaluation_batches('test')
    (problems, prompts), valid = next(iter(batches))
    T = config.sampling.max_response_tokens
    rollouts = sampling.sample(
        setup.policy,
        params,
        read_pictures(setup.policy, params, jax.tree.map(jax.numpy.asarray, prompts)),
        key=jax.random.key(0),
        num_rollouts=1,
        max_response_tokens=T,
        options=sampling_options(temperature=0.0),
        stop_tokens=setup.stop_tokens,
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    processor = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl
    processor = processor.Qwen2VLImageProcessorPil.from_pretrained(out)
    with_pictures = 0
    for p, problem in enumerate(problems[:valid]):
        inputs = their_inputs(problem, tokenizer, processor)
        ids = inputs['input_ids'][0].tolist()
        assert ids == prompts.tokens[p, : prompts.lengths[p]].tolist()
        theirs = model.generate(**inputs, do_sample=False, max_new_tokens=T)
        length = int(rollouts.lengths[p, 0])
        ours = np.asarray(rollouts.tokens[p, 0, :length]).tolist()
        assert theirs[0, len(ids) :].tolist() == ours
        with_pictures += 'pixel_values' in inputs
    assert with_pictures >= 2


def their_inputs(problem, tokenizer, processor, merge=2):
    """The inputs of transformers, as Qwen3VLProcessor makes them."""
    texts = problem.prompt.split('<image>') if problem.images else [problem.prompt]
    content = [{'type': 'text', 'text': texts[0]}]
    for text in texts[1:]:
        content += [{'type': 'image'}, {'type': 'text', 'text': text}]
    turns = [{'role': 'user', 'content': content}]
    text = tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=False
    )
    inputs = {}
    if problem.images:
        images = [PIL.Image.fromarray(x) for x in problem.images]
        inputs = dict(processor(images=images, return_tensors='pt'))
        pad, marked = '<|image_pad|>', '<|marked|>'
        for grid in inputs['image_grid_thw']:
            text = text.replace(pad, marked * (int(grid.prod()) // merge**2), 1)
        text = text.replace(marked, pad)
    inputs |= tokenizer(text, return_tensors='pt', add_special_tokens=False)
    inputs.pop('token_type_ids', None)
    if problem.images:
        pad = tokenizer.convert_tokens_to_ids('<|image_pad|>')
        inputs['mm_token_type_ids'] = (inputs['input_ids'] == pad).to(torch.int32)
    return inputs


@pytest.mark.parametrize(
    ('changed', 'words'),
    [
        ("text + '?'", "has 1 pictures, and its prompt 0 places .* '<image>'"),
        ('rng.integers(0, 256, (*s, 3))', 'picture 1 of problem 1: an array'),
    ],
)
def test_a_bad_picture_ends_a_run_before_it_begins(changed, words, source, tmp_path):
    other = {"text + '?'": "'?'"}.get(changed, 'rng.integers(0, 256, (*s, 4))')
    (tmp_path / 'task.py').write_text(TASK.replace(changed, other))
    config = make_config(source, task__name=f'{tmp_path}/task.py:Pictures')
    with pytest.raises(ValueError, match=words):
        tiny.run(config, tmp_path / 'run')
    assert not [*(tmp_path / 'run' / 'checkpoints').iterdir()]


def test_a_model_of_text_refuses_problems_with_pictures(source, tmp_path):
    config = tiny.make_config(
        task__name=f'{source}/task.py:Pictures', task__params={}, init__kind='scratch'
    )
    config = dataclasses.replace(
        config, model=dataclasses.replace(config.model, tokenizer=str(source))
    )
    with pytest.raises(ValueError, match='problem 1 has a picture, and the model'):
        tiny.run(config, tmp_path / 'run')


def test_a_lower_limit_makes_pictures_smaller(source):
    lengths = []
    for limit in (0, 64):
        setup = tiny.make_setup(make_config(source, data__max_picture_pixels=limit))
        batches = evaluation_batches(
            setup.problems('test'),
            setup.encode,
            batch_size=6,
            num_problems=0,
            max_prompt_tokens=256,
            overlong='error',
            reader=setup.reader,
        )
        (_, prompts), _ = next(iter(batches))
        lengths.append(prompts.lengths)

    assert (lengths[1] <= lengths[0]).all()
    assert (lengths[1] < lengths[0]).any()


COUNTING = {
    'task__name': 'visual_counting',
    'task__params': {
        'grid_size': 2,
        'cell_pixels': 4,
        'num_colors': 2,
        'max_count': 2,
        'train_count': 24,
        'validation_count': 4,
        'test_count': 4,
        'seed': 0,
        'prompt': 'bare',
    },
    'data__max_prompt_tokens': 16,
    'sampling__max_response_tokens': 2,
    'init__warm_start__demonstrations': 'count',
    'init__warm_start__steps': 3,
    'train__steps': 3,
    'model__family': 'qwen3_vl',
    'model__train_vision': True,
    **{
        f'model__arch__vision__{name}': size
        for name, size in {
            'depth': 2,
            'embed_dim': 16,
            'num_heads': 2,
            'mlp_dim': 16,
            'patch_size': 4,
            'merge_size': 1,
            'table_size': 2,
            'taps': (0,),
        }.items()
    },
}


@pytest.fixture(scope='module')
def counted(tmp_path_factory):
    """A run from scratch, with a warm start, on pictures that it draws."""
    workdir = tmp_path_factory.mktemp('counting')
    assert tiny.run(tiny.make_config(**COUNTING), workdir)
    return workdir


def test_interrupted_a_run_on_pictures_ends_the_same(counted, tmp_path):
    workdir = tiny.warm_copy(counted, tmp_path)
    for call in (2, 1):
        with pytest.raises(Killed), kill_at(RunLog, 'step', call):
            tiny.run(tiny.make_config(**COUNTING), workdir)
    assert tiny.run(tiny.make_config(**COUNTING), workdir)
    tiny.assert_same_run(workdir, counted, last=3)


def test_the_warm_start_trains_the_tower(counted):
    setup = tiny.make_setup(tiny.make_config(**COUNTING))
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    trained, _ = checkpoints.restore_params(counted, shapes)
    first = random_params(setup.policy, setup.mesh, seed=0)
    tower = [name for name in first if name.startswith('vision.')]
    assert not [x for x in tower if np.array_equal(first[x], trained[x])]


def test_the_report_has_the_pictures(counted):
    page = write_report(counted).read_text()
    rows = tiny.read_lines(counted / 'rollouts' / 'step_00000000.jsonl')
    first = [row for row in rows if 'pictures' in row]
    assert {row['rollout'] for row in first} == {0}
    assert len(first) == 8
    (address,) = first[0]['pictures']
    assert address.startswith('data:image/png;base64,')
    addresses = [x for row in first for x in row['pictures']]
    assert sum(f'<img src="{x}"' in page for x in addresses) >= 3


def test_an_export_of_a_tower_from_scratch_is_read_by_transformers(counted, tmp_path):
    config = tiny.make_config(**COUNTING)
    out = tmp_path / 'out'
    with tiny.devices(1):
        export.main(workdir=str(counted), out=str(out))
    model, notes = hf_oracle.load(out, output_loading_info=True)
    assert not any(notes[kind] for kind in notes), notes
    setup = tiny.make_setup(config)
    vision = setup.policy.arch.vision
    assert read_processor(str(out), vision) == setup.reader.processor
    (problems, prompts), _ = next(iter(setup.evaluation_batches('test')))
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    processor = transformers.models.qwen2_vl.image_processing_pil_qwen2_vl
    processor = processor.Qwen2VLImageProcessorPil.from_pretrained(out)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    params, _ = checkpoints.restore_params(counted, shapes)
    weights_read = policies.decoding_weights(setup.policy, params)
    prompts_read = jax.tree.map(jax.numpy.asarray, prompts)
    last, _ = policies.prefill(setup.policy, weights_read, prompts_read)
    ours = policies.logits(setup.policy, weights_read, last)
    for p, problem in enumerate(problems):
        inputs = their_inputs(problem, tokenizer, processor, merge=1)
        ids = inputs['input_ids'][0].tolist()
        assert ids == prompts.tokens[p, : prompts.lengths[p]].tolist()
        theirs = model(**inputs).logits[0, -1].detach()
        np.testing.assert_allclose(ours[p], theirs, atol=2e-5)


def test_a_blind_policy_gets_black_pictures_of_the_same_size():
    batches = []
    for blank in (False, True):
        config = tiny.make_config(**COUNTING, data__blank_pictures=blank)
        batch, _ = next(iter(tiny.make_setup(config).evaluation_batches('test')))
        batches.append(batch.prompts)
    seen, blind = batches
    np.testing.assert_array_equal(seen.tokens, blind.tokens)
    np.testing.assert_array_equal(seen.images.grids, blind.images.grids)
    assert (blind.images.patches[:, :4] == -1).all()
    assert (seen.images.patches[:, :4] > -1).any()


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        (
            {'model__train_vision': False},
            'leaves the tower of model.arch.vision',
        ),
        (
            {'model__family': 'qwen3'},
            "families .*'qwen3_vl'.* is 'qwen3'",
        ),
        ({'model__arch__vision__depth': 0}, 'model.arch: depth=0 of vision'),
        ({'model__arch__vision__taps': (5,)}, r'taps=\(5,\) of vision must ascend'),
        ({'model__arch__vision__embed_dim': 6}, 'embed_dim=6 of vision must be a'),
        ({'data__max_picture_pixels': 5}, 'min_pixels=16 and max_pixels=5 of pictures'),
    ],
)
def test_a_tower_that_cannot_be_is_refused(changes, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        tiny.run(tiny.make_config(**COUNTING | changes), tmp_path)


@pytest.mark.parametrize(
    ('name', 'value'), [('max_picture_pixels', 10**6), ('blank_pictures', True)]
)
def test_settings_of_pictures_are_refused_to_a_policy_of_text(name, value, tmp_path):
    with pytest.raises(ValueError, match=f'data.{name}=.* has no effect'):
        tiny.run(tiny.make_config(**{f'data__{name}': value}), tmp_path)
