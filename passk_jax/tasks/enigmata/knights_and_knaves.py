"""Knights and knaves: whether what the inhabitants say settles a statement.

A sentence is a truth table: an integer whose bit ``w`` tells whether the sentence holds
in world ``w``, in which inhabitant ``i`` is a knight if bit ``i`` of ``w`` is 1. So a
problem's label is proven, world by world.
"""

import functools
from collections.abc import Callable, Sequence

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import OneAnswer, Puzzle
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong

LABELS = ('Entailment', 'Contradiction', 'Unknown')

# For each level, minimum and maximum of inhabitants. Enigmata's easy puzzles may have
# two.
_SIZES = ((3, 5), (6, 7), (8, 10))
# One of so many inhabitants is silent, on average.
_SILENT = 5
# Statements to try before the island is drawn again.
_TRIES = 30

_NAMES = (
    *('Ada', 'Ben', 'Clara', 'David', 'Emma', 'Felix', 'Greta', 'Hugo', 'Ida', 'Jonas'),
    *('Kira', 'Leo', 'Mona', 'Nils', 'Olga', 'Paul', 'Rosa', 'Sam', 'Tilda', 'Victor'),
)
# Statements about two inhabitants, and their truth tables from those of "a is a knight"
# and "b is a knight".
_FORMS: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ('{} is a knight', lambda a, b: a),
    ('{} is a knave', lambda a, b: ~a),
    ('{} and {} are both knights', lambda a, b: a & b),
    ('{} and {} are both knaves', lambda a, b: ~(a | b)),
    ('at least one of {} and {} is a knight', lambda a, b: a | b),
    ('at least one of {} and {} is a knave', lambda a, b: ~(a & b)),
    ('exactly one of {} and {} is a knight', lambda a, b: a ^ b),
    ('{} and {} are of the same kind', lambda a, b: ~(a ^ b)),
    ('if {} is a knight, then {} is a knight', lambda a, b: ~a | b),
    ('if {} is a knight, then {} is a knave', lambda a, b: ~(a & b)),
    ('if {} is a knave, then {} is a knight', lambda a, b: a | b),
)


class KnightsAndKnaves(OneAnswer, Puzzle):
    """Knights and knaves; the three labels are equally frequent in generated problems.

    The strict rule also reads a label in any case, in quotes, bold or a box.
    """

    name = 'knights_and_knaves'
    category = 'Logic'
    rules = (
        'Each inhabitant of an island is either a knight or a knave. Knights always '
        'tell the truth, and knaves always lie. "If A, then B" is false only if A is '
        'true and B is false. Decide what follows from what the inhabitants say about '
        'the statement at the end.\n'
        'Answer: Entailment if the statement must be true, Contradiction if it must be '
        'false, Unknown if it may be either.'
    )

    def generate(self, draws, level):
        names = draws.sample(_NAMES, draws.between(*_SIZES[level]))
        label = draws.choice(LABELS)
        while True:
            statements, worlds = _random_island(draws, names)
            for _ in range(_TRIES):
                statement, table = _random_sentence(draws, names, range(len(names)))
                if _label(worlds, table) == label:
                    return {
                        'question': _question(names, statements, statement),
                        'answer': label,
                    }

    def usual(self, data, answer):
        return spellings.word(answer, LABELS)

    def check_official(self, data, answer):
        """Compares with the stored answer, ignoring double quotes."""
        if answer.replace('"', '') != data['answer']:
            raise Wrong('not the stored answer')


def _random_island(draws: Draws, names: Sequence[str]) -> tuple[list[str], int]:
    """Draws what the inhabitants say; returns it and the worlds that allow it."""
    count = len(names)
    tables = _knight_tables(count)
    real = draws.below(1 << count)
    worlds = (1 << (1 << count)) - 1
    statements = []
    for speaker in range(count):
        if draws.chance(1, _SILENT):
            continue
        listeners = [i for i in range(count) if i != speaker]
        sentence, table = _random_sentence(draws, names, listeners)
        # A liar's sentence is false in the real world, and a knight's is true.
        while (table >> real ^ real >> speaker) & 1:
            sentence, table = _random_sentence(draws, names, listeners)
        statements.append(f'{names[speaker]} says: "{sentence}"')
        worlds &= ~(tables[speaker] ^ table)
    return statements, worlds


def _random_sentence(
    draws: Draws, names: Sequence[str], about: Sequence[int]
) -> tuple[str, int]:
    form, combine = draws.choice(_FORMS)
    a, b = draws.sample(about, 2)
    sentence = form.format(names[a], names[b])
    tables = _knight_tables(len(names))
    return f'{sentence[0].upper()}{sentence[1:]}.', combine(tables[a], tables[b])


@functools.cache
def _knight_tables(count: int) -> tuple[int, ...]:
    """Returns the table of "is a knight" for each inhabitant."""
    worlds = range(1 << count)
    return tuple(sum(1 << w for w in worlds if w >> i & 1) for i in range(count))


def _label(worlds: int, table: int) -> str:
    if not worlds & ~table:
        return 'Entailment'
    return 'Unknown' if worlds & table else 'Contradiction'


def _question(names: Sequence[str], statements: Sequence[str], statement: str) -> str:
    inhabitants = f'{", ".join(names[:-1])} and {names[-1]}'
    return '\n'.join(
        [f'The inhabitants are {inhabitants}.', *statements, f'Statement: {statement}']
    )


KNIGHTS_AND_KNAVES = KnightsAndKnaves()
