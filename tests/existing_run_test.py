import json

import pytest
from absl import flags
from absl.testing import flagsaver

from passk_jax import config as configs
from passk_jax import existing_run
from tests import tiny


@pytest.fixture
def workdir(tmp_path):
    (tmp_path / 'config.json').write_text(configs.to_json(tiny.make_config()))
    return tmp_path


def read(workdir, mesh=None):
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(mesh=mesh):
        return existing_run.run_config(workdir)


def test_a_run_has_the_configuration_it_began_with(workdir):
    assert read(workdir) == tiny.make_config()


def test_the_mesh_is_this_processs(workdir):
    config = read(workdir, '2,-1,1,4')
    assert (
        configs.diff(
            config,
            tiny.make_config(
                mesh__data=2, mesh__fsdp=-1, mesh__rollout=1, mesh__tensor=4
            ),
        )
        == ()
    )


@pytest.mark.parametrize(
    'mesh', ['', '1', '1,1,1', '1,1,1,1,1', '1,1,1,x', '1.0,1,1,1']
)
def test_a_mesh_that_is_none_is_an_error(mesh, workdir):
    with pytest.raises(ValueError, match=r'must be data,fsdp,rollout,tensor, for exam'):
        read(workdir, mesh)


@pytest.mark.parametrize('mesh', ['-1,-1,1,1', '0,1,1,1', '-2,1,1,1'])
def test_sizes_that_no_mesh_has_are_an_error(mesh, workdir):
    with pytest.raises(ValueError, match='must be positive sizes, of which one may'):
        read(workdir, mesh)


def test_a_directory_without_a_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r'is no run directory: .*config.json is abs'):
        read(tmp_path)
    for text, words in (('{"name": ', 'Expecting value'), ('{}', 'missing keys')):
        (tmp_path / 'config.json').write_text(text)
        with pytest.raises(ValueError, match=f'config.json is not a config: {words}'):
            read(tmp_path)


def test_a_key_of_another_version_is_named(workdir):
    path = workdir / 'config.json'
    values = json.loads(path.read_text())
    values['model']['depth'] = 3
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r'unknown key model\.depth'):
        read(workdir)
