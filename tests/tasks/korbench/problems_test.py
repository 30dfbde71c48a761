import pytest

from passk_jax.tasks.korbench import problems
from tests.tasks.korbench import toy

_RECORD = {'idx': '7', 'question': 'Q?', 'answer': '[[A]]', 'rule_id': '03', 'more': 1}


def read(directory, category='cipher'):
    return problems.read_category(
        category, directory=directory / 'data', prompt_file=directory / 'zero-shot.yaml'
    )


def test_a_prompt_is_the_template_with_rule_and_question(tmp_path):
    toy.write(tmp_path)
    (problem,) = read(tmp_path)
    # The braces of a template and of a rule are text like any other.
    assert problem.prompt == (
        '{x} cipher by Shift each letter by {one}.\nNow: Encrypt: AB\nAnswer:\n'
    )
    assert problem.data == {
        'category': 'cipher',
        'rule': '1',
        'idx': '1',
        'question': 'Encrypt: AB',
        'answer': 'BC',
    }


def test_a_record_is_read_without_its_other_fields():
    problem = problems.parse(_RECORD, category='logic')
    assert (problem.prompt, problem.category) == ('Q?', 'logic')
    assert (problem.data['rule'], problem.data['idx']) == ('3', '7')


@pytest.mark.parametrize(
    ('record', 'message'),
    [
        ('Q?', 'as an object, not as text'),
        ({}, r"no field 'idx'; have \[\]"),
        (_RECORD | {'question': ' '}, "field 'question' must be text"),
        (_RECORD | {'idx': 7}, "field 'idx' must be text"),
        (_RECORD | {'idx': 'vii'}, "field 'idx' is not a number: 'vii'"),
        (_RECORD | {'rule_id': '²'}, "field 'rule_id' is not a number"),
        (_RECORD | {'answer': 'A'}, r"the answer is not in \[\[...\]\]: 'A'"),
        (_RECORD | {'answer': '[[]]'}, 'the answer is not in'),
    ],
)
def test_a_malformed_record_is_an_error(record, message):
    with pytest.raises(ValueError, match=message):
        problems.parse(record, category='logic')


def test_equal_problems_have_one_hash_and_rules_set_them_apart():
    def digest(**changes):
        record, kind = _RECORD | changes, changes.pop('category', 'logic')
        return problems.content_hash(problems.parse(record, category=kind))

    assert digest(idx='9', question=' q? ') == digest()
    assert len({digest(), digest(rule_id='4'), digest(category='puzzle')}) == 3


@pytest.mark.parametrize(
    'file', ['data/cipher/rule.jsonl', 'data/cipher/sample.jsonl', 'zero-shot.yaml']
)
def test_an_absent_file_is_named_with_where_to_get_it(tmp_path, file):
    toy.write(tmp_path)
    (tmp_path / file).unlink()
    message = rf"{file}' of KOR-Bench is absent: git clone .*Apache-2\.0"
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    ('file', 'content', 'message'),
    [
        ('zero-shot.yaml', '{', 'no prompt of cipher: ParserError'),
        ('zero-shot.yaml', '[1]', 'no prompt of cipher: TypeError'),
        ('zero-shot.yaml', 'logic_prompt_format: [a]', 'no prompt of cipher: KeyError'),
        ('zero-shot.yaml', 'cipher_prompt_format: [a, b]', 'cipher: ValueError'),
        ('zero-shot.yaml', 'cipher_prompt_format: [1]', 'cipher: AttributeError'),
        ('zero-shot.yaml', "cipher_prompt_format: ['{}']", 'has not two places {}'),
        ('data/cipher/rule.jsonl', '{"idx": "1"}', "line 1: no text in field 'rule_co"),
        ('data/cipher/rule.jsonl', '[]', "line 1: no text in field 'idx'"),
        ('data/cipher/rule.jsonl', '', "sample.jsonl: line 1: no rule '1' in rule.jso"),
        ('data/cipher/sample.jsonl', '{}', "line 1: no field 'idx'"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, file, content, message):
    toy.write(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path)


def test_the_benchmark_is_read_as_it_is(shared_dir):
    folder = shared_dir / 'data' / 'korbench'
    benchmark = [
        problem
        for category in problems.CATEGORIES
        for problem in problems.read_category(
            category, directory=folder, prompt_file=folder / 'zero-shot.yaml'
        )
    ]
    assert len(benchmark) == 1250
    assert len({(p.category, p.data['rule']) for p in benchmark}) == 125
    # Two of a cipher are there twice.
    assert len({problems.content_hash(p) for p in benchmark}) == 1248
    assert all(p.prompt.endswith('### Answer:\n') for p in benchmark)
    assert max(len(p.prompt) for p in benchmark) == 10_876
