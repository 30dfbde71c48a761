"""Every field of the configuration is read somewhere in the package."""

import ast
import dataclasses
import inspect
from typing import Any

from passk_jax import config as config_lib
from tests.layers_test import MODULES, lies_in

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
            self.reads |= {
                (self.declares(section, name), name) for name in names or fields
            }

    def declares(self, section: str, name: str) -> str:
        """The class that a field of this section is written in."""
        for cls in self.classes[section].__mro__:
            if name in inspect.get_annotations(cls):
                return cls.__name__
        return section

    def visit(self, node: ast.AST, types: dict[str, str]) -> None:
        if isinstance(node, ast.ClassDef) and node.name in self.classes:
            types = {**types, 'self': node.name}
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            types = dict(types)
            arguments = node.args
            for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
                if arg.arg != 'self':
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
        if isinstance(value, type)
        and dataclasses.is_dataclass(value)
        # Made of sections, and none itself.
        and value is not config_lib.Stage
    }


def unread_fields(trees: list[Any]) -> set[tuple[str, str]]:
    classes = config_classes()
    # A field belongs to the class that declares it, and not to those that inherit it.
    fields = {
        (name, field)
        for name, cls in classes.items()
        for field in inspect.get_annotations(cls)
    }
    return fields - FieldReads(classes, trees).reads


def test_every_config_field_is_read():
    trees = [
        tree
        for name, tree in MODULES.items()
        # The methods of a section read it, too.
        if not lies_in(name, ('config',))
        or name in ('config.stages', 'config.evaluation_config')
    ]
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
