import json

import pytest

from passk_jax.tasks.korbench import problems, strict

_SUM = 'TT+TT=LTC\nPlease'
_PATH = '?+?*?-?=10\nThere'
_NUMBERS = 'The numbers are:\n9 8 7 6.\nYour'


def judge_all(category, rule, gold, answers, *, idx='1', question=''):
    data = {'category': category, 'rule': rule, 'idx': idx, 'question': question}
    data['answer'] = gold
    return strict.judge([data] * len(answers), [f'so [[{a}]].' for a in answers])


@pytest.mark.parametrize(
    ('place', 'gold', 'right', 'wrong'),
    [
        (('cipher', '1'), 'AB', ['A B', '"AB"'], ['ab', 'ABC', '']),
        (('counterfactual', '1'), 'B', ['B', ' B '], ['A', 'B. green']),
        (('logic', '1'), 'p1&p2];[p3', ['p1 & p2];[p3.'], ['p3];[p1&p2']),
        (('logic', '5'), 'I,O];[+,-];[-,+', ['I,O];[-,+];[+, -'], ['I,O];[+,-]']),
        (('operation', '18'), '{1,2}', ['{2, 1}', r'\{1,2\}'], ['{12}', '1,2', '{1}']),
        (('operation', '23'), '((1,-2),(9,64))', ['((1,-2),(9,64))', '1,-2],[9,64'],
         ['((1,2),(9,64))', '((1,-2,9,64))', '((1,-2),(9,6.4))', '((1,-29),(64))']),
        (('puzzle', '1'), 'ab cd', ['AB, cd'], ['abcd', 'cd ab']),
        (('puzzle', '2'), 'pre,re', ['pre', 'Re-', 'pre,re'], ['prere', 'p', '-']),
        (('puzzle', '3'), 'pea ape', ['ape pea'], ['pea', 'pea pea']),
        (('puzzle', '4'), ' scape capes', ['capes'], ['cape', 'scape cape', '?']),
        (('puzzle', '11'), '12 6,8 1', ['12 6\n8 1'], ['1 2 6,8 1', '126,81']),
        (('puzzle', '12'), '1 X,X 1X', ['1 X,X 1 X', '1X\nX1X'],
         ['1 X X 1 X', '1 X,1 X X']),
        (('puzzle', '18'), '← 9,↑ ↑', ['← 9, ↑ ↑'], ['→ 9,↑ ↑', '9,']),
    ],
)  # fmt: skip
def test_each_rule_compares_in_its_own_way(place, gold, right, wrong):
    verdicts = judge_all(*place, gold, right + wrong)
    expected = [True] * len(right) + [False] * len(wrong)
    assert [v.correct for v in verdicts] == expected
    assert all((v.error is None) == v.correct for v in verdicts)


@pytest.mark.parametrize(
    ('gold', 'right', 'wrong'),
    [
        ('13/3', [r'\frac{13}{3}', 'X=13/3', '$13/3$', '[13/3'],
         ['13', '12/3+1/3', '4.333333', '']),
        ('4or-12', [r'-12\text{ or }4', '4 or -12', 'X=4 or X=-12'],
         ['4', '4or4', '4or-12or4', '4 or', '-4or12']),
        ('x=2,y=3', ['y = 3, x=2'], ['x=3,y=2', '2,3', 'x=2', 'x=2,z=3']),
        ('X≥8', [r'X \geq 8', 'X>=8', '$X ≥ 8$'], ['X≤8', '8', 'X>8']),
        ('2x+e^x', ['2x + e^x', 'f△g=e^x+2x'], ['2x+e^y', 'x', r'\boxed{', '=', '']),
        ('-6+\\sqrt{22}or-6-\\sqrt{22}', [r'-6-\sqrt{22} or -6+\sqrt{22}'],
         [r'-6+\sqrt{22}or-6+\sqrt{22}',
          r'-6+\sqrt{22}or-6-\sqrt{22}or-6-\sqrt{22}']),
    ],
)  # fmt: skip
def test_operations_are_equal_as_mathematics(gold, right, wrong):
    verdicts = judge_all('operation', '2', gold, right + wrong)
    expected = [True] * len(right) + [False] * len(wrong)
    assert [v.correct for v in verdicts] == expected


def test_a_value_that_cannot_be_parsed_is_said_to_be():
    gold = r'-6+\sqrt{22}or-6-\sqrt{22}'
    (verdict,) = judge_all('operation', '2', gold, [r'\frac or -6-\sqrt{22}'])
    assert verdict.error == 'the answer cannot be parsed'


def test_sets_given_by_inequalities():
    gold = '{x∣x≤0 or x≥1}'
    right = ['{x∣x≥1 or x≤0}', r'\{x \mid x \leq 0 or x \geq 1\}', 'x≤0 or x≥1']
    wrong = ['{x∣x≤0 and x≥1}', '{x∣x≤0}', '≥1≤0']
    verdicts = judge_all('operation', '18', gold, right + wrong, idx='178')
    assert [v.correct for v in verdicts] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ('rule', 'question', 'gold', 'answers'),
    [
        ('5', _SUM, 'T=9,L=1,C=8', {
            'C=8,T=9,L=1': None,
            'T=9,L=1,C=8,T=9': 'not every letter of the sum, each once',
            'T=9,L=1': 'not every letter of the sum, each once',
            'T=0,L=0,C=0': 'two letters with one digit',
            'T=0,L=1,C=2': 'a number begins with 0',
            'T=8,L=1,C=7': 'the sum does not hold',
            'T=10,L=1,C=8': 'not letter=digit, separated by commas',
            't=9': 'not letter=digit, separated by commas',
        }),
        ('9', _PATH, '6+2*3-2=10', {
            '6+2*3-2=10': None,
            '8 + 1 × 4 − 2 = 10': None,
            '6+2*3-2': 'not the equation of the question with digits',
            '6+2*3-2=9': 'not the equation of the question with digits',
            '10+2*1-2=10': 'not the equation of the question with digits',
            '6+2*3-3=10': 'the equation does not hold',
            '0/0+1=10': 'not the equation of the question with digits',
        }),
        ('10', _NUMBERS, '6*8/(9-7)', {
            '8/(9 - 7)×6': None,
            '8÷(9-7)*6 = 24': None,
            '24': 'not the given numbers, each exactly once',
            '6*8/(9-7)*1': 'not the given numbers, each exactly once',
            '6+8+9-7': 'not 24',
            '6**8': 'no number before *',
            "__import__('os')": "'_' does not belong in an expression",
        }),
        ('5', 'a poem', 'A=1,B=2', {
            'B=2,A=1': None,
            'A=2,B=1': 'not the stored answer',
        }),
        ('9', 'a poem', '1', {'1': 'the question is not an equation of ?'}),
        ('10', 'a poem', '1', {'1': 'the question has no four numbers'}),
    ],
)  # fmt: skip
def test_any_solution_of_a_puzzle_is_right(rule, question, gold, answers):
    verdicts = judge_all('puzzle', rule, gold, list(answers), question=question)
    assert {a: v.error for a, v in zip(answers, verdicts, strict=True)} == answers


def test_only_the_last_double_brackets_count():
    data = {
        'category': 'cipher',
        'rule': '1',
        'idx': '1',
        'question': '',
        'answer': 'A',
    }
    responses = [
        '[[B]] no: [[A]]',
        '[[A]] no: [[B]]',
        '[A]',
        r'$\boxed{A}$',
        'A',
        '[[A',
    ]
    verdicts = strict.judge([data] * 6, responses)
    assert [v.correct for v in verdicts] == [True] + [False] * 5
    assert [v.parsed for v in verdicts] == ['A', 'B', '', '', '', '']
    assert verdicts[2].error == 'no answer in double square brackets'
    (long,) = strict.judge([data], [f'[[{"A" * 5000}]]'])
    assert (long.error, len(long.parsed)) == (
        'an answer of more than 4096 characters',
        4096,
    )


# Real responses on which the strict verdict is another than the official one: of
# operations than that with a working LaTeX parser.
_NOT_DOUBLE = (83, 84, 86, 142, 164, 194, 195, 199, 221, 228)
_DISAGREEMENTS = {
    'logic': dict.fromkeys(_NOT_DOUBLE, 'in single brackets'),
    'operation': {
        **dict.fromkeys((12, 84, 91, 102, 104, 182, 184), 'right in the last brackets'),
        143: 'right beneath a box', 220: 'right beneath marks of LaTeX',
        176: 'the elements of a set in two sets', 246: 'a matrix in LaTeX',
    },
    'puzzle': {
        4: 'a blank inside a word',
        33: 'part of a right word', 35: 'part of it', 40: 'part of it',
    },
}  # fmt: skip


def _records(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_strict_and_official_verdicts_on_real_responses(shared_dir):
    folder = shared_dir / 'data' / 'korbench'
    for category in problems.CATEGORIES:
        (file,) = (folder / 'official_verdicts').glob(f'*_{category}.jsonl')
        records = _records(file)
        samples = {r['idx']: r for r in _records(folder / category / 'sample.jsonl')}
        # The answers of a few problems were changed since.
        data = [
            problems.parse(samples[r['idx']] | r, category=category).data
            for r in records
        ]
        verdicts = strict.judge(data, [record['response'] for record in records])
        field = 'is_correct'
        if category == 'operation':
            field += '_with_working_latex_parser'
        differ = {
            int(record['idx'])
            for record, verdict in zip(records, verdicts, strict=True)
            if verdict.correct != record[field]
        }
        assert differ == set(_DISAGREEMENTS.get(category, {}))


def test_every_stored_answer_that_is_right_is_accepted(shared_dir):
    wrong = {}
    for category in problems.CATEGORIES:
        file = shared_dir / 'data' / 'korbench' / category / 'sample.jsonl'
        data = [problems.parse(r, category=category).data for r in _records(file)]
        verdicts = strict.judge(data, [f'[[{row["answer"]}]]' for row in data])
        wrong |= {
            (category, int(row['idx'])): verdict.error
            for row, verdict in zip(data, verdicts, strict=True)
            if not verdict.correct
        }
    assert wrong == {
        # Letters are missing, or there twice.
        ('puzzle', 46): 'not every letter of the sum, each once',
        ('puzzle', 49): 'not every letter of the sum, each once',
        # It goes from left to right.
        ('puzzle', 84): 'the equation does not hold',
        # Several expressions, a line each.
        ('puzzle', 93): 'no operator before (',
        ('puzzle', 94): 'no operator before 7',
    }
