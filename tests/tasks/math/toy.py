"""Files of problems for the math task, written where a test wants them."""

import json
import pathlib

RECORDS = {
    'train': [
        {'problem': 'What is $1+1$?', 'answer': '2', 'id': 'sum'},
        {'problem': 'Halve one.', 'answer': r'\frac{1}{2}', 'unique_id': 'half'},
        {'problem': 'Solve $x^2=2$, $x>0$.', 'answer': r'\sqrt{2}'},
    ],
    'validation': [{'problem': 'What is $2+2$?', 'answer': 4}],
    'test': [{'problem': 'Which pair?', 'answer': '(1,2)'}],
}
PARAMS = {
    'train_files': ('math_train.jsonl',),
    'validation_files': ('math_validation.jsonl',),
    'test_files': ('math_test.jsonl',),
    'problem_field': 'problem',
    'answer_field': 'answer',
    'id_fields': ('id', 'unique_id'),
}


def write(directory: pathlib.Path, **changes: list) -> pathlib.Path:
    """Writes the files that ``PARAMS`` names; ``changes`` are other records."""
    for split, records in (RECORDS | changes).items():
        lines = ''.join(json.dumps(record) + '\n' for record in records)
        (directory / f'math_{split}.jsonl').write_text(lines)
    return directory
