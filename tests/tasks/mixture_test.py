"""Several tasks as one: parts, weights, splits, verdicts and names of results."""

import collections
import dataclasses
import itertools

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.config import TaskConfig
from passk_jax.data.batches import make_batches, read_problems
from tests import tiny
from tests.tasks.arc import toy as arc_toy
from tests.tasks.toy import LastDigitInCharacters

MAZES = {
    'generator': 'percolation',
    'wall_probability': 0.35,
    'min_path': 1,
    'max_path': 8,
    'train_sizes': (3, 4),
    'train_counts': (12, 12),
    'validation_sizes': (4,),
    'validation_counts': (5,),
    'test_sizes': (3,),
    'test_counts': (4,),
    'seed': 0,
    'prompt': 'bare',
}
PUZZLES = {
    'puzzles': ('sudoku2', 'star_battle'),
    'levels': ('easy',),
    'train_count': 6,
    'validation_count': 0,
    'test_count': 2,
    'seed': 0,
    'prompt': 'bare',
}


def part(task, params, weight=1):
    return {'weight': weight, 'task': task, 'params': params}


PARTS = {'mazes': part('maze', MAZES, 3), 'puzzles': part('enigmata', PUZZLES, 2)}


def mixture(**parts):
    return tasks.make_task('mixture', {'parts': parts})


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    return str(tmp_path_factory.mktemp('data'))


@pytest.fixture(scope='module')
def splits(directory):
    task = mixture(**PARTS)
    return {split: task.source(split, data_dir=directory) for split in task.splits}


def categories(problems):
    return collections.Counter(problem.category for problem in problems)


def test_a_split_has_the_problems_of_all_parts_under_their_names(splits):
    puzzles = {'puzzles/sudoku2': 6, 'puzzles/star_battle': 6}
    assert categories(splits['train']) == {'mazes/3x3': 12, 'mazes/4x4': 12, **puzzles}
    # A part may have none in a split.
    assert categories(splits['validation']) == {'mazes/4x4': 5}
    for problems in splits.values():
        assert [problem.id for problem in problems] == list(range(len(problems)))


def test_a_part_that_is_named_after_its_category_has_one_name(directory):
    one = PUZZLES | {'puzzles': ('sudoku2',)}
    problems = mixture(sudoku2=part('enigmata', one)).source('test', data_dir=directory)
    assert categories(problems) == {'sudoku2': 2}


def test_an_empty_split_names_the_parts(directory):
    task = mixture(puzzles=part('enigmata', PUZZLES))
    with pytest.raises(ValueError, match=r"'validation' .* none of its parts \['puzz"):
        task.source('validation', data_dir=directory)


def test_the_error_of_a_part_without_its_files_is_not_taken_for_an_empty_split(
    tmp_path,
):
    task = mixture(puzzles=part('enigmata', PUZZLES), arc=part('arc', arc_toy.PARAMS))
    with pytest.raises(ValueError, match='of ARC-AGI-1 is absent'):
        task.source('train', data_dir=str(tmp_path))


def test_demonstrations_are_right_and_verdicts_those_of_the_parts(splits):
    task = mixture(**PARTS)
    problems = splits['train'][::5]
    solutions = [
        task.demonstration(problem, kind='solution', rng=np.random.default_rng(0))
        for problem in problems
    ]
    responses = [[solution, '', 'U'] for solution in solutions]
    verdicts = task.verify(problems, responses)
    assert verdicts.correct[:, 0].all()
    assert not verdicts.correct[:, 1].any()
    np.testing.assert_array_equal(verdicts.rewards, verdicts.correct)
    for problem, row, answers in zip(problems, responses, verdicts.parsed, strict=True):
        assert answers == [task.verdict(problem, text).parsed for text in row]
    with pytest.raises(ValueError, match='rows of equal length'):
        task.verify(problems[:2], [['a'], []])
    with pytest.raises(ValueError, match="kind 'shortest_path' is none of"):
        task.demonstration(problems[0], kind='shortest_path', rng=None)


def test_the_failures_of_a_verifier_are_those_of_its_part_alone(splits, monkeypatch):
    task = mixture(**PARTS)
    verify_puzzles = task.parts['puzzles'].verify

    def failing(problems, responses):
        verdicts = verify_puzzles(problems, responses)
        failed = {'timeouts': np.ones_like(verdicts.correct)}
        return dataclasses.replace(verdicts, failures=failed)

    monkeypatch.setattr(
        type(task.parts['puzzles']), 'verify', lambda _, *a: failing(*a)
    )
    problems = splits['test']
    verdicts = task.verify(problems, [['U', 'D']] * len(problems))
    of_puzzles = [p.category.startswith('puzzles/') for p in problems]
    assert verdicts.failures['timeouts'].tolist() == [[x, x] for x in of_puzzles]
    assert any(of_puzzles)
    assert not all(of_puzzles)


def test_a_problem_of_two_tasks_lies_in_one_split_and_in_one_part(tmp_path, caplog):
    """Enigmata's symbolic_hard has the tasks of ARC."""
    arc_toy.write(tmp_path, training=6, evaluation=2)
    # One part evaluates on the problems that the other trains on.
    arc_toy.write_folders(tmp_path, training='evaluation', evaluation='training')
    symbolic = PUZZLES | {
        'puzzles': ('symbolic_hard',),
        'levels': ('easy', 'hard'),
        'train_count': 50,
        'test_count': 50,
    }
    parts = {
        # Other prompts make no other problems.
        'arc': part('arc', arc_toy.PARAMS | {'prompt': 'instruct'}),
        'symbolic_hard': part('enigmata', symbolic),
        'mazes': part('maze', MAZES),
    }
    task = mixture(**parts)
    test = task.source('test', data_dir=str(tmp_path))
    assert categories(test) == {
        'arc/evaluation': 3,
        'symbolic_hard': 7,
        'mazes/3x3': 4,
    }
    train = task.source('train', data_dir=str(tmp_path))
    assert set(categories(train)) == {'mazes/3x3', 'mazes/4x4'}
    assert 'arc lacks 7 of 7 train problems' in caplog.text
    both = mixture(arc=parts['arc'], again=part('arc', arc_toy.PARAMS))
    problems = both.source('train', data_dir=str(tmp_path))
    assert categories(problems) == {'arc/training': 7}


def test_levels_with_weights_of_their_own_share_no_problem(directory):
    """Two parts of one puzzle may generate the same problem for two splits."""
    levels = {
        f'seed{seed}': part('enigmata', PUZZLES | {'seed': seed, 'train_count': 40})
        for seed in range(2)
    }
    task = mixture(**levels)
    hashes = [
        {task.content_hash(p) for p in task.source(split, data_dir=directory)}
        for split in ('train', 'test')
    ]
    assert not hashes[0] & hashes[1]


def test_training_draws_by_the_weights_of_the_parts(splits):
    task = mixture(**PARTS)
    problems = read_problems(
        splits['train'],
        lambda problem: list(problem.prompt.encode()),
        max_prompt_tokens=500,
        overlong='error',
    )
    weights = tasks.weights_of(task)
    batches = make_batches(problems, num_prompts=4, seed=(0, 2), weights=weights)
    drawn = itertools.chain(*(batches[step][0] for step in range(50)))
    shares = collections.Counter(p.category.partition('/')[0] for p in drawn)
    assert shares == {'mazes': 3 * 40, 'puzzles': 2 * 40}


def test_a_record_names_its_task():
    task = tasks.task_class('mixture')
    problem = task.parse_problem({'task': 'maze', 'problem': 'SE'})
    assert task.verdict(problem, 'R').correct
    assert not task.verdict(problem, 'L').correct
    for record in ('SE', {'task': 'maze'}, {'task': 'mixture', 'problem': 1}):
        with pytest.raises(ValueError, match='field'):
            task.parse_problem(record)


def test_drawings_are_those_of_the_parts(splits):
    draw = tasks.drawing_of('mixture')
    maze = splits['test'][0]
    assert draw(maze.data, 'U', correct=False).startswith('<svg')
    assert draw(splits['test'][-1].data, 'U', correct=False).startswith('<svg')
    with pytest.raises(ValueError, match="'math' draws nothing"):
        draw({'task': 'math', 'data': {}}, 'U', correct=False)


def test_characters_and_groups_are_those_of_the_parts(monkeypatch):
    task = mixture(**PARTS)
    assert set(task.alphabet) == set(task.parts['puzzles'].alphabet)
    assert len(set(task.alphabet)) == len(task.alphabet)
    assert task.groups['puzzles/sudoku2'] == 'puzzles/Grid'
    math = {'train_files': (), 'validation_files': (), 'test_files': ()}
    math |= {'problem_field': 'p', 'answer_field': 'a', 'id_fields': ()}
    with pytest.raises(ValueError, match=r"Alphabet, which task 'math' lacks"):
        _ = mixture(**PARTS, math=part('math', math)).alphabet
    with pytest.raises(ValueError, match=r"Demonstrations, which task 'math' lacks"):
        _ = mixture(**PARTS, math=part('math', math)).demonstrations


@pytest.mark.parametrize(
    ('parts', 'message'),
    [
        ({}, 'parts is empty'),
        ({'a': part('maze', MAZES, 0)}, r'parts\.a\.weight=0 must lie in \[1, 1000\]'),
        ({'a': part('maze', MAZES, -2)}, r'parts\.a\.weight=-2 must lie'),
        ({'a': part('maze', MAZES, 0.5)}, r'parts\.a\.weight=0\.5 must be of type int'),
        ({'a': part('mazes', MAZES)}, "'mazes' is none of"),
        ({'a': part('mixture', {'parts': PARTS})}, 'parts are not mixtures'),
        ({'a': {'task': 'maze', 'params': MAZES}}, r"missing keys .*parts\.a\.weight'"),
        ({'a': part('maze', MAZES) | {'level': 1}}, r'unknown key .*parts\.a\.level'),
        (
            {'a': part('maze', MAZES | {'size': 1})},
            r'unknown key task\.params\.parts\.a\.params\.size',
        ),
        ({'a': 3}, r'parts\.a=3 must be a section'),
        ({'a/b': part('maze', MAZES)}, 'without / and dots'),
        (
            {'a': part('maze', MAZES), 'b': part('maze', dict(MAZES), 2)},
            r"parts\.b is the same task with the same parameters as part 'a'",
        ),
    ],
)
def test_what_is_no_mixture_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        mixture(**parts)


def test_a_part_whose_answers_are_too_long_is_named():
    with pytest.raises(ValueError, match="part 'mazes': max_response_tokens=3 is too"):
        mixture(**PARTS).check_answerable(3)


def test_a_mixture_is_trained_on_and_measured_by_part(tmp_path, monkeypatch):
    place = 'tests.tasks.mixture_test:{}'
    for name in ('Ones', 'Twos'):
        monkeypatch.setitem(tasks.TASKS, name.lower(), place.format(name))
    parts = {'ones': part('ones', {}, 3), 'twos': part('twos', {}, 1)}
    config = tiny.make_config(
        init__kind='scratch', train__steps=3, eval__split='test', eval__final_split=''
    )
    config = dataclasses.replace(config, task=TaskConfig('mixture', {'parts': parts}))
    assert tiny.run(config, tmp_path)
    rows = tiny.metrics(tmp_path, 'train')
    for row in rows:
        assert (row['ones/problems'], row['twos/problems']) == (6, 2)
        for name in ('reward', 'pass_at_1', 'pass_at_2'):
            mean = (6 * row[f'ones/{name}'] + 2 * row[f'twos/{name}']) / 8
            assert mean == pytest.approx(row[name])
        by_category = [row.get(f'ones/{x}/problems', 0) for x in ('odd', 'even')]
        assert sum(by_category) == 6
    assert any(row['ones/reward'] != row['twos/reward'] for row in rows)
    for row in tiny.metrics(tmp_path, 'test'):
        assert {'ones/pass_at_1', 'twos/odd/pass_at_4'} <= row.keys()


class Ones(LastDigitInCharacters):
    """The toy."""

    name = 'ones'


class Twos(LastDigitInCharacters):
    """The toy with other prompts, its numbers being larger by two octal digits."""

    name = 'twos'

    def source(self, split, *, data_dir):
        numbers = {'train': range(64, 72), 'test': range(72, 80)}[split]
        problems = [self.parse_problem(f'{number:09o}') for number in numbers]
        return [dataclasses.replace(p, id=i) for i, p in enumerate(problems)]
