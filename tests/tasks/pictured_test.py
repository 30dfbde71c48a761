"""What MathVision and MMMU share."""

import json
import random
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passk_jax import tasks
from passk_jax.tasks import pictured
from passk_jax.tasks.mathvision import official as mathvision_official
from tests.tasks import pictured_toy as toy
from tests.tasks.payloads import PAYLOADS

_OPTIONS = ['red', 'dark blue', 'green tea', 'No']


@pytest.fixture(params=['mathvision', 'mmmu'])
def name(request):
    return request.param


def test_a_split_has_the_problems_that_its_hash_names(name, tmp_path):
    toy.write(tmp_path, copies=40)
    shares = {'train_percent': 60, 'validation_percent': 20}
    task = tasks.make_task(name, toy.PARAMS | shares)
    found = {s: task.source(s, data_dir=str(tmp_path)) for s in task.splits}
    hashes = {s: {task.content_hash(p) for p in found[s]} for s in found}
    assert sum(map(len, hashes.values())) == len(set.union(*hashes.values())) == 80
    assert len(found['train']) > len(found['test']) > 5
    assert [p.id for p in found['test']] == list(range(len(found['test'])))


def test_the_prompt_lists_the_choices(name):
    problem = tasks.task_class(name).parse_problem(toy.CHOICE)
    question = 'How many sides has a square?\n(A) three\n(B) four\n(C) five\n\nSolve'
    assert problem.prompt.startswith(question)
    assert r'\boxed{}' in problem.prompt


@pytest.mark.parametrize(
    'change',
    [
        {'image': 'images/1.jpg'},
        {'image_1': {'bytes': 'aa'}},
        {'question': 'What is this?\n<image1>'},
        {'options': ['<image 1>', '<image 2>', 'x']},
    ],
)
def test_a_split_with_a_picture_is_refused_and_says_what_can_be_done(
    name, change, tmp_path
):
    toy.write(tmp_path, more=(toy.CHOICE | change,))
    message = r"1 of 3 problems of split 'test' .* not read yet.*score --task="
    with pytest.raises(ValueError, match=message):
        tasks.make_task(name, toy.PARAMS).source('test', data_dir=str(tmp_path))
    # An empty field is no picture.
    toy.write(tmp_path, more=(toy.CHOICE | {'image': None, 'image_2': None},))
    task = tasks.make_task(name, toy.PARAMS)
    assert len(task.source('test', data_dir=str(tmp_path))) == 3


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


@pytest.mark.parametrize(
    ('response', 'answer'),
    [
        (r'The answer is 3. No: \boxed{4}. The answer is 5.', '4'),
        ('The answer is 4.\nOr not.', '4'),
        ('Answer: **B**', 'B'),
        ('The answer is\n(B).', '(B)'),
        ('First 3. Then 4.', 'Then 4'),
        ('first 3\nthen 4', 'then 4'),
        ('3.5', '3.5'),
        # A box that is not closed, as where a response was cut off.
        (r'The answer is 3, \boxed{4', ''),
        ('', ''),
        (' \n ', ''),
    ],
)
def test_a_response_ends_with_its_answer(response, answer):
    assert pictured.final_answer(response) == answer


@pytest.mark.parametrize(
    ('answer', 'letters'),
    [
        ('B', 'B'),
        ('b', 'B'),
        ('(c)', 'C'),
        ('B.', 'B'),
        (r'\text{B}', 'B'),
        (r'$\textbf{(B)}$', 'B'),
        (r'\mathrm{B}', 'B'),
        ('B: dark blue', 'B'),
        ('D) no', 'D'),
        ('Dark  Blue.', 'B'),
        ('no', 'D'),
        ('It has a dark blue roof', 'B'),
        ('It is (B), by (B)', 'B'),
        ('It is option C', 'C'),
        ('which gives C', 'C'),
        ('(A) is the one, not blue', 'A'),
        # Short texts are words of other sentences; "red" is inside "bored".
        ('There is no such thing', ''),
        ('It is bored of tea', ''),
        ('It is not dark blue', ''),
        ('B -> C -> A', ''),
        ('vitamin-C', 'C'),
        ('it is ABC', ''),
        ('(A) or (B)', ''),
        ('(A) (B) (C) (D)', ''),
        ('dark blue or green tea', ''),
        ('B: green tea', ''),
        ('(B) green tea', ''),
        ('E', ''),
        ('(E) is it', ''),
        ('', ''),
    ],
)
def test_an_answer_names_one_choice(answer, letters):
    assert pictured.chosen(answer, _OPTIONS) == {*letters}


def test_choices_with_one_text_are_all_named():
    assert pictured.chosen('x', ['x', 'X', 'y']) == {'A', 'B'}
    # A letter is a letter first, and then a text.
    assert pictured.chosen('B', ['B', 'A', 'F']) == {'B'}
    assert pictured.chosen('F', ['B', 'A', 'F']) == {'C'}
    assert pictured.chosen('A cat', ['dog', 'A cat', 'cat']) == {'B'}


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
        answer = pictured.final_answer(text)
        for problem in problems[::2]:
            assert len(pictured.chosen(answer, problem.data['options'])) <= 1
        mathvision_official.found_answer(text)
        if name == 'mmmu':
            for judge in (task.verdict, task.official_verdict):
                judge(problems[0], text), judge(problems[1], text)
    if name == 'mathvision':
        made = tasks.make_task(name, toy.PARAMS)
        made.verify(problems, [texts[i : i + 2000] for i in range(0, 8000, 2000)])
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
    found = {}

    def judge():
        for rule in (task.verdict, task.official_verdict):
            found[rule.__name__] = [rule(problem, text).correct for text in responses]

    thread = threading.Thread(target=judge)
    thread.start()
    thread.join(120)
    wanted = [False] * 2 * len(PAYLOADS) + [True]
    assert found == {'verdict': wanted, 'official_verdict': wanted}
    assert not path.exists()
