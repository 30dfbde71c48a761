"""Names say what they hold: tests/names.py has the words and reports the places."""

import ast

from tests import names


def test_no_name_is_a_pet_word():
    pets = [
        f'{path}:{line} {name}'
        for path, tree in names.modules(*names.FOLDERS).items()
        for name, line in names.pet_names(path, tree)
    ]
    assert not pets


def test_every_exception_is_a_name_that_would_be_refused():
    bound = {
        name
        for tree in names.modules(*names.FOLDERS).values()
        for name, _ in names.bound_names(tree)
    }
    assert bound >= names.EXCEPTIONS.keys()
    assert all(map(names.is_pet, names.EXCEPTIONS))


def test_functions_begin_with_verbs():
    without = {
        f'{path}:{line}': name
        for path, tree in names.modules('passk_jax').items()
        for name, line in names.functions_without_verb(tree)
    }
    assert not without


def test_the_report_sees_every_kind_of_binding():
    source = """
import numpy as known

def of_runs(each, *, found=None):
    try:
        for rest, mine in each:
            self._kept = [told for told in rest]
    except ValueError as theirs:
        match theirs:
            case [shown, *others] as whole:
                pass
    return from_runs(mine)
"""
    tree = ast.parse(source)
    pets = [name for name, _ in names.pet_names('a/named.py', tree)]
    assert sorted(pets) == [
        *('_kept', 'each', 'found', 'known', 'mine', 'named', 'others', 'rest'),
        *('shown', 'theirs', 'told', 'whole'),
    ]
    assert [name for name, _ in names.functions_without_verb(tree)] == ['of_runs']


def test_parts_and_cases_count_and_sentences_and_sides_do_not():
    for name in (
        'own_problems',
        'KeptResults',
        '_OWN',
        'is_own',
        'held_bytes',
        'WHOLE',
    ):
        assert names.is_pet(name)
    for name in ('owner', 'download', 'known_names', 'test_what_is_kept_stays'):
        assert not names.is_pet(name)
    assert names.pet_names('a.py', ast.parse('left, right = 1, 2')) == []
    assert names.pet_names('a.py', ast.parse('left = 1')) == [('left', 1)]
