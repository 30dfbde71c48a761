import sys

import pytest

from configs import maze_tiny
from passk_jax.cli import config_file, config_folder
from passk_jax.errors import InputError

USER_CONFIG = """
from configs import base, maze_tiny
def get_config():
    config = maze_tiny.get_config()
    config.name = 'mine'
    return config
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test runs in a directory that has no configs of the package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [*sys.path])


@pytest.mark.parametrize(
    'name', ['maze_tiny', 'maze_tiny.py', 'configs/maze_tiny', 'configs/maze_tiny.py']
)
def test_a_config_of_the_package_is_found_by_name_anywhere(name):
    assert config_file.load(name) == maze_tiny.get_config()


def test_a_config_in_a_folder_has_its_name_and_takes_arguments():
    config = config_file.load('ablations/exceeding:size=tiny')
    assert config.advantage.name == 'exceeding'


@pytest.mark.parametrize('name', config_folder.names())
def test_every_name_is_a_file(name):
    assert (config_folder.FOLDER / f'{name}.py').is_file()
    assert config_folder.find(name) == str(config_folder.FOLDER / f'{name}.py')


def test_helpers_and_what_lies_elsewhere_are_no_configs():
    assert not {'arguments', '__init__', 'ablations/sizes'} & set(config_folder.names())
    for name in ('arguments', '../configs/maze_tiny', 'ablations', ''):
        with pytest.raises(InputError, match='no such file, and no config of the pack'):
            config_folder.find(name)


def test_a_file_comes_before_a_config_of_its_name(tmp_path):
    (tmp_path / 'maze_tiny').write_text(USER_CONFIG)
    assert config_file.load('maze_tiny').name == 'mine'
    (tmp_path / 'maze_tiny').unlink()
    (tmp_path / 'maze_tiny').mkdir()
    assert config_file.load('maze_tiny').name == 'maze_tiny'


def test_a_name_that_is_none_is_met_with_the_nearest():
    with pytest.raises(InputError, match=r'^maze_tny: .*did you mean maze_tiny'):
        config_file.load('maze_tny')
    with pytest.raises(InputError, match=r"^zzz\.py:a=1: .* have .*'maze_tiny'"):
        config_file.load('zzz.py:a=1')


@pytest.mark.parametrize('imported', [True, False])
def test_a_config_of_ones_own_imports_those_of_the_package(
    imported, tmp_path, monkeypatch
):
    (tmp_path / 'mine.py').write_text(USER_CONFIG)
    # What the process imported before makes no difference.
    for name in [n for n in sys.modules if n.partition('.')[0] == 'configs']:
        if not imported:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, 'path', [p for p in sys.path if 'site-packages' in p])
    assert config_file.load('mine.py').name == 'mine'


def test_a_folder_configs_of_ones_own_has_both(tmp_path):
    """Neither hides the modules of the other, and each load sees its own."""
    folder = tmp_path / 'configs'
    (folder / 'deeper').mkdir(parents=True)
    (folder / '__init__.py').write_text('')
    (folder / 'sizes.py').write_text('NAME = "of my own"')
    (folder / 'deeper' / 'mine.py').write_text(
        USER_CONFIG.replace('base', 'base, sizes').replace("'mine'", 'sizes.NAME')
    )
    before = sys.modules['configs']
    assert config_file.load('configs/deeper/mine.py').name == 'of my own'
    assert config_file.load('maze_tiny').name == 'maze_tiny'
    assert sys.modules['configs'] is before
    assert 'configs.sizes' not in sys.modules
    # A config of the package does not take theirs for its own.
    (folder / 'base.py').write_text('raise ValueError("not the base of the package")')
    assert config_file.load('maze_tiny').name == 'maze_tiny'
    with pytest.raises(InputError, match='not the base of the package'):
        config_file.load('configs/deeper/mine.py')


def test_a_config_may_import_what_lies_beside_it(tmp_path):
    folder = tmp_path / 'mine'
    folder.mkdir()
    (folder / 'names_beside.py').write_text('NAME = "beside"')
    (folder / 'config.py').write_text(
        'import names_beside\n' + USER_CONFIG.replace("'mine'", 'names_beside.NAME')
    )
    assert config_file.load('mine/config.py').name == 'beside'
