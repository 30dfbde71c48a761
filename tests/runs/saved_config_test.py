import json

import pytest

from passk_jax import config as configs
from passk_jax.runs.directory import prepare_workdir
from passk_jax.runs.saved_config import run_config as read
from passk_jax.runs.saved_config import stage_of
from passk_jax.setup.setup import make_setup
from tests import tiny


@pytest.fixture
def workdir(tmp_path):
    (tmp_path / 'config.json').write_text(configs.to_json(tiny.make_config()))
    return tmp_path


def test_a_run_has_the_configuration_it_began_with(workdir):
    assert read(workdir) == tiny.make_config()


def test_the_mesh_is_this_processs(workdir):
    mesh = {'mesh__data': 2, 'mesh__fsdp': -1, 'mesh__rollout': 1, 'mesh__tensor': 4}
    assert read(workdir, '2,-1,1,4') == tiny.make_config(**mesh)
    mesh['mesh__decode_tensor'] = 2
    assert read(workdir, '2,-1,1,4,2') == tiny.make_config(**mesh)


@pytest.mark.parametrize(
    'mesh', ['', '1', '1,1,1', '1,1,1,1,1,1', '1,1,1,x', '1,1,1,1,x', '1.0,1,1,1']
)
def test_a_mesh_that_is_none_is_an_error(mesh, workdir):
    with pytest.raises(ValueError, match=r'or data,fsdp,rollout,tensor,decode_ten'):
        read(workdir, mesh)


@pytest.mark.parametrize('mesh', ['-1,-1,1,1', '0,1,1,1', '-2,1,1,1'])
def test_sizes_that_no_mesh_has_are_an_error(mesh, workdir):
    with pytest.raises(ValueError, match='must be positive sizes, of which one may'):
        read(workdir, mesh)


def test_a_directory_without_a_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r'is not a run directory: .*json is absent'):
        read(tmp_path)
    for text, words in (('{"name": ', 'Expecting value'), ('{}', 'missing keys')):
        (tmp_path / 'config.json').write_text(text)
        with pytest.raises(ValueError, match=f'config.json is not a config: {words}'):
            read(tmp_path)


def test_a_parameter_of_another_version_is_no_matter_to_what_only_reads(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    values['advantage']['size'] = 3
    del values['advantage']['easy_threshold']
    path.write_text(json.dumps(values))
    assert read(workdir).advantage.parameters['size'] == 3


def test_a_run_older_than_an_option_has_it_off_and_resumes(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    for section, names in {
        'data': ['system_prompt', 'chat_template_kwargs', 'chat_date'],
        'sampling': ['top_k', 'min_p'],
        'eval': ['top_k', 'min_p'],
    }.items():
        for name in names:
            del values[section][name]
    path.write_text(json.dumps(values))
    (workdir / 'metrics.jsonl').touch()
    (workdir / 'git.json').write_text('{"revision": null}')
    config = tiny.make_config()
    assert read(workdir) == config
    with prepare_workdir(workdir, configs.to_json(config)):
        pass
    thinking = {'data__chat_template_kwargs': {'enable_thinking': False}}
    other = configs.to_json(tiny.make_config(**thinking))
    words = 'chat_template_kwargs.enable_thinking: absent there, false now'
    with pytest.raises(ValueError, match=words), prepare_workdir(workdir, other):
        pass


def test_a_key_of_another_version_is_named(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    values['model']['depth'] = 3
    path.write_text(json.dumps(values))
    del values['mesh']['rollout']
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match='from another version of passk_jax') as error:
        read(workdir)
    assert "['mesh.rollout', 'model.depth']" in str(error.value)
    assert 'git.json beside it says which version' in str(error.value)
    assert 'override' not in str(error.value)


def test_a_value_of_another_version_is_named(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    values['model']['remat'] = True
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r'model.remat=True must be .*\(git\.json'):
        read(workdir)
    path.write_text('[]')
    with pytest.raises(ValueError, match=r'is not a config: .* must be a section'):
        read(workdir)


@pytest.mark.parametrize(
    ('of_run', 'here'), [('splash', 'auto'), ('cudnn', 'auto'), ('plain', 'plain')]
)
@pytest.mark.parametrize('mesh', [None, '-1,1,1,1'])
def test_the_attention_kernel_is_one_that_these_devices_have(
    mesh, of_run, here, tmp_path
):
    config = tiny.make_config(model__attention=of_run)
    (tmp_path / 'config.json').write_text(configs.to_json(config))
    saved = read(tmp_path, mesh)
    assert saved.model.attention == here
    # Setup, which the commands call next, takes plain attention on a CPU.
    with tiny.devices(1):
        assert make_setup(saved).policy.arch.attention == 'plain'


@pytest.mark.parametrize('mesh', [None, '1,1,4,1'])
def test_nothing_is_packed_where_nothing_is_trained(mesh, tmp_path):
    """The run's devices could, and these need not."""
    config = tiny.make_config(train__pack_sizes=2)
    (tmp_path / 'config.json').write_text(configs.to_json(config))
    assert read(tmp_path, mesh).train.pack_sizes == 0


def stage_after(earlier, path, stage=-1):
    """The stage of a run in ``path`` that goes on from ``earlier``."""
    return stage_of(stage, after(earlier).init, path)


def after(earlier, **overrides):
    source = {'init__kind': 'checkpoint', 'init__checkpoint': str(earlier)}
    return tiny.make_config(**source, **overrides)


def test_a_run_is_of_the_stage_after_the_one_it_goes_on_from(workdir, tmp_path):
    path = tmp_path / 'own'
    assert stage_after(workdir, path) == 1
    (workdir / 'config.json').write_text(configs.to_json(tiny.make_config(stage=1)))
    assert stage_after(workdir, path) == 2
    assert stage_after(workdir, path, stage=7) == 7
    assert stage_of(-1, tiny.make_config().init, path) == 0


def test_a_run_keeps_its_stage_when_the_one_before_it_is_gone(tmp_path):
    gone = tmp_path / 'gone'
    with pytest.raises(ValueError, match='gone is not a run directory'):
        stage_after(gone, tmp_path)
    text = configs.to_json(after(gone, stage=4))
    (tmp_path / 'config.json').write_text(text)
    assert stage_after(gone, tmp_path) == 4
    # A directory of another run says nothing.
    with pytest.raises(ValueError, match='other is not a run directory'):
        stage_after(tmp_path / 'other', tmp_path)


def test_a_run_from_before_there_were_stages_is_a_first_stage(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    del values['stage']
    path.write_text(json.dumps(values))
    assert read(workdir).stage == 0
