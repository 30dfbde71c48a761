"""Reports names that are no words of the field: ``python -m tests.names``.

A *bound name* is a module, a parameter, a variable, a loop variable, an import's other
name, a function, a class or an attribute of ``self``. Pet words say nothing of what
they name, and a function that begins with a preposition is no verb. names_test.py
allows neither. The names of tests are sentences, and may have any word.
"""

import ast
import collections
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ('passk_jax', 'configs', 'experiments', 'benchmarks', 'examples', 'tests')

# These name nothing as parts of a name either, as in ``own_problems``.
PET_PARTS = frozenset(
    ('given', 'held', 'kept', 'mine', 'own', 'said', 'told', 'whoever')
)
PET_WORDS = PET_PARTS | frozenset(
    (
        *('able', 'asked', 'each', 'found', 'known', 'left', 'looked_at', 'made'),
        *('named', 'others', 'rest', 'shown', 'taken', 'theirs', 'there', 'wanted'),
        'whole',
    )
)
# Name -> why it stays.
EXCEPTIONS = {
    'kept_responses': 'a key of the configuration, which saved runs have',
}
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
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            if node.name:
                yield node.name, node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((x.asname, node.lineno) for x in node.names if x.asname)


def pet_names(path: str, tree: ast.AST) -> list[tuple[str, int]]:
    """The module's name and those that it binds, if they are pet words or have parts.

    ``left`` is a side where the module binds ``right`` too.
    """
    names = [(pathlib.Path(path).stem, 1), *bound_names(tree)]
    sides = {'left'} if 'right' in {name.lower() for name, _ in names} else set()
    return [
        (name, line)
        for name, line in names
        if is_pet(name) and name.lower() not in sides and name not in EXCEPTIONS
    ]


def is_pet(name: str) -> bool:
    """Whether a name is a pet word, in any case, or has one of :data:`PET_PARTS`."""
    if name.startswith('test_'):
        return False
    words = re.sub('(?<=[a-z0-9])(?=[A-Z])', '_', name).lower().strip('_')
    return words in PET_WORDS or not PET_PARTS.isdisjoint(words.split('_'))


def functions_without_verb(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions whose names begin with a preposition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name.strip('_')
            begins = name.partition('_')[0] in PREPOSITIONS and '_' in name
            if begins and not ALLOWED_FUNCTIONS.fullmatch(name):
                yield node.name, node.lineno


def modules(*folders: str) -> dict[str, ast.Module]:
    """The modules of folders by their path."""
    paths = sorted(path for x in folders for path in (ROOT / x).rglob('*.py'))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def main() -> None:
    """Prints both lists, and how often each pet word is a name."""
    counts: collections.Counter[str] = collections.Counter()
    for path, tree in modules(*FOLDERS).items():
        for name, line in pet_names(path, tree):
            print(f'{path}:{line} {name}')
            counts[name.strip('_').lower()] += 1
    for path, tree in modules('passk_jax').items():
        for name, line in functions_without_verb(tree):
            print(f'{path}:{line} {name}: no verb')
    print(dict(counts.most_common()))


if __name__ == '__main__':
    main()
