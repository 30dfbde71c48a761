import gzip
import json
import re

import numpy as np
import PIL.Image
import pytest

from passk_jax import tasks
from passk_jax.errors import InputError
from passk_jax.tasks.task import EmptySplitError
from passk_jax.types import Turn, Verdict
from tests.tasks import records_toy


def make(**changes) -> tasks.Task:
    return tasks.make_task('records', records_toy.PARAMS | changes)


@pytest.fixture
def source(tmp_path):
    records_toy.write(tmp_path)
    return lambda split, **changes: make(**changes).source(
        split, data_dir=str(tmp_path)
    )


def test_a_record_has_a_prompt_and_any_other_fields(source):
    problems = source('train')
    assert [problem.id for problem in problems] == [*range(6)]
    assert problems[3].prompt == 'Say 3.'
    assert problems[3].data['record'] == records_toy.RECORDS['train'][3]
    assert {problem.category for problem in problems} == {'records_train'}
    assert json.loads(json.dumps(dict(problems[0].data))) == problems[0].data


def test_a_prompt_may_be_the_turns_of_a_chat(source, tmp_path):
    turns = [
        {'role': 'system', 'content': 'Be brief.'},
        {'role': 'user', 'content': 'Say 6.'},
    ]
    records_toy.write(tmp_path, validation=[{'chat': turns, 'answer': '6'}])
    params = {'prompt_field': 'chat', 'train_files': (), 'test_files': ()}
    (problem,) = source('validation', **params)
    assert (problem.prompt, problem.turns) == ('Say 6.', (Turn('system', 'Be brief.'),))


def test_rewards_are_numbers_and_verdicts_have_a_threshold(source):
    problems = source('train')[:2]
    responses = [['0', '0.', 'x'], ['1', '', '0']]
    verdicts = make().verify(problems, responses)
    np.testing.assert_array_equal(verdicts.rewards, [[1, 0.5, 0], [1, 1, 0]])
    np.testing.assert_array_equal(verdicts.correct, verdicts.rewards == 1)
    assert not any(failed.any() for failed in verdicts.failures.values())
    lower = make(threshold=0.5).verify(problems, responses)
    np.testing.assert_array_equal(lower.correct, verdicts.rewards >= 0.5)
    np.testing.assert_array_equal(lower.rewards, verdicts.rewards)
    assert {*verdicts.failures} == {'timeouts', 'crashes', 'parse_failures'}


def test_answers_that_the_function_returns_are_those_of_the_verdicts(source, tmp_path):
    (tmp_path / 'read.py').write_text('def f(r, _): return r == "b", r.strip()')
    place = f'{tmp_path}/read.py:f'
    task, problems = make(reward=place), source('train', reward=place)[:2]
    verdicts = task.verify(problems, [['a', ' b', ''], ['b', 'a', 'c ']])
    assert verdicts.parsed == [['a', 'b', ''], ['b', 'a', 'c']]
    assert verdicts.correct.tolist() == [[False] * 3, [True, False, False]]
    assert task.verdict(problems[0], ' b') == Verdict(False, 'b', 'reward 0')


def test_what_a_table_has_besides_text_arrives_as_text(tmp_path):
    import datetime

    import pyarrow
    from pyarrow import parquet

    rows = [{'prompt': 'Say 1.', 'day': datetime.date(2026, 1, 2), 'answer': '1'}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / 'a.parquet')
    files = {'train_files': ('a.parquet',), 'validation_files': (), 'test_files': ()}
    (problem,) = make(**files).source('train', data_dir=str(tmp_path))
    assert problem.data['record']['day'] == '2026-01-02'
    assert make(**files).verify([problem], [['1']]).correct.all()


def picture(path):
    PIL.Image.new('RGB', (4, 4), 'red').save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    'record',
    [
        {'prompt': '<image> a', 'image': 'one.png'},
        {'prompt': '<image> a', 'images': ['one.png']},
        {'prompt': '<image> a', 'image': None, 'images': '["one.png"]'},
        {'prompt': [{'role': 'user', 'content': '<image> a'}], 'images': ['one.png']},
        {
            'prompt': [
                {
                    'role': 'user',
                    'content': [{'type': 'image'}, {'type': 'text', 'text': ' a'}],
                }
            ],
            'images': ['one.png'],
        },
        {
            'prompt': [
                {
                    'role': 'user',
                    'content': [
                        {'type': 'image', 'image': 'one.png'},
                        {'type': 'text', 'text': ' a'},
                    ],
                }
            ]
        },
    ],
)
def test_a_record_has_pictures_in_its_fields_or_in_its_chat(record, source, tmp_path):
    picture(tmp_path / 'one.png')
    records_toy.write(tmp_path, train=[record | {'answer': '1'}])
    (problem,) = source('train')
    assert problem.prompt == '<image> a'
    assert problem.images == (str(tmp_path / 'one.png'),)
    assert make().verify([problem], [['1']]).correct.all()


def test_a_table_has_the_bytes_of_pictures(tmp_path):
    import pyarrow
    from pyarrow import parquet

    raw = picture(tmp_path / 'one.png')
    of_hub = {'bytes': raw, 'path': 'one.png'}
    rows = [
        {'prompt': '<image> or <image>?', 'images': [of_hub, of_hub], 'answer': '1'},
        {'prompt': 'none', 'images': [], 'answer': '1'},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / 'a.parquet')
    files = {'train_files': ('a.parquet',), 'validation_files': (), 'test_files': ()}
    with_pictures, without = make(**files).source('train', data_dir=str(tmp_path))
    assert with_pictures.images == (raw, raw)
    assert without.images == ()
    # The function gets JSON without them.
    assert with_pictures.data['record']['images'][0] == {'bytes': '', 'path': 'one.png'}


def test_chats_and_fields_mix_in_the_order_of_the_prompt(source, tmp_path):
    for name in ('a', 'b', 'c'):
        picture(tmp_path / f'{name}.png')
    content = [
        {'type': 'image'},
        {'type': 'image', 'image': 'b.png'},
        {'type': 'image'},
    ]
    turns = [{'role': 'user', 'content': [*content, {'type': 'text', 'text': '?'}]}]
    record = {'prompt': turns, 'images': ['a.png', 'c.png'], 'answer': '1'}
    records_toy.write(tmp_path, train=[record])
    (problem,) = source('train')
    assert [image[-5] for image in problem.images] == ['a', 'b', 'c']


def test_a_text_with_another_picture_is_another_problem(source, tmp_path):
    for name, color in (('a', 'red'), ('b', 'blue')):
        PIL.Image.new('RGB', (4, 4), color).save(tmp_path / f'{name}.png')
    rows = [{'prompt': '<image>?', 'image': f'{x}.png', 'answer': '1'} for x in 'ab']
    records_toy.write(tmp_path, train=rows[:1], test=rows[1:])
    assert len(source('train')) == 1
    records_toy.write(tmp_path, train=rows, test=rows[1:])
    with pytest.raises(InputError, match='1 problems lie in two splits'):
        source('train')


@pytest.mark.parametrize(
    ('record', 'words'),
    [
        ({'prompt': '<image>?', 'image': 'b.png'}, "picture 'b.png' is absent"),
        (
            {'prompt': '?', 'image': 'a.png'},
            'it has 1 pictures, and its prompt 0 places',
        ),
        ({'prompt': '<image>?', 'image': None}, 'it has 0 pictures, .* 1 places'),
        ({'prompt': '<image><image>?', 'images': ['a.png']}, 'has 1 pictures, .* 2 pl'),
        (
            {
                'prompt': [
                    {'role': 'user', 'content': '<image>'},
                    {'role': 'assistant', 'content': 'Yes.'},
                    {'role': 'user', 'content': '<image>?'},
                ],
                'image': 'a.png',
            },
            "'<image>' stands in a turn before the last one",
        ),
        (
            {
                'prompt': [
                    {
                        'role': 'user',
                        'content': [
                            {'type': 'image', 'image': 'a.png'},
                            {'type': 'text', 'text': '<image>?'},
                        ],
                    }
                ],
                'image': 'a.png',
            },
            'it has 2 pictures, and its prompt 2 places',
        ),
    ],
)
def test_pictures_and_places_of_a_record_match(record, words, source, tmp_path):
    picture(tmp_path / 'a.png')
    records_toy.write(tmp_path, train=[record | {'answer': '1'}])
    with pytest.raises(InputError, match=f'records_train.jsonl: line 1: .*{words}'):
        source('train')


def test_files_may_be_packed_and_several(tmp_path):
    for name in ('a', 'b'):
        text = json.dumps({'prompt': f'Say {name}.', 'answer': name})
        (tmp_path / f'{name}.jsonl.gz').write_bytes(
            gzip.compress(text.encode(), mtime=0)
        )
    files = ('a.jsonl.gz', 'b.jsonl.gz')
    task = make(train_files=files, validation_files=(), test_files=())
    problems = task.source('train', data_dir=str(tmp_path))
    assert [(p.id, p.prompt) for p in problems] == [(0, 'Say a.'), (1, 'Say b.')]


@pytest.mark.parametrize(
    ('records', 'message'),
    [
        (
            {'train': [{'text': 'a'}]},
            "records_train.jsonl: line 1: no field 'prompt'; have",
        ),
        (
            {'train': [{'prompt': ' '}]},
            "line 1: field 'prompt' must be text that is not",
        ),
        ({'train': [1]}, 'records_train.jsonl'),
        ({'train': records_toy.RECORDS['test']}, '2 problems lie in two splits'),
    ],
)
def test_what_is_wrong_with_the_records_is_named(records, message, tmp_path):
    records_toy.write(tmp_path, **records)
    with pytest.raises(InputError, match=re.escape(message)):
        make().source('test', data_dir=str(tmp_path))


def test_prompts_that_repeat_are_counted_in_a_warning(tmp_path, caplog):
    twice = [*records_toy.RECORDS['train'], *records_toy.RECORDS['train']]
    records_toy.write(tmp_path, train=twice)
    assert len(make().source('train', data_dir=str(tmp_path))) == len(twice)
    count = len(records_toy.RECORDS['train'])
    assert f"'train': {count} of {2 * count} prompts repeat" in caplog.text
    caplog.clear()
    make().source('test', data_dir=str(tmp_path))
    assert 'repeat' not in caplog.text


def test_a_file_without_a_name_is_refused_before_any_is_read():
    with pytest.raises(InputError, match=r"test_files=\('',\): a name is empty"):
        make(test_files=('',))


def test_a_split_without_files_is_empty(source):
    with pytest.raises(EmptySplitError, match=r'test_files=\(\)'):
        source('test', test_files=())


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'reward': 'reward'}, "'reward' must be file.py:name"),
        ({'reward': ''}, "'' must be file.py:name"),
        ({'reward': 'absent.py:reward'}, 'absent.py: no such file'),
        ({'reward': f'{records_toy.__file__}:rewards'}, 'defines no rewards; it has'),
        ({'deadline_s': 0.0}, 'task.params.deadline_s=0.0 must be positive'),
        ({'memory_mib': 0}, 'task.params.memory_mib=0 must lie in'),
        ({'threshold': 'x'}, "task.params.threshold='x' must be of type float"),
        ({'prompt_field': ''}, "task.params.prompt_field='' must not be empty"),
    ],
)
def test_a_wrong_parameter_is_named_before_anything_is_read(changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make(**changes)


def test_a_reward_is_called_before_a_run_begins(source, tmp_path):
    (tmp_path / 'bad.py').write_text('def reward(response, record):\n    return "no"')
    with pytest.raises(InputError, match=r"bad.py, line 1 \(reward\) returned 'no'"):
        source('train', reward=f'{tmp_path}/bad.py:reward')


def test_responses_made_elsewhere_are_judged_too(source):
    data = source('train')[1].data
    task = tasks.task_class('records')
    problem = task.parse_problem(json.loads(json.dumps(dict(data))))
    assert task.verdict(problem, '1').correct
    verdict = task.verdict(problem, '11')
    assert (verdict.correct, verdict.error) == (False, 'reward 0.5')
    with pytest.raises(InputError, match='give an object with the fields'):
        task.parse_problem({'record': {}})
    with pytest.raises(InputError, match='field record must be an object'):
        task.parse_problem(dict(data) | {'record': 'x'})


def test_a_part_of_a_mixture_may_be_records(tmp_path):
    records_toy.write(tmp_path)
    part = {'weight': 1, 'task': 'records', 'params': records_toy.PARAMS}
    maze = tasks.task_class('maze').about.example
    mixture = tasks.make_task(
        'mixture',
        {
            'parts': {
                'mine': part,
                'mazes': {'weight': 1, 'task': 'maze', 'params': maze},
            }
        },
    )
    problems = mixture.source('train', data_dir=str(tmp_path))
    chosen = [p for p in problems if p.category.startswith('mine')][:1]
    verdicts = mixture.verify(chosen, [['0', '00']])
    np.testing.assert_array_equal(verdicts.rewards, [[1.0, 0.5]])
