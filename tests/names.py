"""Reports names that are no words of the field: ``python -m tests.names``.

A *bound name* is a parameter, a variable, a loop variable, a function, a class or an
attribute of ``self``. Pet words say nothing of what they name, and a function that
begins with a preposition is no verb. names_test.py holds the share of both.
"""

import ast
import collections
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]

PET_WORDS = frozenset(
    (
        *('able', 'asked', 'each', 'found', 'given', 'kept', 'known', 'left', 'made'),
        *('mine', 'named', 'others', 'own', 'rest', 'said', 'shown', 'taken'),
        *('theirs', 'told', 'whole'),
    )
)
PREPOSITIONS = frozenset(
    ('as', 'at', 'by', 'for', 'from', 'in', 'of', 'on', 'with', 'without')
)
# Constructors that are named for what they take, as in ``datetime.fromtimestamp``.
ALLOWED_FUNCTIONS = re.compile(r'from_\w+|on_\w+|as_\w+|with_\w+|without_\w+')


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a module binds, a line number with each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if isinstance(node.ctx, ast.Store):
                yield name, node.lineno


def is_pet(name: str) -> bool:
    """Whether a name is a pet word, or one with underscores around it."""
    return name.strip('_') in PET_WORDS


def functions_without_verb(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions whose names begin with a preposition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name.strip('_')
            begins = name.partition('_')[0] in PREPOSITIONS and '_' in name
            if begins and not ALLOWED_FUNCTIONS.fullmatch(name):
                yield node.name, node.lineno


def modules() -> dict[str, ast.Module]:
    """The modules of the package by their path."""
    paths = sorted((ROOT / 'passk_jax').rglob('*.py'))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def main() -> None:
    """Prints both lists, and the share of pet words among all bound names."""
    total, pets, counts = 0, [], collections.Counter()
    for path, tree in modules().items():
        for name, line in bound_names(tree):
            total += 1
            if is_pet(name):
                pets.append(f'{path}:{line} {name}')
                counts[name.strip('_')] += 1
        for name, line in functions_without_verb(tree):
            print(f'{path}:{line} {name}: no verb')
    print(*pets, sep='\n')
    print(dict(counts.most_common()))
    print(f'{len(pets)} of {total} bound names are pet words: {len(pets) / total:.2%}')


if __name__ == '__main__':
    main()
