"""The table of mutations fits the package, and every setting has a row or a reason."""

import ast
import dataclasses
from collections.abc import Iterator

import pytest

from passk_jax.advantages import all_parameters
from passk_jax.config import ExperimentConfig, checks
from tests.mutations import ROOT, Mutation, read_table

MUTATIONS = read_table()

# Key, or section with a dot at its end -> why it reaches no number that is computed, or
# what covers it instead of a mutation.
NO_MUTATION = {
    'name': 'a title',
    'model.source': 'a place; tests/models/hf has the numbers that are there',
    'model.tokenizer': 'a place; tests/setup/setup_test.py reads one from there',
    'model.attention': 'rounding only; tests/models/attention_kernels_test.py',
    'model.experts': 'rounding only; tests/models/grouped_products_test.py',
    'mesh.': 'rounding only; tests/train_mesh_test.py',
    'task.name': 'there is one task, and another name is an error',
    'data.dir': 'a place',
    'checkpoint.': 'what is kept of a run, not how it goes',
    'log.': 'what is shown of a run, not how it goes',
}


@pytest.mark.parametrize('mutation', MUTATIONS, ids=str)
def test_a_mutation_changes_one_line_that_is_there(mutation):
    source = (ROOT / mutation.path).read_text()
    mutated = mutation.applied(source)
    ast.parse(mutated)
    lines, other = source.splitlines(), mutated.splitlines()
    assert len(lines) == len(other)
    assert sum(a != b for a, b in zip(lines, other, strict=True)) == 1


def test_a_fragment_that_is_not_there_once_is_an_error():
    mutation = Mutation('x', 'a = 1', 'a = 2', 'a is 2', ('tests/x_test.py',))
    assert mutation.applied('a = 1\nb = 1\n') == 'a = 2\nb = 1\n'
    for source in ('b = 1', 'a = 1\na = 1'):
        with pytest.raises(ValueError, match='change its row'):
            mutation.applied(source)


def test_the_tests_of_a_mutation_are_there():
    for test in {test for mutation in MUTATIONS for test in mutation.tests}:
        file, _, name = test.partition('::')
        tree = ast.parse((ROOT / file).read_text())
        functions = {x.name for x in tree.body if isinstance(x, ast.FunctionDef)}
        assert not name or name.partition('[')[0] in functions, test


def keys(cls: type, prefix: str = '') -> Iterator[str]:
    """Every key of the configuration, those of its estimators' parameters too."""
    kinds, sections = checks.fields(cls)
    for name, kind in kinds.items():
        if dataclasses.is_dataclass(kind):
            yield from keys(kind, f'{prefix}{name}.')
        else:
            yield f'{prefix}{name}'
    if sections:
        parameters = (parameter.name for parameter in all_parameters())
        yield from (f'{prefix}{name}' for name in parameters if name not in kinds)


def test_every_setting_has_a_mutation_or_a_reason():
    """A new field needs a row in mutations.toml, and so a test that notices it."""
    settings = set(keys(ExperimentConfig))
    mutated = {field for mutation in MUTATIONS for field in mutation.fields}
    # The parameters of estimators, which one line of make.py hands on.
    mutated |= {f'advantage.{parameter.name}' for parameter in all_parameters()}
    mutated.remove('advantage.*')
    assert mutated <= settings, 'no such settings'
    sections = tuple(key for key in NO_MUTATION if key.endswith('.'))
    exempt = {key for key in settings if key in NO_MUTATION or key.startswith(sections)}
    assert len(MUTATIONS) >= 40
    missing = sorted(settings - mutated - exempt)
    assert not missing, f'{missing}: give each a mutation, or say why it needs none'
    assert not mutated & exempt, 'they have both'
