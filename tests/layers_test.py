"""The layers of the package and the rules that keep it whole, read from its source.

A module that is in no layer fails here, so that adding one is a decision: give it the
lowest rank that lies above everything it imports.
"""

import ast
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from passk_jax.tasks import TASKS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'passk_jax'

# From the top down. A module imports from entries below its own only; a sub-package is
# one entry.
RANKS = (
    ('compare', 'sweep'),
    ('sweeps',),
    ('train',),
    ('evaluate', 'export', 'plan', 'push', 'score'),
    ('report',),
    ('planning',),
    ('diagnostics', 'setup'),
    ('evaluation',),
    ('initial', 'rollouts'),
    ('learning', 'runs', 'sampling', 'tasks'),
    ('advantages', 'cli', 'models', 'verifiers'),
    ('config', 'data', 'masked', 'plugins', 'runtime', 'sharding'),
    ('errors', 'files', 'types'),
)
RANK = {name: len(RANKS) - i for i, names in enumerate(RANKS) for name in names}

# Third party -> the only modules, or packages, that may import it.
ONLY_IN = {
    'ml_collections': ('config', 'cli.config_file'),
    'transformers': (
        'models.tokenizer',
        'models.hf.config',
        'models.hf.layers',
        'models.hf.save_tokenizer',
    ),
    'tokenizers': ('models.tokenizer',),
    'safetensors': ('models.hf.weights', 'models.hf.save'),
    'tensorflow_datasets': ('tasks',),
    'huggingface_hub': ('models.hf.config', 'push', 'tasks.sources'),
    'pyarrow': ('tasks.rows',),
    'PIL': ('data.pictures',),
    'orbax': ('runs.arrays',),
    'tensorboardX': ('runs.trackers',),
    'trackio': ('runs.trackers',),
    'wandb': ('runs.trackers',),
    'tqdm': ('runs.progress',),
    'tensorflow': (),
    'torch': (),
    'configs': (),
    'examples': (),
    'experiments': (),
    'benchmarks': (),
    'tests': (),
}
# Third party -> modules, or packages, that may not import it.
_MATHEMATICS = (
    'advantages',
    'diagnostics',
    'evaluation.comparison',
    'evaluation.majority',
    'evaluation.metrics',
    'learning.losses',
    'masked',
)
NEVER_IN = {'flax': _MATHEMATICS, 'optax': _MATHEMATICS}

MAX_LINES = 400
# File -> why it is longer.
LONGER_FILES: Mapping[str, str] = {}
MAX_FUNCTION_LINES = 60
# Function -> its own limit: the one loop.
LONGER_FUNCTIONS = {'passk_jax/train.py:train': 100}

# Modules of settings alone, or without a name, and the test that is about them.
TESTED_IN = {
    f'models.families.{path.stem}': 'models.families.table_test'
    for path in (PACKAGE / 'models' / 'families').glob('*.py')
    if path.stem != 'table'
} | {
    'config.experiment': 'config.conversion_test',
    'config.learning_config': 'config.conversion_test',
    'config.model_config': 'config.conversion_test',
    'learning.micro_batches': 'learning.update_test',
    'tasks.__main__': 'tasks.main_test',
    'verifiers.forms': 'verifiers.reading_test',
    'verifiers.reward_worker': 'verifiers.rewards_test',
    'verifiers.vocabulary': 'verifiers.units_test',
    'verifiers.words': 'verifiers.reading_test',
}
# Tests that mirror no module, and what they are about.
OTHER_TESTS = {
    'ablations_test': 'the ablations in configs/ablations/',
    'benchmarks_test': 'the benchmarks in benchmarks/',
    'configs_arguments_test': 'the arguments that a config file takes',
    'configs_pages_test': 'the docstrings of configs, and the pages that name them',
    'configs_test': 'the experiments in configs/',
    **{
        f'{path.stem}_test': f'experiments/{path.name}'
        for path in (ROOT / 'experiments').glob('*.py')
        if (ROOT / 'tests' / f'{path.stem}_test.py').exists()
    },
    'fields_test': 'what the package reads of the configuration',
    **{
        f'launch.{name}_test': 'launch_tpu.sh'
        for name in ('command_line', 'gke', 'local', 'pods', 'slices')
    },
    'launch.sky_test': 'sky.yaml',
    'launch.two_processes_test': 'launch_tpu.sh with the real trainer',
    'layers_test': 'the package as a whole',
    'models.hf.parity_gradient_test': 'the gradients of transformers',
    'models.hf.parity_test': 'the numbers of transformers',
    'models.hf.vision_parity_test': 'the numbers of transformers with pictures',
    'models.hf.property_test': 'the same, of architectures drawn at random',
    'multihost_stop_test': 'several processes that are told to stop',
    'multihost_test': 'several processes',
    'mutations_test': 'the mutations that tests must notice',
    'names_test': 'the names in all modules',
    'one_place_test': 'the additions of somebody who is new here',
    'notebook_test': 'the notebooks',
    'coming_from_test': 'docs/coming_from.md',
    'faults_test': 'benchmarks/faults/',
    'path_test': 'the way of the rewards through the package',
    'pods_test': 'meshes over several processes',
    'docs_test': 'the pages of docs/',
    'docstrings_test': 'the examples in docstrings',
    'install_test': 'the wheel and the tested versions',
    'pages_test': 'links and intervals of the pages',
    'readme_test': 'the README',
    'examples_test': 'the files of examples/ and the page that shows them',
    'tasks.custom_class_test': 'tasks in files of a user',
    'tasks.mutated_responses_test': 'the verdicts of all tasks',
    'verifiers.kinds_test': 'verdicts on mathematics, kind by kind',
    'verifiers.oracles_test': 'benchmarks/oracles.py',
}

SOURCES = {
    '.'.join(path.relative_to(PACKAGE).with_suffix('').parts): ast.parse(
        path.read_text(), filename=str(path)
    )
    for path in sorted(PACKAGE.rglob('*.py'))
}


def defines(tree: ast.Module) -> bool:
    """Whether there is more than a docstring, imports and ``__all__``."""
    passive = (ast.Expr, ast.Import, ast.ImportFrom)
    return any(
        not isinstance(node, passive) and '__all__' not in ast.unparse(node)
        for node in tree.body
    )


# A package that only passes names on is no module; one that defines is, by its name.
MODULES = {
    name.removesuffix('.__init__'): tree
    for name, tree in SOURCES.items()
    if not name.endswith('__init__') or defines(tree)
}


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names a module imports; ``from a import b`` counts as ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f'line {node.lineno}: relative import'
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def imports_of_package(tree: ast.AST) -> set[str]:
    """Dotted names inside the package, without its own name."""
    prefix = 'passk_jax.'
    return {name[len(prefix) :] for name in imports(tree) if name.startswith(prefix)}


def lies_in(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + '.') for place in places)


def test_every_module_has_a_rank():
    unranked = {name.partition('.')[0] for name in MODULES} - set(RANK)
    assert not unranked, f'{sorted(unranked)} stand in no layer of RANKS'


@pytest.mark.parametrize('module', sorted(SOURCES.keys() - {'__init__'}))
def test_imports_go_down(module):
    package = module.partition('.')[0]
    for imported in imports_of_package(SOURCES[module]):
        other = imported.partition('.')[0]
        if other == package and '.' in module:
            continue  # Inside a sub-package; cycles are looked for below.
        assert RANK.get(other, 0) < RANK.get(package, 0), (
            f'{module} imports {imported}, which lies no lower'
        )


def test_a_folder_of_a_task_imports_no_other_task():
    folders = {name.split('.')[1] for name in SOURCES if name.count('.') > 1}
    folders = {name for name in folders if f'tasks.{name}.__init__' in SOURCES}
    assert {'maze', 'enigmata', 'arc'} <= folders
    for module, tree in SOURCES.items():
        package, _, path = module.partition('.')
        folder = path.partition('.')[0]
        if package != 'tasks' or folder not in folders:
            continue
        for imported in imports_of_package(tree):
            room, _, other = imported.partition('.')
            other = other.partition('.')[0]
            assert room != 'tasks' or other == folder or other not in folders, (
                f'{module} imports {imported}, a part of another task'
            )


def test_no_cycle_inside_a_sub_package():
    def module_of(imported: str) -> str:
        return imported if imported in MODULES else imported.rpartition('.')[0]

    graph = {
        module: {module_of(name) for name in imports_of_package(tree)} & set(MODULES)
        for module, tree in MODULES.items()
    }
    while leaves := [module for module, imports in graph.items() if not imports]:
        graph = {m: imports - set(leaves) for m, imports in graph.items() if imports}
    assert not graph, f'these import each other: {sorted(graph)}'


@pytest.mark.parametrize('module', SOURCES)
def test_third_party_stays_where_it_belongs(module):
    for name in {name.partition('.')[0] for name in imports(SOURCES[module])}:
        assert name not in ONLY_IN or lies_in(module, ONLY_IN[name]), (
            f'{module} imports {name}, which only {ONLY_IN[name]} may'
        )
        assert not lies_in(module, NEVER_IN.get(name, ())), (
            f'{module} may not import {name}'
        )


_IMPORT_ALL = """
import importlib, sys
from absl import flags
for name in sys.argv[1:]:
    importlib.import_module(f'passk_jax.{name}')
defined = flags.FLAGS.flags_by_module_dict().items()
ours = {name: found for name, found in defined if name.startswith('passk_jax')}
sys.exit(f'defined at import: {ours}' if ours else 0)
"""


@pytest.mark.parametrize('module', SOURCES)
def test_what_jax_may_rename_is_not_needed_for_an_import(module):
    kinds = ast.Import | ast.ImportFrom
    private = 'jax._src', 'jax.experimental.pallas.ops'
    at_top = [node for node in SOURCES[module].body if isinstance(node, kinds)]
    assert not [x for x in imports(ast.Module(at_top, [])) if x.startswith(private)]


def test_importing_defines_no_flag_and_starts_no_backend():
    """Worker processes import tasks; a backend costs seconds and an accelerator."""

    def run(code: str, *arguments: str) -> subprocess.CompletedProcess:
        # Any start of a backend fails: there is no such platform.
        environment = os.environ | {'JAX_PLATFORMS': 'no_such_platform'}
        return subprocess.run(
            [sys.executable, '-c', code, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )

    assert run('import jax\njax.devices()').returncode != 0
    define = """flags.DEFINE_bool('x', False, '', module_name='passk_jax.x')"""
    assert (
        'defined at import'
        in run(f'from absl import flags\n{define}' + _IMPORT_ALL).stderr
    )
    result = run(_IMPORT_ALL, *MODULES)
    assert result.returncode == 0, result.stderr


def test_the_package_itself_is_empty():
    """Worker processes import it before anything else."""
    assert not SOURCES['__init__'].body


def test_tests_mirror_the_package():
    tests = {
        '.'.join(path.relative_to(ROOT / 'tests').with_suffix('').parts)
        for path in (ROOT / 'tests').rglob('*_test.py')
    }
    expected = {TESTED_IN.get(module, f'{module}_test') for module in MODULES}
    # A task of one file has tests: tests/tasks_test.py loops over the rows.
    rows = {place.partition(':')[0] for place in TASKS.values()}
    of_rows = {f'{name.removeprefix("passk_jax.")}_test' for name in rows}
    of_files = {name for name in of_rows if name.count('.') == 1}
    untested = sorted(expected - tests - of_files)
    assert not untested, f'modules without tests: {untested}'
    # A module with many tests has more files of them: losses_test, losses_kl_test.
    stems = tuple(name.removesuffix('test') for name in expected)
    unmatched = {
        name for name in tests - set(OTHER_TESTS) if not name.startswith(stems)
    }
    assert not unmatched, f'tests of no module: {sorted(unmatched)}'
    assert set(OTHER_TESTS) <= tests


def python_files() -> list[pathlib.Path]:
    folders = 'passk_jax', 'configs', 'experiments', 'examples', 'benchmarks', 'tests'
    return sorted(path for name in folders for path in (ROOT / name).rglob('*.py'))


def test_files_are_short():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in python_files()
    }
    long = {name: n for name, n in lengths.items() if n > MAX_LINES}
    assert not long.keys() - LONGER_FILES.keys(), f'too long: {long}'
    assert LONGER_FILES.keys() <= long.keys(), 'no longer long: take them off the list'


def code_lines(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring, which is never too long."""
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_functions_are_short():
    long = {}
    for path in python_files():
        file = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f'{file}:{node.name}'
                if code_lines(node) > LONGER_FUNCTIONS.get(name, MAX_FUNCTION_LINES):
                    long[name] = code_lines(node)
    assert not long, f'too long: {long}'


# The commands and their set-up make the whole configuration and open it, and so does a
# sweep of all of its runs.
OPENS_THE_CONFIG = (
    *('train', 'evaluate', 'export', 'plan', 'setup'),
    'config',
    'sweeps.opening',
)


def test_only_commands_take_the_whole_configuration():
    def takes_it(node: ast.AST) -> bool:
        kind = getattr(node, 'annotation', None)
        return (
            isinstance(node, ast.arg | ast.AnnAssign)
            and kind is not None
            and ast.unparse(kind).rpartition('.')[2] in ('ExperimentConfig', 'Setup')
        )

    takers = {
        module for module, tree in MODULES.items() if any(map(takes_it, ast.walk(tree)))
    }
    wrong = sorted(m for m in takers if not lies_in(m, OPENS_THE_CONFIG))
    assert not wrong, f'{wrong} take the whole configuration: give them what they read'


def test_every_text_file_is_read_and_written_in_an_encoding_that_is_stated():
    """Not in that of the locale, which may lack what a template or a name has."""
    reads = {'read_text': 0, 'write_text': 1, 'open': 1}
    places = []
    for name, tree in SOURCES.items():
        for node in ast.walk(tree):
            # os.open() gives a number, whose bytes are bytes, and PIL a picture.
            if not isinstance(node, ast.Call) or ast.unparse(node.func) in (
                *('os.open', 'PIL.Image.open'),
            ):
                continue
            called = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
            texts = [x.value for x in node.args if isinstance(x, ast.Constant)]
            binary = any('b' in str(x) for x in texts)
            stated = len(node.args) > reads.get(called, 0) and called != 'open'
            stated |= any(x.arg == 'encoding' for x in node.keywords)
            if called in reads and not (stated or (called == 'open' and binary)):
                places.append(f'{name}:{node.lineno}')
    assert not places, f'state encoding= in {places}'
