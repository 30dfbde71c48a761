"""The pages of docs/: what they name exists, and the layers are those of the tests."""

import pathlib
import re
import shlex
import tomllib

import pytest
from absl import flags as absl_flags

from passk_jax import export, train
from passk_jax.cli import flags
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.lora import Lora
from tests.layers_test import RANKS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / 'docs').glob('*.md'))

_PATH = re.compile(r'`([\w/]+(?:\.py|/))`')


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_a_page_names_files_that_are_there(page):
    for name in _PATH.findall(page.read_text()):
        places = (ROOT / name, ROOT / 'passk_jax' / name)
        assert any(place.exists() for place in places), name


def test_the_rooms_of_the_design_are_the_layers_of_the_package():
    text = (ROOT / 'docs' / 'design.md').read_text()
    ranks: dict[int, set[str]] = {}
    for rank, names in re.findall(r'^\| (\d+) \| ([^|]+) \|', text, re.MULTILINE):
        rooms = {name.strip('/') for name in re.findall(r'`([\w/]+)`', names)}
        ranks.setdefault(int(rank), set()).update(rooms)
    upper, *layers = [set(names) for names in RANKS]
    # A sweep and its room, and train and the other commands, share a row of the table.
    expected = [upper | layers[0], layers[1] | layers[2], *layers[3:]]
    assert [ranks[rank] for rank in sorted(ranks)] == expected


def test_the_verbs_of_the_design_are_there():
    text = (ROOT / 'docs' / 'design.md').read_text()
    verbs = re.findall(r'^\| `(\w+)` \| `([\w/]+\.py)` \|', text, re.MULTILINE)
    assert len(verbs) == 8
    for name, path in verbs:
        source = (ROOT / 'passk_jax' / path).read_text()
        assert re.search(rf'^class {name}[:(]', source, re.MULTILINE)
        assert f'"""The verb ``{name.lower()}(' in source


def test_the_page_of_models_lists_families_with_their_files():
    text = (ROOT / 'docs' / 'models.md').read_text()
    rows = re.findall(r'^\| `(\w+)` \| .*families/(\w+)\.py\) \|$', text, re.MULTILINE)
    assert len(rows) == len(re.findall(r'^\| `', text, re.MULTILINE)) >= 11
    for name, file in rows:
        source = (ROOT / 'passk_jax' / 'models' / 'families' / f'{file}.py').read_text()
        assert f"model_type='{name}'" in source
        assert name in FAMILIES


def test_there_are_few_pages_and_the_readme_links_to_all():
    text = (ROOT / 'README.md').read_text()
    assert len(PAGES) <= 8
    assert {path.name for path in PAGES} == {*re.findall(r'\(docs/(\w+\.md)', text)}


def test_the_readme_is_read_in_minutes():
    text = (ROOT / 'README.md').read_text()
    assert len(text.splitlines()) <= 180
    assert len(text.split()) <= 1300
    assert len((ROOT / 'experiments' / 'README.md').read_text().split()) <= 1500


_ENDS = {'.md', '.py', '.ipynb', '.sh', '.toml', '.txt'}
# Folders of environments and runs are left out.
_FOLDERS = ('passk_jax', 'configs', 'experiments', 'benchmarks', 'docs', 'examples')
_TEXTS = [
    path
    for folder in (ROOT, *(ROOT / name for name in _FOLDERS))
    for path in sorted(folder.glob('*') if folder == ROOT else folder.rglob('*'))
    if path.suffix in _ENDS
]


@pytest.mark.parametrize(
    'path',
    [path for path in _TEXTS if 'pip install' in path.read_text(errors='replace')],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_an_install_line_takes_the_checkout_and_no_package_of_our_name(path):
    """Nobody published this project, so a package of its name is a stranger's."""
    extras = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    lines = re.findall(r'pip install ([^\n`|&;]*)', path.read_text())
    for line in lines:
        for name in re.findall(r'[\w.-]+', line):
            assert not re.match(r'passk[-_.]*jax\b', name, re.IGNORECASE), line
        for extra in re.findall(r'\.\[(\w+)\]', line):
            assert extra in extras['optional-dependencies'], line


def test_the_commands_of_adapters_are_complete(monkeypatch):
    """They parse, and train adapters on the matrices that they name."""
    text = (ROOT / 'docs' / 'models.md').read_text().partition('## Adapters')[2]
    block = re.search(r'```bash\n(.*?)```', text, re.DOTALL)
    commands = block[1].replace('\\\n', ' ').strip().splitlines()
    assert len(commands) == 3
    monkeypatch.chdir(ROOT)
    arguments = [shlex.split(command)[2:] for command in commands]
    mains = {'passk_jax.train': train.main, 'passk_jax.export': export.main}
    parsed = [
        flags.parse(mains[module], [module, *flag_arguments], absl_flags.FlagValues())
        for module, *flag_arguments in arguments
    ]
    lora = Lora.configured(parsed[0]['config'].model.lora)
    assert lora == Lora(16, 32.0, ('q_proj', 'k_proj', 'v_proj', 'o_proj'))
    assert [x.get('peft') for x in parsed] == [None, False, True]
