"""The layers of the package and the rules that keep it whole, read from its source.

A module that is in no layer fails here, so that adding one is a decision: give it the
lowest rank that lies above everything it imports.
"""

import ast
import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from passk_jax import config as config_lib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'passk_jax'

# From the top down. A module imports from lower ranks only; a sub-package is one entry.
RANKS = (
    ('train',),
    ('evaluate', 'export', 'plan', 'score'),
    ('evaluation', 'run_log'),
    ('planning', 'report', 'initial'),
    ('rollouts',),
    ('setup',),
    ('learning', 'runs'),
    ('sampling',),
    ('models', 'tasks'),
    ('advantages', 'data', 'metrics', 'sharding', 'verifiers'),
    ('cli', 'config', 'files', 'hosts', 'masked', 'types'),
    ('errors',),
)
RANK = {name: len(RANKS) - i for i, names in enumerate(RANKS) for name in names}

# Third party -> the only modules, or packages, that may import it.
ONLY_IN = {
    'ml_collections': ('config', 'cli.flags'),
    'transformers': (
        'models.tokenizer',
        'models.hf.config',
        'models.hf.save_tokenizer',
    ),
    'tokenizers': ('models.tokenizer',),
    'safetensors': ('models.hf.weights', 'models.hf.save'),
    'tensorflow_datasets': ('tasks',),
    'orbax': ('runs.checkpoints',),
    'tensorboardX': ('runs.metric_writer',),
    'wandb': ('runs.metric_writer',),
    'tqdm': ('runs.progress',),
    'tensorflow': (),
    'torch': (),
    'configs': (),
    'experiments': (),
    'benchmarks': (),
    'tests': (),
}
# Third party -> modules, or packages, that may not import it.
_MATHEMATICS = ('advantages', 'learning.losses', 'masked', 'metrics')
NEVER_IN = {'flax': _MATHEMATICS, 'optax': _MATHEMATICS}

MAX_LINES = 400
# File -> why it is longer.
LONGER_FILES: Mapping[str, str] = {}
MAX_FUNCTION_LINES = 60
# Function -> its own limit: the one loop.
LONGER_FUNCTIONS = {'passk_jax/train.py:train': 100}

# Tests that mirror no module, and what they are about.
# Modules of settings alone, and the test that is about them.
TESTED_IN = {
    f'models.families.{name}': 'models.families.table_test'
    for name in ('family', 'llama', 'mistral', 'qwen2', 'qwen3')
}
OTHER_TESTS = {
    'benchmarks_test': 'the benchmarks in benchmarks/',
    'configs_test': 'the experiments in configs/',
    'layers_test': 'the package as a whole',
    'models.hf.parity_test': 'the numbers of transformers',
    'models.hf.property_test': 'the same, of architectures drawn at random',
    'multihost_test': 'several processes',
    'notebook_test': 'the notebooks in experiments/',
    'readme_test': 'the README',
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
    own = module.partition('.')[0]
    for imported in imports_of_package(SOURCES[module]):
        other = imported.partition('.')[0]
        if other == own and '.' in module:
            continue  # Inside a sub-package; cycles are looked for below.
        assert RANK.get(other, 0) < RANK.get(own, 0), (
            f'{module} imports {imported}, which lies no lower'
        )


def test_no_cycle_inside_a_sub_package():
    def module_of(imported: str) -> str:
        return imported if imported in MODULES else imported.rpartition('.')[0]

    graph = {
        module: {module_of(name) for name in imports_of_package(tree)} & set(MODULES)
        for module, tree in MODULES.items()
    }
    while leaves := [module for module, others in graph.items() if not others]:
        graph = {m: others - set(leaves) for m, others in graph.items() if others}
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


def test_tasks_and_verifiers_import_without_a_backend():
    """Worker processes import them; a backend costs seconds and an accelerator."""
    modules = [name for name in MODULES if lies_in(name, ('tasks', 'verifiers'))]
    code = ''.join(f'import passk_jax.{name}\n' for name in modules)

    def run(code: str) -> subprocess.CompletedProcess:
        # Any start of a backend fails: there is no such platform.
        environment = os.environ | {'JAX_PLATFORMS': 'no_such_platform'}
        return subprocess.run(
            [sys.executable, '-c', code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )

    assert run('import jax\njax.devices()').returncode != 0
    result = run(code)
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
    untested = sorted(expected - tests)
    assert not untested, f'modules without tests: {untested}'
    # A module with many tests has more files of them: losses_test, losses_kl_test.
    stems = tuple(name.removesuffix('test') for name in expected)
    others = {name for name in tests - set(OTHER_TESTS) if not name.startswith(stems)}
    assert not others, f'tests of no module: {sorted(others)}'
    assert set(OTHER_TESTS) <= tests


def python_files() -> list[pathlib.Path]:
    folders = ('passk_jax', 'configs', 'experiments', 'benchmarks', 'tests')
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


# Calls that read every field of their first argument.
EVERY_FIELD = ('dataclasses.asdict', 'getattr')


class FieldReads:
    """Which fields of the config dataclasses the package reads, by their types.

    A name has a type where it is annotated or assigned an expression that has one
    (``config: LossConfig``, ``loss = setup.config.loss``); an attribute of that type
    is a read. ``dataclasses.asdict`` and ``getattr`` read every field.
    """

    def __init__(self, classes: dict[str, type], trees: list[ast.AST]):
        self.classes = classes
        self.reads: set[tuple[str, str]] = set()
        # Attributes of other objects that hold a section (Setup.config).
        self.holders: dict[str, str] = {}
        nodes = [node for tree in trees for node in ast.walk(tree)]
        for cls in (node for node in nodes if isinstance(node, ast.ClassDef)):
            for field in (node for node in cls.body if isinstance(node, ast.AnnAssign)):
                if section := self.annotated(field.annotation):
                    self.holders[ast.unparse(field.target)] = section
        # Twice, because a method may stand above the one that assigns self.config.
        for tree in 2 * trees:
            self.visit(tree, {})

    def annotated(self, annotation: ast.AST | None) -> str | None:
        name = ast.unparse(annotation).rpartition('.')[2] if annotation else ''
        return name if name in self.classes else None

    def type_of(self, node: ast.AST, types: dict[str, str]) -> str | None:
        if isinstance(node, ast.Name):
            return types.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.type_of(node.value, types)
        if owner is None:
            return self.holders.get(node.attr)
        fields = {f.name: f.type for f in dataclasses.fields(self.classes[owner])}
        kind = fields.get(node.attr)
        return kind.__name__ if dataclasses.is_dataclass(kind) else None

    def add(
        self, owner: ast.AST, types: dict[str, str], names: set[str] | None
    ) -> None:
        """Notes a read of these fields, or of all, if the owner is a section."""
        if section := self.type_of(owner, types):
            fields = {field.name for field in dataclasses.fields(self.classes[section])}
            self.reads |= {(section, name) for name in names or fields}

    def visit(self, node: ast.AST, types: dict[str, str]) -> None:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            types = dict(types)
            arguments = node.args
            for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                types.pop(arg.arg, None)
                if section := self.annotated(arg.annotation):
                    types[arg.arg] = section
        if isinstance(node, ast.AnnAssign):
            if section := self.annotated(node.annotation):
                types[ast.unparse(node.target)] = section
        elif isinstance(node, ast.Assign):
            section = self.type_of(node.value, types)
            for target in node.targets if section else ():
                names = self.holders if isinstance(target, ast.Attribute) else types
                names[target.attr if names is self.holders else target.id] = section
        elif isinstance(node, ast.Attribute):
            self.add(node.value, types, {node.attr})
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in EVERY_FIELD:
            self.add(node.args[0], types, None)
        for child in ast.iter_child_nodes(node):
            self.visit(child, types)


def config_classes() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(config_lib).items()
        if isinstance(value, type) and dataclasses.is_dataclass(value)
    }


def unread_fields(trees: list[Any]) -> set[tuple[str, str]]:
    classes = config_classes()
    fields = {
        (name, field.name)
        for name, cls in classes.items()
        for field in dataclasses.fields(cls)
    }
    return fields - FieldReads(classes, trees).reads


def test_every_config_field_is_read():
    trees = [tree for name, tree in MODULES.items() if not lies_in(name, ('config',))]
    unread = sorted('.'.join(field) for field in unread_fields(trees))
    assert not unread, f'config fields that nothing reads: {unread}'


def test_an_unread_field_would_be_found():
    """The reader of fields above, tried on a piece of code."""
    source = (
        'class Setup:\n'
        '    config: ExperimentConfig\n'
        'class Log:\n'
        '    def show(self):\n'
        '        return self._log.tensorboard\n'
        '    def __init__(self, setup):\n'
        '        self._log = setup.config.log\n'
        'def f(config: LossConfig, setup):\n'
        '    train = setup.config.train\n'
        '    mesh = dataclasses.asdict(setup.config.mesh)\n'
        '    return config.clip_low, train.steps, setup.every\n'
    )
    unread = unread_fields([ast.parse(source)])
    read = {
        ('LossConfig', 'clip_low'),
        ('TrainConfig', 'steps'),
        ('MeshConfig', 'fsdp'),
    }
    assert not read & unread
    assert {('LossConfig', 'clip_high'), ('EvalConfig', 'every')} <= unread
