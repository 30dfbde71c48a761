"""A run of a policy with a tower from scratch, on pictures that the task draws."""

import jax
import numpy as np
import pytest
import transformers

from passk_jax import export
from passk_jax.initial.params import random_params
from passk_jax.models import policy as policies
from passk_jax.models.arch import Vision
from passk_jax.models.hf.processor import read_processor
from passk_jax.report.run_log import RunLog
from passk_jax.report.write import write_report
from passk_jax.runs import checkpoints
from tests import tiny
from tests.models.hf import oracle as hf_oracle
from tests.train_pictures_test import their_inputs
from tests.train_resume_test import Killed, kill_at

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
    # What follows the last layer reaches no response.
    'model__arch__num_layers': 2,
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


@pytest.mark.slow
def test_interrupted_a_run_on_pictures_ends_the_same(counted, tmp_path):
    workdir = tiny.warm_copy(counted, tmp_path)
    for call in (2, 1):
        with pytest.raises(Killed), kill_at(RunLog, 'step', call):
            tiny.run(tiny.make_config(**COUNTING), workdir)
    assert tiny.run(tiny.make_config(**COUNTING), workdir)
    tiny.assert_same_run(workdir, counted, last=3)


@pytest.mark.slow
def test_the_warm_start_trains_the_tower(counted):
    setup = tiny.make_setup(tiny.make_config(**COUNTING))
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    trained, _ = checkpoints.restore_params(counted, shapes)
    first = random_params(setup.policy, setup.mesh, seed=0)
    tower = [name for name in first if name.startswith('vision.')]
    assert not [x for x in tower if np.array_equal(first[x], trained[x])]


@pytest.mark.slow
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


@pytest.mark.slow
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
        expected = model(**inputs).logits[0, -1].detach()
        np.testing.assert_allclose(ours[p], expected, atol=2e-5)


def test_a_tower_has_the_sizes_of_the_config():
    setup = tiny.make_setup(tiny.make_config(**COUNTING))
    prefix = 'model__arch__vision__'
    sizes = {k.removeprefix(prefix): COUNTING[k] for k in COUNTING if prefix in k}
    token = setup.tokenizer.get_vocab()['<|image_pad|>']
    assert setup.policy.arch.vision == Vision(**sizes, frames=2, image_token=token)
    # Of 4 pairs of a head; Qwen3-VL has 24, 20 and 20 of 64.
    assert setup.policy.arch.layers[0].rope.sections == (2, 1, 1)


@pytest.mark.slow
def test_a_blind_run_has_a_warm_start_of_its_own(counted, tmp_path):
    workdir = tiny.warm_copy(counted, tmp_path)
    config = tiny.make_config(**COUNTING, data__blank_pictures=True)
    setup = tiny.make_setup(config)
    with (
        jax.set_mesh(setup.mesh),
        pytest.raises(ValueError, match='were made with another blank_pictures'),
    ):
        setup.initial_params(workdir)


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
        ({'model__arch__num_layers': 1}, r'taps=\(0,\) of vision: .* num_layers=1'),
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
