import itertools
import re
from collections import Counter

import pytest

from passk_jax.tasks.enigmata.knights_and_knaves import (
    KNIGHTS_AND_KNAVES,
    LABELS,
)
from tests.tasks.enigmata.judge import drawn, error_of

# Sentence -> whether it holds, by the kinds of those whom it names, in their order.
_MEANINGS = {
    r'(\w+) is a knight': lambda a: a,
    r'(\w+) is a knave': lambda a: not a,
    r'(\w+) and (\w+) are both knights': lambda a, b: a and b,
    r'(\w+) and (\w+) are both knaves': lambda a, b: not a and not b,
    r'at least one of (\w+) and (\w+) is a knight': lambda a, b: a or b,
    r'at least one of (\w+) and (\w+) is a knave': lambda a, b: not (a and b),
    r'exactly one of (\w+) and (\w+) is a knight': lambda a, b: a != b,
    r'(\w+) and (\w+) are of the same kind': lambda a, b: a == b,
    r'if (\w+) is a knight, then (\w+) is a knight': lambda a, b: b if a else True,
    r'if (\w+) is a knight, then (\w+) is a knave': lambda a, b: not (a and b),
    r'if (\w+) is a knave, then (\w+) is a knight': lambda a, b: True if a else b,
}


def _meaning(sentence):
    matches = {
        form: re.fullmatch(rf'{form}\.', sentence, re.IGNORECASE) for form in _MEANINGS
    }
    (form,) = [form for form, match in matches.items() if match]
    return lambda kinds: _MEANINGS[form](
        *(kinds[name] for name in matches[form].groups())
    )


def _truth_values(question):
    """Whether the statement holds in each world that the inhabitants leave open."""
    first, *lines, last = question.splitlines()
    names = re.findall(r'[A-Z]\w+', first.removeprefix('The'))
    statements = []
    for line in lines:
        speaker, sentence = re.fullmatch(r'(\w+) says: "(.*)"', line).groups()
        statements.append((speaker, _meaning(sentence)))
    statement = _meaning(last.removeprefix('Statement: '))
    worlds = [
        dict(zip(names, kinds, strict=True))
        for kinds in itertools.product((False, True), repeat=len(names))
    ]
    return [
        statement(kinds)
        for kinds in worlds
        if all(meaning(kinds) == kinds[speaker] for speaker, meaning in statements)
    ]


@pytest.mark.parametrize('level', range(3))
def test_labels_are_those_of_every_world_that_is_possible(level):
    for data in drawn(KNIGHTS_AND_KNAVES, level, count=60):
        values = _truth_values(data['question'])
        assert values
        label = 'Unknown'
        if len(set(values)) == 1:
            label = 'Entailment' if values[0] else 'Contradiction'
        assert data['answer'] == label


def test_every_form_and_label_occurs():
    problems = drawn(KNIGHTS_AND_KNAVES, 2)
    text = '\n'.join(data['question'] for data in problems).lower()
    assert all(re.search(form, text) for form in _MEANINGS)
    counts = Counter(data['answer'] for data in problems)
    assert set(counts) == set(LABELS)
    assert min(counts.values()) >= 20


def test_levels_have_their_numbers_of_inhabitants():
    for level, sizes in enumerate(({3, 4, 5}, {6, 7}, {8, 9, 10})):
        problems = drawn(KNIGHTS_AND_KNAVES, level)
        firsts = [data['question'].splitlines()[0] for data in problems]
        assert {line.count(',') + 2 for line in firsts} == sizes


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('Unknown', None, None),
        ('"Unknown"', None, None),
        ('unknown.', None, 'not the stored answer'),
        ('Un"known', 'another answer', None),
        ('Entailment', 'another answer', 'not the stored answer'),
        ('Unknown Entailment', 'another answer', 'not the stored answer'),
    ],
)
def test_one_label_is_right(answer, error, official):
    data = {'question': '?', 'answer': 'Unknown'}
    assert error_of(KNIGHTS_AND_KNAVES, data, answer) == error
    assert error_of(KNIGHTS_AND_KNAVES, data, answer, official=True) == official
