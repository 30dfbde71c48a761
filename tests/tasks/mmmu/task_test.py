import json

import pytest

from passk_jax.tasks.mmmu.task import MmmuTask
from tests.tasks import pictured_toy as toy

# Right officially and wrong strictly. The last sentence of most names no choice, or
# another one; "Any choice's text inside a response" made them right.
REFUSED = {
    **dict.fromkeys(
        (
            *('Accounting_1', 'Agriculture_15', 'Art_6', 'Biology_27'),
            *('Basic_Medical_Science_9', 'Basic_Medical_Science_29', 'Chemistry_11'),
            *('Chemistry_18', 'Clinical_Medicine_6', 'Clinical_Medicine_14'),
            *('Clinical_Medicine_15', 'Clinical_Medicine_22', 'Clinical_Medicine_27'),
            *('Design_4', 'Design_7', 'Energy_and_Power_25', 'Finance_2'),
            *('Diagnostics_and_Laboratory_Medicine_1', 'History_10', 'History_23'),
            *('Diagnostics_and_Laboratory_Medicine_20', 'Manage_9', 'Math_28'),
            *('Mechanical_Engineering_9', 'Music_5', 'Music_10', 'Music_20'),
            *('Music_26', 'Psychology_14', 'Psychology_15', 'Psychology_19'),
            *('Public_Health_11', 'Public_Health_26'),
        ),
        'the last sentence does not name the choice alone',
    ),
    'Electronics_21': '1 is not 0.9965',
    'Manage_25': '0.956 is not 0.963',
    'Physics_21': 'a sentence about point A, and no answer',
}
# The reverse: one names the right choice, and the official verifier another; of the
# others it draws one, for texts in fewer than six words, or in another spelling.
ACCEPTED = (
    *('Architecture_and_Engineering_28', 'Clinical_Medicine_11', 'Manage_2'),
    *('Marketing_15', 'Marketing_28', 'Math_30', 'Sociology_22', 'Sociology_26'),
)


def verdict(record, response):
    return MmmuTask.verdict(MmmuTask.parse_problem(record), response)


def test_a_choice_is_named_by_its_letter_or_its_text():
    for response in ('B', r'So \boxed{B}', '(B) four', 'Six words here say (B) four.'):
        assert verdict(toy.CHOICE, response).correct, response
    for response in ('A', r'B. No: \boxed{A}', '(A) or (B)', '', 'B four five', '4'):
        judged = verdict(toy.CHOICE, response)
        assert not judged.correct, response
        assert judged.error
    assert verdict(toy.CHOICE, 'C').error == 'chose C, not B'


@pytest.mark.parametrize(
    ('gold', 'right', 'wrong'),
    [
        ('60', ['60', r'\boxed{60}', 'The rate is 60 Mbps.', '60.0', '$60'],
         ['59, 60', 'It is 59 and 60 and 61', 'It is 59, or it is 60',
          '60.4', '6', 'sixty', '60 61']),
        ('0.963', ['0.963', '0.9634'], ['0.956', '0.96', '1']),
        ('2000000', ['$2,000,000', '2000000 dollars'], ['2,000', '2']),
        ('1/64', ['1/64', 'The chance is 1/64.'], ['1/6', '0.0156']),
        ('-141', ['-141°', 'x = -141'], ['141']),
        ('trans-2-Butene', ['Trans-2-butene', 'It is trans-2-butene.'],
         ['trans', 'cis-2-butene or trans-2-butene']),
        ('A', ['A', 'The answer is A.'], ['banana', 'A point']),
    ],
)  # fmt: skip
def test_an_open_answer_is_the_stored_one(gold, right, wrong):
    for response in right:
        assert verdict(toy.OPEN | {'answer': gold}, response).correct, response
    for response in wrong:
        assert not verdict(toy.OPEN | {'answer': gold}, response).correct, response
    long = verdict(toy.OPEN | {'answer': gold}, rf'\boxed{{{gold * 5000}}}')
    assert 'more than 4096' in long.error


def test_the_records_of_the_dataset_and_of_the_outputs_are_read():
    published = toy.CHOICE | {'options': "['three', 'four', '$5']", 'subfield': 'x'}
    problem = MmmuTask.parse_problem(published | {'question_type': 'multiple-choice'})
    assert problem.data['options'] == ['three', 'four', '$5']
    assert problem.category == 'Counting'
    output = {
        'id': 'validation_Art_Theory_7',
        'question_type': 'multiple-choice',
        'answer': 'B',
        'index2ans': {'B': 'four', 'A': 'three'},
    }
    problem = MmmuTask.parse_problem(output)
    assert problem.data['options'] == ['three', 'four']
    assert problem.category == 'Art_Theory'
    both = {'question_type': 'open', 'answer': ['24/7', '3.429'], 'options': '[]'}
    problem = MmmuTask.parse_problem(toy.OPEN | both)
    assert MmmuTask.verdict(problem, '3.429').correct
    assert MmmuTask.verdict(problem, '24/7').correct


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'options': '[__import__("os")]'}, 'is not a list'),
        ({'options': '[' * 5000}, 'is not a list'),
        ({'options': '3'}, 'must be a list'),
        ({'index2ans': {'A': 'x', 'C': 'y'}}, 'other letters'),
        ({'answer': ['B', 3]}, 'a list of texts'),
        ({'answer': []}, 'a list of texts'),
    ],
)
def test_a_malformed_record_is_an_error(change, message):
    with pytest.raises(ValueError, match=message):
        MmmuTask.parse_problem(toy.CHOICE | change)


def test_what_is_right_officially_is_right_but_for_those_listed(shared_dir):
    file = shared_dir / 'data' / 'mmmu' / 'qwen_vl_val_outputs_with_verdicts.jsonl'
    records = list(map(json.loads, file.read_text().splitlines()))
    assert len(records) == 900
    for record in records:
        judged = verdict(record, record['response'])
        name = record['id'].removeprefix('validation_')
        listed = REFUSED if record['official_correct'] else ACCEPTED
        agrees = judged.correct == bool(record['official_correct'])
        assert agrees == (name not in listed), (record, judged)
