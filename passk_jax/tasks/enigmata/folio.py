"""FOLIO: whether a conclusion follows from premises, in English (arXiv:2209.00840)."""

from passk_jax.tasks import records
from passk_jax.tasks.enigmata.files import FileProblem, FilePuzzle
from passk_jax.tasks.enigmata.puzzle import LEVELS, OneAnswer, read_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong

# FOLIO's labels -> Enigmata's.
_LABELS = {
    'True': 'True',
    'False': 'False',
    'Unknown': 'Unknown',
    'Uncertain': 'Unknown',
}


class Folio(OneAnswer, FilePuzzle):
    """FOLIO, with Enigmata's levels: at most five premises, six, or more.

    Enigmata's 1,208 problems come from both files, so a policy trained on this puzzle
    has seen most of them.

    The strict rule also reads a label in any case, in quotes, bold or a box, and
    ``Uncertain``, FOLIO's word for Unknown.
    """

    name = 'FOLIO'
    category = 'Logic'
    rules = (
        'Decide whether the conclusion follows from the premises, without any other '
        'knowledge.\n'
        'Answer: True if it follows, False if it contradicts the premises, Unknown if '
        'the premises do not settle it.'
    )
    files = ('folio/folio-train.jsonl',)
    test_files = ('folio/folio-validation.jsonl',)
    origin = (
        'take both files from data/v0.0 of https://github.com/Yale-LILY/FOLIO '
        '(CC-BY-SA-4.0)'
    )

    def usual(self, data, answer):
        return _LABELS[spellings.word(answer, _LABELS)]

    def check_official(self, data, answer):
        """Compares with the stored answer."""
        if answer != data['answer']:
            raise Wrong('not the stored answer')

    def problems(self, file):
        for _, record in records.read_lines(file):
            # Some premises are empty, but count for the level.
            stripped = [premise.strip() for premise in record['premises']]
            premises = [premise for premise in stripped if premise]
            lines = [f'{i}. {premise}' for i, premise in enumerate(premises, start=1)]
            group = '\n'.join(['Premises:', *lines])
            question = f'{group}\nConclusion: {read_text(record["conclusion"]).strip()}'
            answer = _LABELS[record['label']]
            level = LEVELS[min(max(len(stripped) - 5, 0), 2)]
            yield FileProblem(group, level, {'question': question, 'answer': answer})


FOLIO = Folio()
