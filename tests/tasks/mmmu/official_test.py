import json

import pytest

from passk_jax.tasks.mmmu import official
from passk_jax.tasks.mmmu.task import MmmuTask
from tests.tasks import pictured_toy as toy

_OPTIONS = ['red tea', 'dark blue', '12']


@pytest.mark.parametrize(
    ('response', 'choice'),
    [
        ('B', 'B'),
        ('(A), no, (B): A', 'B'),
        ('A or B ', 'B'),
        ("'C'.", 'C'),
        # A full stop keeps a letter from standing alone.
        ('It is B. Yes it is', None),
        ('the colour of this one is Dark Blue, not red tea', 'A'),
        # Texts count in six words or more.
        ('it is dark blue', None),
        ('there are 120 of these in it', 'C'),
        ('D', None),
        ('', None),
    ],
)
def test_the_choice_named_last_is_the_answer(response, choice):
    assert official.last_choice(response, _OPTIONS) == choice


@pytest.mark.parametrize(
    ('gold', 'right', 'wrong'),
    [
        ('60', ['60', 'It is 60 Mbps.', 'so 1 is 60.004', '6e1', 'is 59, 60 or 61'],
         ['59', 'It is 60. So 61 is it']),
        ('2000000', ['the answer is $2,000,000'], ['2,000']),
        ('0.9965', ['1'], ['0.98']),
        ('embryonic', ['The Embryonic stage', 'un-embryonic'], ['embryo']),
        ('A', ['is a point', 'A'], ['is b', 'banana']),
        ('5', ['x = 5', 'no\nx = 4\nis 5'], ['x = 5\nso 6']),
    ],
)  # fmt: skip
def test_an_open_answer_has_the_stored_value(gold, right, wrong):
    problem = MmmuTask.parse_problem(toy.OPEN | {'answer': gold})
    for response in right:
        assert MmmuTask.official_verdict(problem, response).correct, response
    for response in wrong:
        assert not MmmuTask.official_verdict(problem, response).correct, response


def test_any_of_several_stored_answers_is_right():
    problem = MmmuTask.parse_problem(toy.OPEN | {'answer': ['24/7', '3.429']})
    for response in ('24/7', '3.43'):
        assert MmmuTask.official_verdict(problem, response).correct


def test_every_published_verdict_is_reproduced(shared_dir):
    """But for 48 random choices, which count as wrong here."""
    file = shared_dir / 'data' / 'mmmu' / 'qwen_vl_val_outputs_with_verdicts.jsonl'
    random = 0
    for record in map(json.loads, file.read_text().splitlines()):
        problem = MmmuTask.parse_problem(record)
        verdict = MmmuTask.official_verdict(problem, record['response'])
        if record['official_random_fallback']:
            assert verdict.error == official.NO_CHOICE
            random += 1
            continue
        assert verdict.correct == record['official_correct'], (record, verdict)
        if problem.data['options']:
            assert verdict.parsed == record['official_pred']
    assert random == 48
