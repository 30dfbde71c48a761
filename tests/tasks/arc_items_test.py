import json

import pytest

from passk_jax.tasks import arc_items
from tests.tasks.arc import toy


def test_a_file_and_a_folder_give_the_same_tasks(tmp_path):
    toy.write(tmp_path)
    folder = tmp_path / 'training'
    folder.mkdir()
    (folder / 'notes.txt').write_text('?')
    tasks = json.loads((tmp_path / 'training.json').read_text())
    for name, task in tasks.items():
        (folder / f'{name}.json').write_text(json.dumps(task))
    items = arc_items.read_tasks(folder)
    assert items == arc_items.read_tasks(tmp_path / 'training.json')
    assert [task.name for task in items] == [f'{i:08x}' for i in range(12)]
    assert [len(task.test) for task in items[:2]] == [2, 1]
    assert items[1].examples == (
        'Input:\n0 0\n0 1\nOutput:\n1 1\n1 2\n\nInput:\n0 1\n2 3\nOutput:\n1 2\n3 4'
    )


def test_the_hash_is_that_of_the_examples():
    def digest(record):
        return arc_items.parse_task(record, name='').content_hash

    assert digest(toy.record(1, tests=2)) == digest(toy.record(1))
    assert digest(toy.record(1)) != digest(toy.record(2))
    row = {'input': [[0, 0, 0, 1]], 'output': [[1, 1, 1, 2]]}
    square = toy.record(1)
    assert digest(square | {'train': [row, square['train'][1]]}) != digest(square)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (None, r'absent: git clone .*Apache-2\.0'),
        ('{', r'a\.json: not JSON'),
        ('[' * 100_000, r'a\.json: not JSON'),
        ('[]', 'no object of tasks by name'),
        ('{}', 'has no tasks: git clone'),
        ('{"x": []}', "a.json: task 'x': malformed record: TypeError"),
        ('{"x": {"train": []}}', "'x': malformed record: KeyError: 'test'"),
        ('{"x": {"train": [], "test": []}}', 'no examples, or no tests'),
        (
            '{"x": {"train": [{"input": [[1]], "output": 3}], "test": []}}',
            'must be a list of',
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, content, message):
    file = tmp_path / 'a.json'
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=message):
        arc_items.read_tasks(file)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match='has no tasks: git clone'):
        arc_items.read_tasks(tmp_path)
