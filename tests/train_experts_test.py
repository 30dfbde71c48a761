"""A run of a policy with experts, whose router may be frozen, through every command."""

import json
import shutil

import jax
import numpy as np
import pytest
import transformers

from passk_jax import evaluate, export
from passk_jax.initial import params as initial
from passk_jax.report.panels import metric_panels
from passk_jax.report.run_data import read_run
from passk_jax.report.run_log import RunLog
from passk_jax.report.write import write_curves
from passk_jax.runs import checkpoints
from passk_jax.setup import model
from tests import legible, tiny
from tests.train_resume_test import Killed, kill_at

LAST = 3
MOE = {
    'model__family': 'qwen3_moe',
    'model__arch__num_experts': 4,
    'model__arch__experts_per_token': 2,
    'model__arch__norm_topk_prob': True,
    'train__steps': LAST,
}
ROUTER = 'layers.mlp.router.kernel'
FROZEN = MOE | {'model__frozen': ('layers.mlp.router', 'embed.embedding')}


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    workdir = tmp_path_factory.mktemp('experts')
    assert tiny.run(tiny.make_config(**MOE), workdir)
    return workdir


@pytest.fixture(scope='module')
def frozen(tmp_path_factory):
    workdir = tmp_path_factory.mktemp('frozen')
    assert tiny.run(tiny.make_config(**FROZEN), workdir)
    return workdir


def warm_started(workdir, setup):
    """The parameters before step 0."""
    shapes = initial.policies.param_shapes(setup.policy, setup.mesh)
    path = workdir / 'warm_start' / '0'
    return checkpoints.restoring.restore(path, {'params': shapes})[1]['params']


def restored(workdir, setup):
    shapes = initial.policies.param_shapes(setup.policy, setup.mesh)
    return checkpoints.restore_params(workdir, shapes)[0]


def test_a_step_measures_the_load_the_router_and_the_gap(trained):
    for line in tiny.metrics(trained, 'train'):
        assert 1 <= line['expert_load_max'] <= 2
        assert 0 <= line['experts_idle'] <= 0.5
        assert 0 < line['layers_router_entropy'] <= np.log(4)
        assert 0 < line['sampler_gap_max'] < 1e-4


def test_the_report_shows_them(trained):
    titles = [panel.title for panel in metric_panels(read_run(trained))]
    assert titles[-3:] == [
        'Load of the busiest expert',
        'Entropy of the router (nats)',
        'Sampler-learner gap (nats)',
    ]
    # Any of them may stand at the right edge of the figure.
    with legible.texts() as written:
        write_curves(read_run(trained))
    of_axes = [x for x in written if x.text in titles]
    assert {x.text for x in of_axes} == {*titles}
    assert max(x.right - x.left for x in of_axes) < 0.31


def test_every_parameter_of_an_expert_is_trained(trained):
    setup = tiny.make_setup(tiny.make_config(**MOE))
    first, last = warm_started(trained, setup), restored(trained, setup)
    for name, x in last.items():
        assert (np.asarray(x) != np.asarray(first[name])).any(), name


def test_interrupted_it_ends_the_same(trained, tmp_path):
    tiny.warm_copy(trained, tmp_path)
    config = tiny.make_config(**MOE)
    with pytest.raises(Killed), kill_at(RunLog, 'step', 3):
        tiny.run(config, tmp_path)
    assert tiny.run(config, tmp_path)
    tiny.assert_same_run(tmp_path, trained, last=LAST)


@pytest.mark.slow
@pytest.mark.parametrize('sizes', ['1,1,1,2', '1,2,1,2'])
def test_devices_that_share_experts_train_the_same(sizes, trained, tmp_path):
    tiny.warm_copy(trained, tmp_path)
    axes = ('data', 'fsdp', 'rollout', 'tensor')
    mesh = dict(zip(axes, map(int, sizes.split(',')), strict=True))
    overrides = {f'mesh__{axis}': size for axis, size in mesh.items()}
    count = int(np.prod(list(mesh.values())))
    assert tiny.run(tiny.make_config(**MOE, **overrides), tmp_path, num_devices=count)
    pairs = zip(
        tiny.metrics(trained, 'train'), tiny.metrics(tmp_path, 'train'), strict=True
    )
    for have, want in pairs:
        for name in ('loss', 'reward', 'expert_load_max', 'layers_router_entropy'):
            assert have[name] == pytest.approx(want[name], abs=1e-4), name


@pytest.mark.slow
def test_packed_responses_have_the_same_figures(trained, tmp_path):
    tiny.warm_copy(trained, tmp_path)
    assert tiny.run(tiny.make_config(**MOE, train__pack_sizes=4), tmp_path)
    have, want = (tiny.metrics(x, 'train')[0] for x in (tmp_path, trained))
    assert have['padding'] != want['padding']
    for name in ('loss', 'expert_load_max', 'experts_idle', 'layers_router_entropy'):
        assert have[name] == pytest.approx(want[name], abs=1e-5), name


@pytest.mark.slow
def test_what_is_frozen_stays_and_is_in_no_checkpoint(frozen):
    setup = tiny.make_setup(tiny.make_config(**FROZEN))
    assert setup.policy.frozen == {ROUTER, 'embed.embedding'}
    first, last = warm_started(frozen, setup), restored(frozen, setup)
    assert first.keys() == last.keys()
    for name, x in last.items():
        same = (np.asarray(x) == np.asarray(first[name])).all()
        assert same == (name in setup.policy.frozen), name
    arrays = tiny.saved_arrays(frozen, LAST)
    assert not any(name.endswith(tuple(setup.policy.frozen)) for name in arrays)


@pytest.mark.slow
def test_a_frozen_run_goes_on_without_its_warm_start(frozen, tmp_path):
    tiny.warm_copy(frozen, tmp_path)
    config = tiny.make_config(**FROZEN)
    with pytest.raises(Killed), kill_at(RunLog, 'step', 3):
        tiny.run(config, tmp_path)
    (tmp_path / 'warm_start').rename(tmp_path / 'elsewhere')
    assert tiny.run(config, tmp_path)
    tiny.assert_same_run(tmp_path, frozen, last=LAST)


@pytest.mark.slow
def test_a_frozen_run_is_evaluated_and_exported(frozen, tmp_path):
    with tiny.devices(1):
        evaluate.main(workdir=str(frozen), split='validation')
        export.main(workdir=str(frozen), out=str(tmp_path / 'out'))
    (path,) = (frozen / 'evaluation' / 'by_command').glob('*.json')
    metrics = json.loads(path.read_text())['metrics']
    last = tiny.measured(tiny.metrics(frozen, 'validation')[-1])
    for name, value in metrics.items():
        assert value == pytest.approx(last[name], abs=1e-6), name
    exported, notes = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / 'out', output_loading_info=True
    )
    assert not any(notes[kind] for kind in notes), notes
    setup = tiny.make_setup(tiny.make_config(**FROZEN))
    router = restored(frozen, setup)[ROUTER][0]
    gate = exported.model.layers[0].mlp.gate.weight.detach()
    np.testing.assert_array_equal(gate.numpy(), np.asarray(router).T)


@pytest.mark.slow
def test_another_run_begins_with_all_of_it(frozen, tmp_path):
    """Whether it trains what the first left alone, or leaves it alone too."""
    setup = tiny.make_setup(tiny.make_config(**FROZEN))
    last = restored(frozen, setup)
    start = {'init__kind': 'checkpoint', 'init__checkpoint': str(frozen)}
    for name, options in {'all': MOE, 'part': FROZEN}.items():
        config = tiny.make_config(**options, **tiny.ONLY_STEPS | start)
        assert tiny.run(config, tmp_path / name)
        goes_on = tiny.make_setup(config)
        after = restored(tmp_path / name, goes_on)
        same = (np.asarray(after[ROUTER]) == np.asarray(last[ROUTER])).all()
        assert same == (name == 'part')
        params = checkpoints.restore_frozen(tmp_path / name, last)
        assert params.keys() == goes_on.policy.frozen


REPLAY = MOE | {'model__replay_routing': True}


@pytest.mark.slow
@pytest.mark.parametrize(
    'overrides',
    [
        {},
        {'train__pack_sizes': 4},
        {'train__micro_batch_rollouts': 2},
        {'loss__kl_coef': 0.01},
        {'train__dynamic_sampling_rounds': 2},
        {'log__diagnostics_every': 1},
    ],
    ids=str,
)
def test_in_float32_a_replayed_run_is_the_same_run(overrides, trained, tmp_path):
    runs = []
    for name, options in {'plain': MOE, 'replay': REPLAY}.items():
        tiny.warm_copy(trained, tmp_path / name)
        config = tiny.make_config(**options, **overrides)
        assert tiny.run(config, tmp_path / name)
        runs.append(tiny.metrics(tmp_path / name, 'train'))
    for plain, replayed in zip(*runs, strict=True):
        assert replayed.pop('layers_rerouted') == 0
        assert replayed.keys() == plain.keys()
        for name, value in plain.items():
            assert replayed[name] == pytest.approx(value, abs=1e-5), name


@pytest.mark.slow
def test_later_updates_of_a_step_run_the_experts_of_its_sampling(trained, tmp_path):
    """Though the router has moved since."""
    tiny.warm_copy(trained, tmp_path)
    updates = {'train__mini_batch_prompts': 4, 'train__epochs': 3}
    config = tiny.make_config(**REPLAY, **updates, optimizer__learning_rate=0.1)
    assert tiny.run(config, tmp_path)
    lines = tiny.metrics(tmp_path, 'train')
    assert max(line['layers_rerouted'] for line in lines) > 0
    assert all(line['sampler_gap_max'] < 1e-4 for line in lines)


@pytest.mark.slow
def test_in_bfloat16_a_replay_brings_the_learner_nearer_to_the_sampler(tmp_path):
    gaps = {}
    for replay in (True, False):
        config = tiny.make_config(
            **MOE | {'train__steps': 6},
            **tiny.ONLY_STEPS | {'model__arch__num_layers': 4},
            model__arch__embed_dim=32,
            model__compute_dtype='bfloat16',
            model__replay_routing=replay,
        )
        assert tiny.run(config, tmp_path / str(replay))
        lines = tiny.metrics(tmp_path / str(replay), 'train')
        gaps[replay] = np.mean([line['sampler_k3'] for line in lines])
        if replay:
            assert max(line['layers_rerouted'] for line in lines) > 0
    assert gaps[True] < gaps[False] / 3


@pytest.mark.slow
def test_a_replayed_run_interrupted_ends_the_same(trained, tmp_path):
    config = tiny.make_config(**REPLAY)
    for name in ('whole', 'parts'):
        tiny.warm_copy(trained, tmp_path / name)
    assert tiny.run(config, tmp_path / 'whole')
    with pytest.raises(Killed), kill_at(RunLog, 'step', 3):
        tiny.run(config, tmp_path / 'parts')
    assert tiny.run(config, tmp_path / 'parts')
    tiny.assert_same_run(tmp_path / 'parts', tmp_path / 'whole', last=LAST)


@pytest.mark.parametrize(
    ('overrides', 'words'),
    [
        ({'model__frozen': ('layers.mlp.route',)}, "names 'layers.mlp.route', which"),
        ({'model__frozen': ('head',)}, "names 'head', which is neither .*'embed.emb"),
        ({'model__frozen': ('embed', 'layers', 'final_norm')}, 'nothing to train'),
        ({'model__arch__num_experts': 0}, 'num_experts=0, experts_per_token=2'),
        ({'model__arch__experts_per_token': 5}, 'runs 1 to num_experts experts'),
        ({'model__family': 'qwen3'}, 'must be 0: this family has no experts'),
        (
            {
                'model__family': 'qwen2',
                'model__arch__num_experts': 0,
                'model__arch__experts_per_token': 0,
                'model__replay_routing': True,
            },
            'replay_routing=True needs a family with experts',
        ),
        ({'model__experts': 'ragged'}, "experts 'ragged' cannot run on platform='cpu'"),
    ],
)
def test_what_cannot_be_is_refused_before_a_device_works(overrides, words):
    with pytest.raises(ValueError, match=words):
        tiny.make_setup(tiny.make_config(**MOE | overrides))


@pytest.mark.slow
def test_a_kept_part_that_is_another_is_refused(frozen):
    setup = tiny.make_setup(tiny.make_config(**FROZEN))
    shapes = initial.policies.param_shapes(setup.policy, setup.mesh)
    other = {
        'layers.mlp.up.kernel': jax.numpy.zeros(shapes['layers.mlp.up.kernel'].shape)
    }
    with pytest.raises(ValueError, match='made with another frozen'):
        checkpoints.keep_frozen(frozen, {}, other)


@pytest.mark.slow
def test_a_run_that_lost_what_it_leaves_alone_says_so(frozen, tmp_path):
    ignore = shutil.ignore_patterns('frozen')
    shutil.copytree(frozen, tmp_path / 'run', ignore=ignore)
    with pytest.raises(ValueError, match='frozen is gone, which has what the run'):
        tiny.run(tiny.make_config(**FROZEN), tmp_path / 'run')


def test_a_prefix_is_one_of_whole_names():
    setup = tiny.make_setup(tiny.make_config(**MOE))
    config = tiny.make_config(**MOE, model__frozen=('layers.mlp',)).model
    frozen = model.frozen_names(config, setup.policy.arch)
    # Not layers.mlp_norm.scale.
    assert frozen == {
        f'layers.mlp.{name}.kernel' for name in ('router', 'gate', 'up', 'down')
    }
