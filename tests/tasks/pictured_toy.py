"""Records and pictures as MathVision and MMMU have them, of our own."""

import json
import pathlib

import PIL.Image
import pyarrow
from pyarrow import parquet

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
    records = [
        record | {'question': f'{record["question"]} {i or ""}'}
        for i in range(copies)
        for record in (CHOICE, OPEN)
    ]
    text = ''.join(json.dumps(record) + '\n' for record in [*records, *more])
    (directory / 'records.jsonl').write_text(text)


def write_pictures(directory: pathlib.Path) -> None:
    """Writes three pictures, ``1.png`` to ``3.png``, of unequal sizes."""
    directory.mkdir(exist_ok=True)
    for number, color in enumerate(('red', 'green', 'blue'), 1):
        size = 8 * number, 8
        PIL.Image.new('RGB', size, color).save(directory / f'{number}.png')


def write_benchmarks(directory: pathlib.Path) -> None:
    """Writes two problems of each benchmark as a clone and the hub lay them out."""
    clone, subject = directory / 'mathvision', directory / 'mmmu' / 'Counting'
    for folder in (clone / 'data', subject):
        folder.mkdir(parents=True)
    write_pictures(clone / 'images')
    picture = {'bytes': (clone / 'images' / '2.png').read_bytes(), 'path': '2.png'}
    rows = [record | {'image': 'images/1.png'} for record in (CHOICE, OPEN)]
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    (clone / 'data' / 'test.jsonl').write_text(text)
    rows = [
        record
        | {
            'id': f'validation_Counting_{number}',
            'question': f'{record["question"]} <image 1>',
            'options': str(record['options']),
            'question_type': 'multiple-choice' if record['options'] else 'open',
            'image_1': picture,
            'image_2': None,
        }
        for number, record in enumerate((CHOICE, OPEN), 1)
    ]
    file = subject / 'validation-00000-of-00001.parquet'
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
