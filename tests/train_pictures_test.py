"""A run on problems with pictures, from published weights to an export."""

import dataclasses
import json

import jax
import numpy as np
import PIL.Image
import pytest
import torch
import transformers

from passk_jax import export, sampling
from passk_jax.config import sampling_options
from passk_jax.data.batches import evaluation_batches
from passk_jax.models import policy as policies
from passk_jax.models.frozen import read_pictures
from passk_jax.models.hf import weights
from passk_jax.models.hf.config import arch_from_hf
from passk_jax.models.hf.processor import stored_fields
from passk_jax.runs import checkpoints
from tests import tiny
from tests.models.hf import oracle as hf_oracle
from tests.models.hf.source import make_source
from tests.slow import slow_values

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
    return write_source(tmp_path_factory, 'qwen3_vl')


def write_source(tmp_path_factory, family):
    directory = tmp_path_factory.mktemp('source')
    # After the last layer, a feature would reach no response.
    sizes = {'max_position_embeddings': 512, 'num_hidden_layers': 3}
    make_source(directory, family, **sizes)
    (directory / 'task.py').write_text(TASK)
    return directory


def make_config(source, **changes):
    settings = {
        'task__name': f'{source}/task.py:Pictures',
        'task__params': {},
        # That of the source.
        'model__family': '',
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


@pytest.fixture(
    scope='module',
    params=[
        ('qwen3_vl', True),
        *slow_values(
            [('qwen3_vl', False), ('qwen3_vl_moe', False), ('qwen2_5_vl', True)]
        ),
    ],
    ids=str,
)
def finished(request, source, tmp_path_factory):
    family, trained = request.param
    if family != 'qwen3_vl':
        source = write_source(tmp_path_factory, family)
    workdir = tmp_path_factory.mktemp('run')
    settings = {'model__family': family, 'model__train_vision': trained}
    config = make_config(source, **settings)
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
    fields = json.loads((out / 'preprocessor_config.json').read_text())
    assert fields == stored_fields(config.model.source)
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
        # Ours never takes one of the last rows, which have no token.
        generated = model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=T,
            suppress_tokens=[*range(len(tokenizer), setup.policy.arch.vocab_size)],
        )
        length = int(rollouts.lengths[p, 0])
        ours = np.asarray(rollouts.tokens[p, 0, :length]).tolist()
        assert generated[0, len(ids) :].tolist() == ours
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
