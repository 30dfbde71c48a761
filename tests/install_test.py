"""What a user installs: the wheel, and the versions that the Makefile takes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / 'constraints'
PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']


@pytest.fixture(scope='module')
def wheel(tmp_path_factory) -> pathlib.Path:
    source, out = tmp_path_factory.mktemp('source'), tmp_path_factory.mktemp('wheel')
    for name in ('passk_jax', 'configs'):
        ignore = shutil.ignore_patterns('__pycache__')
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in ('setup.py', 'pyproject.toml', 'requirements.txt', 'README.md'):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, '-m', 'pip', 'wheel', '--no-build-isolation', '--no-deps']
    subprocess.run([*pip, '-q', '-w', out, source], check=True)
    (path,) = out.glob('*.whl')
    return path


@pytest.fixture(scope='module')
def site(wheel, tmp_path_factory) -> pathlib.Path:
    """A directory with the package as pip installs it."""
    path = tmp_path_factory.mktemp('site')
    zipfile.ZipFile(wheel).extractall(path)
    return path


def test_a_wheel_has_the_package_and_the_configs_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    packaged = {name for name in names if '.dist-info/' not in name}
    expected = {
        f'{prefix}{path.relative_to(ROOT).as_posix()}'
        for folder, prefix in (('passk_jax', ''), ('configs', 'passk_jax/'))
        for path in (ROOT / folder).rglob('*.py')
    }
    assert packaged == expected


def test_the_script_of_a_wheel_is_passk(site):
    (info,) = site.glob('*.dist-info')
    assert 'passk = passk_jax.cli.passk:main' in (info / 'entry_points.txt').read_text()
    needs = re.findall(r'^Requires-Dist: (.*)', (info / 'METADATA').read_text(), re.M)
    assert len([x for x in needs if 'extra ==' not in x]) == len(requirements())


@pytest.mark.slow
def test_an_installed_package_works_where_no_checkout_is(site, tmp_path):
    (tmp_path / 'mine.py').write_text(
        'from configs import maze_tiny\ndef get_config():\n'
        '    config = maze_tiny.get_config()\n    config.seed = -1\n    return config'
    )
    code = 'from passk_jax.cli import passk; passk.main()'
    for config, words in (('mine.py', 'seed=-1 must'), ('base', "name='' must")):
        ended = subprocess.run(
            [sys.executable, '-P', '-c', code, 'train', f'--config={config}'],
            cwd=tmp_path,
            env=os.environ | {'PYTHONPATH': str(site), 'HOME': str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (ended.returncode, str(ROOT) in ended.stderr) == (2, False)
        assert words in ended.stderr


def requirements(*extras: str) -> list[Requirement]:
    lines = (ROOT / 'requirements.txt').read_text().splitlines()
    lines = [line.partition('#')[0].strip() for line in lines]
    for extra in extras:
        lines += PROJECT['optional-dependencies'][extra]
    return [Requirement(line) for line in lines if line]


def pins(path: pathlib.Path) -> dict[str, Version]:
    versions = {}
    for line in path.read_text().splitlines():
        if line.startswith('-c '):
            versions |= pins(path.parent / line[3:])
        elif not line.startswith('#'):
            name, _, version = line.partition('==')
            versions[normal(name)] = Version(version)
    return versions


def normal(name: str) -> str:
    return re.sub(r'[-_.]+', '-', name).lower()


def test_every_python_of_the_makefile_has_its_constraints():
    low, high = re.search(
        r'\((3, \d+)\) <= sys.version_info\[:2\] < \((3, \d+)\)',
        (ROOT / 'Makefile').read_text(),
    ).groups()
    minors = range(*(int(version.partition(', ')[2]) for version in (low, high)))
    names = {f'python3.{minor}.txt' for minor in minors}
    assert {path.name for path in CONSTRAINTS.iterdir()} == names
    assert PROJECT['requires-python'] == f'>={low.replace(", ", ".")}'


@pytest.mark.parametrize(
    'path', sorted(CONSTRAINTS.iterdir()), ids=lambda path: path.stem
)
def test_the_tested_versions_are_what_is_required(path):
    versions = pins(path)
    for requirement in requirements('test', 'reasoning-gym'):
        if requirement.name != 'setuptools':  # It comes with an interpreter, or pip.
            assert versions[normal(requirement.name)] in requirement.specifier


def test_the_makefile_installs_the_tested_versions(tmp_path):
    minor = sys.version_info[1]
    printed = subprocess.run(
        ['make', '-n', '-B', 'test', f'VENV={sys.prefix}'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    installs = re.findall(r'pip .*\binstall\b.*', printed)
    assert len(installs) == 2
    assert all(f'-c constraints/python3.{minor}.txt' in line for line in installs)


@pytest.mark.parametrize(
    ('name', 'last'), [('filelock', '3.20.2'), ('jinja2', '3.1.5')]
)
def test_versions_with_known_holes_are_below_the_floors(name, last):
    (requirement,) = (r for r in requirements() if r.name == name)
    assert Version(last) not in requirement.specifier


def test_an_older_pip_knows_the_name_of_each_extra():
    # setuptools writes normal names, and pip before 23.3 looks for the text as typed.
    extras = PROJECT['optional-dependencies']
    assert all(re.fullmatch('[a-z0-9]+(-[a-z0-9]+)*', name) for name in extras)
    text = '\n'.join(
        path.read_text() for path in (ROOT / 'README.md', *ROOT.glob('docs/*.md'))
    )
    typed = {
        name
        for names in re.findall(r"'\.\[([^\]]+)\]'", text)
        for name in names.split(',')
    }
    assert typed
    assert typed <= extras.keys()
