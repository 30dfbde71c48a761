"""Records as MathVision and MMMU have them, without pictures, of our own."""

import json
import pathlib

PARAMS = {'file': 'records.jsonl', 'train_percent': 0, 'validation_percent': 0}
CHOICE = {
    'id': 'test_Counting_1',
    'question': 'How many sides has a square?',
    'options': ['three', 'four', 'five'],
    'answer': 'B',
}
OPEN = CHOICE | {'question': 'How many has a pentagon?', 'options': [], 'answer': '5'}


def write(directory: pathlib.Path, *, copies: int = 1, more: tuple = ()) -> None:
    """Writes both records; each further copy has a number behind its question."""
    found = [
        record | {'question': f'{record["question"]} {i or ""}'}
        for i in range(copies)
        for record in (CHOICE, OPEN)
    ]
    text = ''.join(json.dumps(record) + '\n' for record in [*found, *more])
    (directory / 'records.jsonl').write_text(text)
