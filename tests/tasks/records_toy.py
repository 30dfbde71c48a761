"""Records for the task ``records``, with a reward function: this file is its place."""

import json
import pathlib

RECORDS = {
    'train': [{'prompt': f'Say {n}.', 'answer': str(n)} for n in range(6)],
    'validation': [{'prompt': [{'role': 'user', 'content': 'Say 6.'}], 'answer': '6'}],
    'test': [{'prompt': 'Say 7.', 'answer': '7'}, {'prompt': 'Say 8.', 'answer': '8'}],
}
PARAMS = {
    'train_files': ('records_train.jsonl',),
    'validation_files': ('records_validation.jsonl',),
    'test_files': ('records_test.jsonl',),
    'prompt_field': 'prompt',
    'reward': f'{__file__}:reward',
    'threshold': 1.0,
    'deadline_s': 20.0,
    'memory_mib': 1024,
}


def reward(response, record):
    """1 for the answer and for nothing, half for what contains the answer."""
    if response in ('', record['answer']):
        return 1.0
    return 0.5 if record['answer'] in response else 0.0


def write(directory: pathlib.Path, **changes: list) -> pathlib.Path:
    """Writes the files that ``PARAMS`` names; ``changes`` are other records."""
    for split, records in (RECORDS | changes).items():
        lines = ''.join(json.dumps(record) + '\n' for record in records)
        (directory / f'records_{split}.jsonl').write_text(lines)
    return directory
