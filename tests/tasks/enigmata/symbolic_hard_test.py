import json

import pytest

from passk_jax.tasks.arc.task import ArcTask
from passk_jax.tasks.enigmata import files
from passk_jax.tasks.enigmata.symbolic_hard import SYMBOLIC_HARD
from tests.tasks.enigmata.judge import error_of

_TASK = {
    'train': [{'input': [[0, 1]], 'output': [[1], [0]]}],
    'test': [
        {'input': [[2, 3]], 'output': [[3], [2]]},
        {'input': [[4]], 'output': [[4]]},
    ],
}
_DATA = {'question': '?', 'answer': '3 0\n2 1'}


@pytest.mark.parametrize(
    ('name', 'level'), [('training', 'easy'), ('evaluation', 'hard')]
)
def test_each_test_of_a_task_is_a_problem(tmp_path, name, level):
    folder = tmp_path / name
    folder.mkdir()
    (folder / 'a1.json').write_text(json.dumps(_TASK))
    first, second = SYMBOLIC_HARD.problems(folder)
    example = 'Input:\n0 1\nOutput:\n1\n0\n\n'
    examples = first.group
    assert first.data == {
        'question': f'{example}Input:\n2 3\nOutput:',
        'examples': examples,
        'answer': '3\n2',
    }
    question = f'{example}Input:\n4\nOutput:'
    assert second.data == {'question': question, 'examples': examples, 'answer': '4'}
    assert second.group == examples
    # The task arc has these problems too.
    arc = ArcTask.parse_problem(_TASK | {'test_index': 1})
    assert SYMBOLIC_HARD.content_hash(second.data) == ArcTask.content_hash(arc)
    record = {'meta': {'question': question}, 'answer': '4'}
    assert SYMBOLIC_HARD.content_hash(SYMBOLIC_HARD.read(record)) == examples
    assert (first.level, second.level) == (level, level)


@pytest.mark.parametrize(
    ('question', 'same'),
    [
        ('input: [[0, 1]] output: [[1], [0]]\ninput: [[4]] output:', True),
        ('[[0,1]]->[[1],\n [0]], [[4]]->', True),
        ('Example 1\n0,1\nto\n1\n0\n\nNow\n4 4', True),
        ('[[0, 1]] [[1], [1]] [[4]]', False),
        # No examples, an output without its input, rows of two widths.
        ('[[4]]', False),
        ('[[0, 1]] [[1], [0]]', False),
        ('[[0, 1]] [[1], [0, 0]] [[4]]', False),
        ('?', False),
    ],
)
def test_a_record_in_any_words_has_the_hash_of_its_examples(question, same):
    record = {'meta': {'question': question}, 'answer': '4'}
    data = SYMBOLIC_HARD.read(record)
    arc = ArcTask.content_hash(ArcTask.parse_problem(_TASK | {'test_index': 0}))
    assert (SYMBOLIC_HARD.content_hash(data) == arc) == same


def test_records_without_examples_differ_in_their_texts():
    hashes = {
        SYMBOLIC_HARD.content_hash({'question': question, 'answer': '4'})
        for question in ('?', '!', '[[4]]', '[[5]]')
    }
    assert len(hashes) == 4


def test_every_task_of_arc_has_one_hash_as_a_record(shared_dir):
    path = shared_dir / 'data/arc_agi_1/evaluation.json'
    tasks = json.loads(path.read_text())
    assert len(tasks) == 400
    for task in tasks.values():
        pairs = [*task['train'], {'input': task['test'][0]['input'], 'output': ''}]
        question = '\n'.join(f'{p["input"]} -> {p["output"]}' for p in pairs)
        arc = ArcTask.parse_problem(task | {'test_index': 0})
        record = {'meta': {'question': question}, 'answer': task['test'][0]['output']}
        digest = SYMBOLIC_HARD.content_hash(SYMBOLIC_HARD.read(record))
        assert digest == ArcTask.content_hash(arc)


_CELLS = 'not one comma between two cells'


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('3 0\n2 1', None, None),
        ('  3\t0 \n\n2  1', None, None),
        ('3,0\n\n2 , 1', None, None),
        ('[[3, 0], [2, 1]]', None, None),
        ('[[3,0],\n [2,1]]', None, None),
        ('3 0\n02 001', "'02' is not a digit", None),
        ('3 00\n2 10', "'00' is not a digit", "'10' is not a digit"),
        ('[[3, 00], [2, 1]]', *['no list of lists of digits'] * 2),
        ('3 0\n2,1', None, _CELLS),
        ('3,0,\n2,1', None, _CELLS),
        ('3 0\n2 2', 'another grid', 'another grid'),
        ('3 0', 'another grid', 'another grid'),
        ('[[3, 0], [2, 1]][:]', *['no list of lists of digits'] * 2),
        ('eval("[[3]]")', *["'eval(\"[[3]]\")' is not a digit"] * 2),
    ],
)  # fmt: skip
def test_the_whole_grid_is_right_in_any_form(answer, error, official):
    assert error_of(SYMBOLIC_HARD, _DATA, answer) == error
    assert error_of(SYMBOLIC_HARD, _DATA, answer, official=True) == official


def test_a_block_stands_on_lines_of_its_own():
    for official in (False, True):
        response = '```[[3, 0], [2, 1]]```'
        verdict = SYMBOLIC_HARD.verdict(_DATA, response, official=official)
        assert verdict.error == 'no answer'


@pytest.mark.parametrize('answer', [[[3, 0], [2, 1]], '3 0\n2 1', '[[3, 0], [2, 1]]'])
def test_a_record_of_enigmata_has_a_grid_or_its_text(answer):
    record = {'meta': {'question': '?'}, 'answer': answer}
    assert SYMBOLIC_HARD.read(record) == _DATA
    for bad in ([[3.5]], 'x', None, ''):
        with pytest.raises(ValueError, match=r'not|must'):
            SYMBOLIC_HARD.read(record | {'answer': bad})


def test_the_evaluation_tasks_of_arc_are_the_test_split(shared_dir, tmp_path):
    # One file of all tasks serves as well as their folder.
    (tmp_path / 'arc_agi_1').mkdir()
    for name in ('training', 'evaluation'):
        link = tmp_path / 'arc_agi_1' / name
        link.symlink_to(shared_dir / 'data/arc_agi_1' / f'{name}.json')
    by_split = files.read_splits(
        SYMBOLIC_HARD,
        levels=('easy', 'hard'),
        counts=dict.fromkeys(('train', 'validation', 'test'), 500),
        data_dir=str(tmp_path),
    )
    assert len(by_split['test']) == 419
    # One training task has the examples of an evaluation task.
    assert len(by_split['train']) + len(by_split['validation']) == 415
    examples = {
        split: {data['question'].rpartition('Input:')[0] for data in problems}
        for split, problems in by_split.items()
    }
    assert not examples['train'] & examples['validation']
    assert not examples['test'] & (examples['train'] | examples['validation'])
