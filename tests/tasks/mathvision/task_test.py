import json
import pathlib

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.mathvision.task import MathVisionTask
from passk_jax.verifiers import mathematics
from tests.tasks import pictured_toy as toy

# Right officially and wrong strictly: 2018 is another choice, and close to the right
# one, the root of 2018^2 + 2.
REFUSED = {'1410': 'chose B, not D'}
# The reverse: texts that differ in blanks, capitals or units, "D)", \textbf{(A)}, and a
# letter with its text.
ACCEPTED = (
    140, 143, 177, 180, 188, 249, 289, 350, 377, 674, 767, 848, 879, 1002, 1024,
    1047, 1072, 1094, 1175, 1186, 1197, 1333, 1340, 1343, 1379, 1446, 1518,
)  # fmt: skip


def verdict(record, response):
    return MathVisionTask.verdict(MathVisionTask.parse_problem(record), response)


@pytest.mark.parametrize(
    ('change', 'right', 'wrong'),
    [
        ({}, [r'\boxed{B}', 'The answer is four.', '(B)'], ['A', r'\boxed{3}', '']),
        ({'options': [r'$\frac{1}{2}$', '$2$', '3']},
         ['2', r'\boxed{2.0}', 'So B', r'\boxed{B) 4/2}'],
         ['1/2', 'A', r'\boxed{A} \boxed{C}', r'\boxed{C) 2}',
          r'\boxed{\text{(A) }2}']),
        ({'options': ['1, 2', '2, 1', 'neither']}, ['2, 1', r'\boxed{B: 2,1}'],
         [r'\boxed{(A) 2, 1}', '(B) 1, 2', r'\boxed{(B) neither}']),
        ({'options': ['$6 \\mathrm{~km}$', '$2 \\mathrm{~km}$', '$x^2+2$']},
         ['2 km', r'\boxed{2}'], [r'\boxed{-2 \mathrm{~km}}', r'\boxed{62 km}']),
        ({'options': [], 'answer': r'$\frac{1}{2}$'},
         [r'\boxed{0.5}', 'The answer is 1/2.'], ['0.501', r'1/2 \boxed{']),
        ({'options': [], 'answer': r'$\boxed{\frac{16}{7}}$'}, ['16/7'], ['7/16']),
    ],
)  # fmt: skip
def test_a_letter_a_text_or_a_value_is_right(change, right, wrong):
    for response in right:
        assert verdict(toy.CHOICE | change, response).correct, response
    for response in wrong:
        judged = verdict(toy.CHOICE | change, response)
        assert not judged.correct, response
        assert judged.error


def test_naming_every_choice_is_wrong():
    for response in ('(A) (B) (C)', r'\boxed{A, B, C}', 'three or four', 'A B C'):
        assert not verdict(toy.CHOICE, response).correct
    assert 'more than 4096' in verdict(toy.OPEN, rf'\boxed{{{"5" * 5000}}}').error


def test_a_batch_is_judged_at_once_and_in_place(monkeypatch):
    task = tasks.make_task('mathvision', toy.PARAMS)
    problems = [task.parse_problem(record) for record in (toy.CHOICE, toy.OPEN)]
    calls, compare = [], mathematics.compare
    monkeypatch.setattr(
        mathematics, 'compare', lambda *a: calls.append(a) or compare(*a)
    )
    verdicts = task.verify(problems, [['B', '4', r'\boxed{x'], ['B', '5', '5.0']])
    assert len(calls) == 1
    np.testing.assert_array_equal(
        verdicts.correct, [[True, True, False], [False, True, True]]
    )
    assert verdicts.failures.keys() == mathematics.FAILURES.keys()


def test_a_missing_package_is_an_error_before_the_run(monkeypatch):
    monkeypatch.setattr(mathematics, '_PACKAGES', ('no_such_package',))
    with pytest.raises(ValueError, match=r"need \['no_such_package'\]"):
        tasks.make_task('mathvision', toy.PARAMS)


@pytest.mark.parametrize('every', [20, pytest.param(1, marks=pytest.mark.slow)])
def test_what_is_right_officially_is_right_but_for_those_listed(every, shared_dir):
    folder = shared_dir / 'data' / 'mathvision'
    lines = (folder / 'test.jsonl').read_text().splitlines()
    problems = {record['id']: record for record in map(json.loads, lines)}
    file = folder / 'official_verdicts_qwen_vl_plus.jsonl'
    for case in map(json.loads, file.read_text().splitlines()):
        number = int(case['id'])
        if number % every and not case['correct'] and number not in ACCEPTED:
            continue
        judged = verdict(problems[case['id']], case['response'])
        if case['correct']:
            assert judged.error == REFUSED.get(case['id']), (case, judged)
        else:
            assert judged.correct == (number in ACCEPTED), (case, judged)


def test_a_clone_of_mathvision_has_its_pictures_beside_the_records(tmp_path):
    clone = tmp_path / 'mathvision'
    for layout in ('data', '.'):
        (clone / layout).mkdir(parents=True, exist_ok=True)
        file = clone / layout / 'test.jsonl'
        file.write_text(json.dumps(toy.CHOICE | {'image': 'images/1.png'}))
        toy.write_pictures(clone / 'images')
        about = tasks.task_class('mathvision').about
        task = tasks.make_task('mathvision', about.example)
        (problem,) = task.source('test', data_dir=str(tmp_path))
        assert pathlib.Path(problem.images[0]).samefile(clone / 'images/1.png')
        file.unlink()
