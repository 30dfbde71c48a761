import json

import pytest

from passk_jax.tasks.mathvision import official
from passk_jax.tasks.mathvision.task import MathVisionTask
from passk_jax.verifiers.pool import TIMEOUT, Judgement
from tests.tasks import pictured_toy as toy


@pytest.mark.parametrize(
    ('response', 'answer'),
    [
        ('It must be B.', 'b'),
        ('(C)\nbecause', 'c'),
        ('The total is 12.', '12'),
        ('So the answer is D. Next\nline', 'd'),
        ('The correct answer is 3 cm. No', '3cm'),
        ('\\boxed{1} and \\boxed{x=\\text{(A)}}', 'a'),
        ('$\\boxed{\\dfrac{1}{2}}$ or {2}', '\\frac{1}{2}}or{2'),
        ('2/3', '\\frac{2}{3}'),
        ('0.5', '\\frac{1}{2}'),
        ('.75', '0.75'),
        ('\\sqrt3 + \\frac12', '\\sqrt{3}+\\frac{1}{2}'),
        ('5 km', '5'),
        ('30^\\circ', '30'),
        ('40\\%', '40'),
        ('', ''),
        ('oxed{', 'oxed{'),
    ],
)
def test_an_answer_is_cleaned(response, answer):
    assert official.found_answer(response) == answer


def test_a_verdict_has_a_reason():
    data = MathVisionTask.parse_problem(toy.CHOICE).data
    assert official.verdict(data, 'B').error is None
    assert official.verdict(data, 'four').correct
    assert official.verdict(data, 'C').error == 'not the answer'
    assert official.verdict(data, ' ').error == 'no answer'
    assert 'more than 4096' in official.verdict(data, 'x' * 5000).error


def test_a_late_comparison_is_wrong_and_says_so(monkeypatch):
    class Late:
        def judge(self, pairs):
            return [Judgement(False, TIMEOUT)] * len(pairs)

    monkeypatch.setattr(official, 'shared_pool', Late)
    data = MathVisionTask.parse_problem(toy.OPEN).data
    assert official.verdict(data, '9^{9^9}').error == 'the comparison took too long'


def test_a_comparison_has_a_deadline_of_seconds(monkeypatch):
    monkeypatch.setattr(official, 'Pool', lambda function, **settings: settings)
    assert official.shared_pool.__wrapped__()['deadline_s'] <= 10


# All of them with the reasons; none so far.
DISAGREEMENTS: dict[str, str] = {}


# Those that are right and some others; or all, half a minute of comparisons.
@pytest.mark.parametrize('every', [20, pytest.param(1, marks=pytest.mark.slow)])
def test_every_published_verdict_is_reproduced(every, shared_dir):
    folder = shared_dir / 'data' / 'mathvision'
    lines = (folder / 'test.jsonl').read_text().splitlines()
    problems = {
        record['id']: MathVisionTask.parse_problem(record)
        for record in map(json.loads, lines)
    }
    file = folder / 'official_verdicts_qwen_vl_plus.jsonl'
    cases = list(map(json.loads, file.read_text().splitlines()))
    assert (len(problems), len(cases)) == (3040, 1520)
    for number, case in enumerate(cases):
        problem, response = problems[case['id']], case['response']
        assert official.found_answer(response) == case['model_answer']
        if number % every and not case['correct']:
            continue
        verdict = MathVisionTask.official_verdict(problem, response)
        agrees = verdict.correct == case['correct']
        assert agrees == (case['id'] not in DISAGREEMENTS), (case, verdict)
