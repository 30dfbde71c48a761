"""Records and pictures as MathVision and MMMU have them, of our own."""

import json
import pathlib

import PIL.Image

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


def write_pictures(directory: pathlib.Path) -> None:
    """Writes three pictures, ``1.png`` to ``3.png``, of unequal sizes."""
    directory.mkdir(exist_ok=True)
    for number, color in enumerate(('red', 'green', 'blue'), 1):
        size = 8 * number, 8
        PIL.Image.new('RGB', size, color).save(directory / f'{number}.png')
