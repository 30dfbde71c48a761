"""Names say what they hold: tests/names.py has the words and reports the places."""

import ast

from tests import names

MOST_PET_WORDS = 0.003


def test_bound_names_are_hardly_ever_pet_words():
    bound = [
        (name, f'{path}:{line}')
        for path, tree in names.modules().items()
        for name, line in names.bound_names(tree)
    ]
    pets = [f'{place} {name}' for name, place in bound if names.is_pet(name)]
    assert len(pets) <= MOST_PET_WORDS * len(bound), pets


def test_functions_begin_with_verbs():
    without = {
        f'{path}:{line}': name
        for path, tree in names.modules().items()
        for name, line in names.functions_without_verb(tree)
    }
    assert not without


def test_the_report_sees_every_kind_of_binding():
    source = """
def of_runs(each, *, found=None):
    for rest, mine in each:
        self._kept = [told for told in rest]
    return from_runs(mine)
"""
    tree = ast.parse(source)
    pets = [name for name, _ in names.bound_names(tree) if names.is_pet(name)]
    assert sorted(pets) == ['_kept', 'each', 'found', 'mine', 'rest', 'told']
    assert [name for name, _ in names.functions_without_verb(tree)] == ['of_runs']
