import json

import pytest

from passk_jax.tasks.korbench import official, problems


def judge(category, rule, idx, answer, response):
    data = {'category': category, 'rule': rule, 'idx': idx, 'answer': answer}
    return official.verdict(data | {'question': ''}, response)


@pytest.mark.parametrize(
    ('place', 'gold', 'right', 'wrong'),
    [
        (('cipher', '1', '1'), 'AB', ['[["A B"]]', '[AB]'], ['[[ab]]', 'AB']),
        (('logic', '1', '1'), 'p&q', ['[[p & q.]]'], ['[[q&p]]', '[[[p&q]]]']),
        (('logic', '5', '45'), 'I,O];[+,-];[-,+', ['[[I,O];[+, -];[-,+]]'], ['[[+]]']),
        (('logic', '5', '45'), 'A;B;C;D', ['[[A;C;B;D]]'], ['[[D;B;C;A]]']),
        (('operation', '1', '6'), '6or5', ['[[5 or 6]]', r'[[6\text{or}5]]'],
         ['[[6]]']),
        (('operation', '1', '1'), '1/2', ['[[1 / 2]]', r'$\boxed{1/2}$'], ['[[0.5]]']),
        # Texts of LaTeX: the value after the last sign =, blanks included.
        (('operation', '16', '152'), 'e+1', ['[[f(x) =e+1]]'],
         ['[[e + 1]]', '[[1+e]]']),
        (('operation', '18', '171'), '{1,2}', ['[[{2, 1}]]', '[[{21}]]'], ['[[{1}]]']),
        (('operation', '18', '178'), '{x∣x≤0 or x≥1}', ['[[≥1,≤0]]'], ['[[≥1]]']),
        (('operation', '23', '221'), '((1,2),(3,4))', ['[[1,2,3,-4]]'],
         ['[[(1,2,34)]]']),
        (('puzzle', '1', '1'), 'ab cd', ['[[AB, CD]]', '[[abcd]]'], ['[ab cd]']),
        (('puzzle', '2', '18'), 'pre,re', ['[[Re-]]'], ['[[pre,re]]']),
        (('puzzle', '3', '21'), 'pea ape', ['[[APE, pea]]'], ['[[peaape]]']),
        (('puzzle', '4', '33'), 'scape capes', ['[[cape]]', '[[]]'], ['[[scapes]]']),
        (('puzzle', '5', '41'), 'A=1,B=2', ['[[B=2, A=1]]'], ['[[A=1 B=2]]']),
        (('puzzle', '9', '81'), '6+2*3-2=10', ['[[12+4*0−2=7]]'], ['[[6-2*3+2=10]]']),
        (('puzzle', '10', '92'), '6*8/(9-7)', ['[[8×6/(9-7)=x]]'], ['[[68-97*()]]']),
        # 8/3 is rounded.
        (('puzzle', '10', '92'), '8/(3-8/3)', [], ['[[8/(3-8/3)]]']),
        (('puzzle', '18', '171'), '← 9,↑ ↑', ['[[←9, ↑↑]]'], ['[[→ 9,↑ ↑]]']),
        (('puzzle', '11', '101'), '12 6,8 1', ['[[1,2-6 8-1]]'], ['[[12 6 8 2]]']),
    ],
)  # fmt: skip
def test_each_rule_compares_in_its_own_way(place, gold, right, wrong):
    for response in right:
        assert judge(*place, gold, response).correct, response
    for response in wrong:
        assert not judge(*place, gold, response).correct, response


def test_a_verdict_has_the_answer_and_a_reason():
    verdict = judge('cipher', '1', '1', 'A', 'so [[ B ]]')
    assert (verdict.parsed, verdict.error) == ('B', 'not the stored answer')
    assert judge('cipher', '1', '1', 'A', 'so B').error == 'no answer'
    assert judge('puzzle', '6', '51', '4', 'so [4]').error == 'no answer'
    assert judge('cipher', '1', '1', 'A', 'so [[A]]').error is None
    long = judge('cipher', '1', '1', 'A', f'[[A{" " * 5000}]]')
    assert (long.parsed, long.correct) == ('A', True)
    long = judge('cipher', '1', '1', 'A', f'[[A{"[" * 5000}]]')
    assert long.error == 'an answer of more than 4096 characters'


@pytest.mark.parametrize(
    'expression', ['9**9**9**9', '1e9', '(' * 200, '6*(8', '9' * 57, '1/0', '-(1)', '½']
)
def test_an_expression_is_read_and_not_run(expression):
    for rule, gold in (('9', '1+1=2'), ('10', '1+23')):
        response = f'[[{expression}=24]]'
        assert not judge('puzzle', rule, '91', gold, response).correct
    huge = '*'.join(['999999'] * 57)
    assert not judge('puzzle', '10', '91', f'{huge}/1', f'[[{huge}/1]]').correct


def test_the_published_verdicts_are_reproduced(shared_dir):
    """All 1,250 of one model; those of another were compared by hand."""
    folder = shared_dir / 'data' / 'korbench'
    number = 0
    for category in problems.CATEGORIES:
        (file,) = (folder / 'official_verdicts').glob(f'*_{category}.jsonl')
        for line in file.read_text().splitlines():
            record = json.loads(line)
            # The answers of a few problems were changed since.
            data = problems.parse(record | {'question': '?'}, category=category).data
            verdict = official.verdict(data, record['response'])
            assert verdict.correct == record['is_correct'], (category, record['idx'])
            number += 1
    assert number == 1250
