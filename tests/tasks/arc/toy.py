"""Files as ARC-AGI-1 has them: the rule adds a number to every cell."""

import json
import pathlib

PARAMS = {
    'training': 'training.json',
    'evaluation': 'evaluation.json',
    'validation_percent': 0,
    'max_characters': 0,
    'prompt': 'bare',
}


def record(number: int, *, tests: int = 1) -> dict:
    """A task with two examples; the cells of its first are the digits of a number."""

    def pair(*cells: int) -> dict:
        grid = [list(cells[:2]), list(cells[2:])]
        return {'input': grid, 'output': [[(c + 1) % 10 for c in row] for row in grid]}

    digits = [int(digit) for digit in f'{number:04}']
    return {
        'train': [pair(*digits), pair(0, 1, 2, 3)],
        'test': [pair(9, 9, index, 0) for index in range(tests)],
    }


def write_folders(directory: pathlib.Path, **folders: str) -> None:
    """Writes sets as Enigmata's ``symbolic_hard`` has them: folder=set to copy."""
    for name, source in folders.items():
        folder = directory / 'arc_agi_1' / name
        folder.mkdir(parents=True)
        for key, value in json.loads(
            (directory / f'{source}.json').read_text()
        ).items():
            (folder / f'{key}.json').write_text(json.dumps(value))


def write(directory: pathlib.Path, *, training: int = 12, evaluation: int = 3) -> None:
    """Writes sets of so many tasks; the first of each has two tests."""
    for name, numbers in (
        ('training', range(training)),
        ('evaluation', range(5000, 5000 + evaluation)),
    ):
        tasks = {
            f'{number:08x}': record(number, tests=2 - (number % 5000 > 0))
            for number in reversed(numbers)
        }
        (directory / f'{name}.json').write_text(json.dumps(tasks))
