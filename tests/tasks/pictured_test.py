"""What MathVision and MMMU share."""

import json
import random
import threading
import time

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from passk_jax import tasks
from passk_jax.tasks import options
from passk_jax.tasks.mathvision import official as mathvision_official
from tests.tasks import pictured_toy as toy
from tests.tasks.payloads import PAYLOADS


@pytest.fixture(params=['mathvision', 'mmmu'])
def name(request):
    return request.param


def test_a_split_has_the_problems_that_its_hash_names(name, tmp_path):
    toy.write(tmp_path, copies=40)
    shares = {'train_percent': 60, 'validation_percent': 20}
    task = tasks.make_task(name, toy.PARAMS | shares)
    by_split = {s: task.source(s, data_dir=str(tmp_path)) for s in task.splits}
    hashes = {s: {task.content_hash(p) for p in by_split[s]} for s in by_split}
    assert sum(map(len, hashes.values())) == len(set.union(*hashes.values())) == 80
    assert len(by_split['train']) > len(by_split['test']) > 5
    assert [p.id for p in by_split['test']] == list(range(len(by_split['test'])))


PROMPTS = {
    'mathvision': (
        'Please solve the problem step by step and put your answer in one "\\boxed{}". '
        'If it is a multiple choice question, only one letter is allowed in the '
        '"\\boxed{}".\nHow many sides has a square?\n(A) three\n(B) four\n(C) five\n'
    ),
    'mmmu': (
        'How many sides has a square?\n\n(A) three\n(B) four\n(C) five\n\n\n'
        "Answer with the option's letter from the given choices directly."
    ),
}


def test_the_prompt_is_the_official_one(name):
    task = tasks.task_class(name)
    assert task.parse_problem(toy.CHOICE).prompt == PROMPTS[name]
    choices = toy.CHOICE | {'options': [*'ABCDE'], 'question': 'Which?'}
    text = task.parse_problem(choices).prompt
    assert ('(A) A\n' in text) == (name == 'mmmu')
    text = task.parse_problem(toy.OPEN).prompt
    if name == 'mmmu':
        assert text.endswith('\n\nAnswer the question using a single word or phrase.')
    else:
        assert text.endswith('"\\boxed{}".\nHow many has a pentagon?\n')


# A record with pictures, its prompt's text around them, and what is wrong without one.
PICTURED = {
    'mathvision': (
        {'image': 'images/1.png', 'question': 'Which is <image1>?'},
        '<image>\nPlease solve',
        {'image': None},
        'the text has <image1>, and no field has a picture',
    ),
    'mmmu': (
        {
            'question': 'Which is <image 2>, not <image 1>?',
            'options': "['three', '<image 3>', '<image 1>']",
            'image_1': 'images/1.png',
            'image_2': {'bytes': None, 'path': 'images/2.png'},
            'image_3': 'images/3.png',
        },
        'Which is <image>, not <image>?\n\n(A) three\n(B) <image>\n(C) <image>\n',
        {'image_2': None},
        "the text has a place for the picture of 'image_2'",
    ),
}


def test_pictures_stand_in_the_prompt_in_their_order(name, tmp_path):
    record, text, absent, message = PICTURED[name]
    toy.write(tmp_path, more=(toy.CHOICE | record,))
    toy.write_pictures(tmp_path / 'images')
    task = tasks.make_task(name, toy.PARAMS)
    *other_problems, problem = task.source('test', data_dir=str(tmp_path))
    assert problem.prompt.startswith(text)
    numbers = '1' if name == 'mathvision' else '2131'
    images = tuple(f'{tmp_path}/images/{n}.png' for n in numbers)
    assert problem.images == images
    assert problem.prompt.count('<image>') == len(images)
    assert not any(other.images for other in other_problems)
    toy.write(tmp_path, more=(toy.CHOICE | record | absent,))
    with pytest.raises(ValueError, match=f'line 3: {message}'):
        task.source('test', data_dir=str(tmp_path))
    (tmp_path / 'images' / '1.png').unlink()
    toy.write(tmp_path, more=(toy.CHOICE | record,))
    with pytest.raises(ValueError, match=r"line 3: picture 'images/1.png' is absent"):
        task.source('test', data_dir=str(tmp_path))


def test_a_picture_without_a_place_is_refused(tmp_path):
    toy.write(tmp_path, more=(toy.CHOICE | {'image_4': 'images/1.png'},))
    toy.write_pictures(tmp_path / 'images')
    with pytest.raises(ValueError, match="no place for the picture of 'image_4'"):
        tasks.make_task('mmmu', toy.PARAMS).source('test', data_dir=str(tmp_path))


def test_equal_questions_about_two_pictures_are_two_problems(name, tmp_path):
    record, *_ = PICTURED[name]
    field = 'image' if name == 'mathvision' else 'image_1'
    rows = [toy.CHOICE | record | {field: f'images/{n}.png'} for n in (1, 3)]
    toy.write(tmp_path, more=tuple(rows))
    toy.write_pictures(tmp_path / 'images')
    task = tasks.make_task(name, toy.PARAMS)
    first, second = task.source('test', data_dir=str(tmp_path))[-2:]
    assert first.prompt == second.prompt
    assert task.content_hash(first) != task.content_hash(second)


def test_a_pattern_names_several_files(name, tmp_path):
    for folder in ('b', 'a/data'):
        (tmp_path / folder).mkdir(parents=True)
        toy.write(tmp_path / folder)
    params = toy.PARAMS | {'file': '**/records.jsonl'}
    assert (
        len(tasks.make_task(name, params).source('test', data_dir=str(tmp_path))) == 4
    )
    params = toy.PARAMS | {'file': f'{tmp_path}/*/records.jsonl'}
    assert len(tasks.make_task(name, params).source('test', data_dir='')) == 2


def test_the_files_of_the_hub_have_the_bytes_of_pictures(tmp_path):
    """As the layouts of the published data sets, with records of our own."""
    toy.write_pictures(tmp_path)
    raw = (tmp_path / '1.png').read_bytes()
    of_hub = {'bytes': raw, 'path': '1.png'}
    folder = tmp_path / 'mmmu' / 'Counting'
    folder.mkdir(parents=True)
    row = toy.CHOICE | {
        'id': 'validation_Counting_1',
        'question': '<image 1> has how many sides?',
        'options': "['three', 'four', 'five']",
        'explanation': '',
        'image_1': of_hub,
        'image_2': None,
        'img_type': "['Diagrams']",
        'question_type': 'multiple-choice',
    }
    table = pyarrow.Table.from_pylist([row])
    parquet.write_table(table, folder / 'validation-00000-of-00001.parquet')
    about = tasks.task_class('mmmu').about
    task = tasks.make_task('mmmu', about.example)
    (problem,) = task.source('test', data_dir=str(tmp_path))
    assert (problem.images, problem.category) == ((raw,), 'Counting')
    assert problem.prompt.startswith('<image> has how many sides?\n\n(A) three\n')
    (tmp_path / 'mathvision').mkdir()
    row = toy.CHOICE | {'image': 'images/1.jpg', 'decoded_image': of_hub}
    table = pyarrow.Table.from_pylist([row])
    parquet.write_table(table, tmp_path / 'mathvision' / 'testmini.parquet')
    params = toy.PARAMS | {'file': 'mathvision/testmini.parquet'}
    task = tasks.make_task('mathvision', params)
    (problem,) = task.source('test', data_dir=str(tmp_path))
    assert problem.images == (raw,)


def test_a_path_may_have_brackets(name, tmp_path):
    folder = tmp_path / 'data [v1]'
    folder.mkdir()
    toy.write(folder)
    task = tasks.make_task(name, toy.PARAMS | {'file': 'data [v1]/records.jsonl'})
    assert len(task.source('test', data_dir=str(tmp_path))) == 2


def test_a_data_set_of_tfds_may_be_named(name, tmp_path):
    task = tasks.make_task(name, toy.PARAMS | {'file': 'tfds://none/1.0.0/test'})
    with pytest.raises(ValueError, match=r'none/1\.0\.0'):
        task.source('test', data_dir=str(tmp_path))


def test_a_file_that_cannot_be_used_is_named(name, tmp_path):
    task = tasks.make_task(name, toy.PARAMS)
    with pytest.raises(ValueError, match=r"records.jsonl' is absent: .*(MATH-V|MMMU)"):
        task.source('test', data_dir=str(tmp_path))
    toy.write(tmp_path, more=({'question': 'Q'},))
    with pytest.raises(ValueError, match=r'records.jsonl: line 3: '):
        task.source('test', data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="'dev' is none of"):
        task.source('dev', data_dir=str(tmp_path))
    toy.write(tmp_path)
    with pytest.raises(ValueError, match=r"split 'train' of .* is empty"):
        task.source('train', data_dir=str(tmp_path))
    with pytest.raises(ValueError, match='more than 100 together'):
        tasks.make_task(
            name, toy.PARAMS | {'train_percent': 60, 'validation_percent': 41}
        )


@pytest.mark.parametrize(
    'change',
    [
        {'question': ' '},
        {'question': 3},
        {'answer': ''},
        {'answer': None},
        {'answer': 'D'},
        {'answer': 'four'},
        {'options': None},
        {'options': ['x', 2, 'y']},
        {'options': ['x'] * 27},
    ],
)
def test_a_malformed_record_is_an_error(name, change):
    with pytest.raises(ValueError, match=r'question|answer|options|letters'):
        tasks.task_class(name).parse_problem(toy.CHOICE | change)
    with pytest.raises(ValueError, match='not as text'):
        tasks.task_class(name).parse_problem(json.dumps(toy.CHOICE))


_RECORDS = (
    toy.CHOICE,
    toy.OPEN,
    toy.CHOICE | {'options': [r'$\frac{1}{2}$', '$2$ km', 'C'], 'answer': 'A'},
    toy.OPEN | {'answer': r'(3,\sqrt{2})'},
)
_FRAGMENTS = (
    *(r'\boxed{', '}', '{', '(', ')', '(A)', ' B ', ' C.', 'C\n', 'option ', 'is '),
    *('The answer is ', 'the final answer is ', '. ', '\n', '$', '\\frac', '\\sqrt'),
    *('\\text', '\\approx', '1', '9' * 30, '1,000', '.5', '1e5', '-', '/', '^', '!'),
    *('km', '^\\circ', '\x00', '\ud800', '²', '٣', '１', '𝔸', '\u2028', 'İ', 'not '),
    *('__import__("os").getpid()', '9**9**9', 'oxed{', 'Mbps', '[', ']', ',', 'nan'),
    *('=', '%', 'inf'),
)  # fmt: skip
_TEXTS = st.lists(
    st.one_of(st.sampled_from(_FRAGMENTS), st.text(max_size=5)), max_size=20
).map(''.join)


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=_TEXTS, record=st.sampled_from(_RECORDS))
def test_no_response_makes_a_verdict_raise(name, text, record):
    task = tasks.task_class(name)
    problem = task.parse_problem(record)
    for judge in (task.verdict, task.official_verdict):
        verdict = judge(problem, text)
        assert (verdict.error is None) == verdict.correct


_LONG = [
    text * (100_000 // len(text))
    for text in (
        *('(A)', 'A ', r'\boxed{', '{', '}', '(', '9', '9,', '1,000', '.', '. ', '\n'),
        *('is ', '=', 'the answer is ', 'answer: ', '\\sqrt', '\\frac', '-', '1.', ' '),
        *('e', '1e', '/', '$', '^\\circ', '\u2003é', 'four ', 'option A', 'B.'),
    )
]  # fmt: skip


def test_long_responses_take_no_time_and_are_wrong(name):
    task = tasks.task_class(name)
    for record in (_RECORDS[0], _RECORDS[1]):
        problem = task.parse_problem(record)
        for text in _LONG:
            for judge in (task.verdict, task.official_verdict):
                start = time.process_time()
                assert not judge(problem, text).correct or 'four' in text
                assert time.process_time() - start < 1, text[:20]


@pytest.mark.slow
def test_a_hundred_thousand_mutations_raise_nothing(name):
    """Most without computer algebra, whose worker takes milliseconds each."""
    rng, task = random.Random(0), tasks.task_class(name)
    problems = list(map(task.parse_problem, _RECORDS))
    seeds = ['B', r'So \boxed{\frac{1}{2}}.', 'The answer is (A).', 'x = 3 km', '5']
    texts = []
    for _ in range(100_000):
        text = rng.choice(seeds)
        for _ in range(rng.randint(1, 6)):
            place = rng.randint(0, len(text))
            text = (
                text[:place]
                + rng.choice(_FRAGMENTS)
                + text[place + rng.randint(0, 2) :]
            )
        texts.append(text)
    for text in texts:
        answer = options.final_answer(text)
        for problem in problems[::2]:
            assert len(options.chosen(answer, problem.data['options'])) <= 1
        mathvision_official.found_answer(text)
        if name == 'mmmu':
            for judge in (task.verdict, task.official_verdict):
                judge(problems[0], text), judge(problems[1], text)
    if name == 'mathvision':
        official_task = tasks.make_task(name, toy.PARAMS)
        official_task.verify(
            problems, [texts[i : i + 2000] for i in range(0, 8000, 2000)]
        )
        for text in texts[:1000]:
            task.official_verdict(problems[2], text)


@pytest.mark.parametrize('record', [toy.CHOICE, toy.OPEN], ids=['choice', 'open'])
def test_no_answer_runs_code_from_a_thread(name, record, tmp_path):
    path = tmp_path / 'written'
    task = tasks.task_class(name)
    problem = task.parse_problem(record)
    answers = [payload.format(path=path) for payload in PAYLOADS]
    responses = [*answers, *(rf'\boxed{{{answer}}}' for answer in answers)]
    responses.append(f'The answer is {record["answer"]}.')
    by_rule = {}

    def judge():
        for rule in (task.verdict, task.official_verdict):
            by_rule[rule.__name__] = [rule(problem, text).correct for text in responses]

    thread = threading.Thread(target=judge)
    thread.start()
    thread.join(120)
    expected = [False] * 2 * len(PAYLOADS) + [True]
    assert by_rule == {'verdict': expected, 'official_verdict': expected}
    assert not path.exists()
