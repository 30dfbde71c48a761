import json

import pytest

from passk_jax.tasks.math import problems
from passk_jax.tasks.task import check_disjoint

FIELDS = {'problem': 'problem', 'answer': 'answer', 'ids': ('id', 'unique_id')}


def read(tmp_path, *files, **fields):
    """Reads files of these lines, each a record or a text."""
    paths = []
    for number, lines in enumerate(files):
        path = tmp_path / f'file{number}.jsonl'
        texts = [x if isinstance(x, str) else json.dumps(x) for x in lines]
        path.write_text('\n'.join(texts) + '\n')
        paths.append(path)
    return problems.read_split([str(path) for path in paths], **FIELDS | fields)


def record(problem, answer='1', **fields):
    return {'problem': problem, 'answer': answer} | fields


def test_problems_are_numbered_through_the_files(tmp_path):
    parsed = read(
        tmp_path,
        [record('a', '1', id='x'), record('b', 2, unique_id=7)],
        ['', record('c', ' 3 ')],
    )
    assert [(p.id, p.category, dict(p.data)) for p in parsed] == [
        (0, 'file0', {'problem': 'a', 'answer': '1', 'id': 'x'}),
        (1, 'file0', {'problem': 'b', 'answer': '2', 'id': '7'}),
        (2, 'file1', {'problem': 'c', 'answer': '3'}),
    ]
    assert parsed[0].prompt == (
        r'Please reason step by step, and put your final answer within \boxed{}.'
        '\n\na'
    )


def test_fields_have_the_names_that_are_given(tmp_path):
    lines = [{'question': 'q', 'solution': 's', 'key': 'k', 'answer': 'no'}]
    (problem,) = read(
        tmp_path, lines, problem='question', answer='solution', ids=('key',)
    )
    assert dict(problem.data) == {'problem': 'q', 'answer': 's', 'id': 'k'}


def test_a_field_may_lie_in_a_list_and_in_an_object(tmp_path):
    lines = [
        {
            'prompt': [{'role': 'user', 'content': 'q'}],
            'reward_model': {'ground_truth': '34'},
            'a.b': 'plain',
        }
    ]
    fields = {'problem': 'prompt.0.content', 'answer': 'reward_model.ground_truth'}
    (problem,) = read(tmp_path, lines, **fields)
    assert dict(problem.data) == {'problem': 'q', 'answer': '34'}
    (problem,) = read(tmp_path, lines, **fields | {'problem': 'a.b'})
    assert problem.data['problem'] == 'plain'
    for absent in ('prompt.1.content', 'prompt.x', 'reward_model.0', 'a.b.c'):
        with pytest.raises(ValueError, match=f"no field '{absent}'; have"):
            read(tmp_path, lines, **fields | {'problem': absent})


def test_what_stands_before_the_problem_in_its_chat_stays_before_it(tmp_path):
    system = {'role': 'system', 'content': 'Be brief.'}
    chats = [[system, {'role': 'user', 'content': text}] for text in 'pqr']
    lines = [record('', i, chat=chat) for i, chat in enumerate(chats)]
    read_problems = read(tmp_path, lines, problem='chat')
    assert [p.data['problem'] for p in read_problems] == list('pqr')
    assert {p.turns for p in read_problems} == {(('system', 'Be brief.'),)}
    assert all('Be brief.' not in p.prompt for p in read_problems)
    with pytest.raises(ValueError, match="is the system's turn: name the chat, 'chat'"):
        read(tmp_path, lines, problem='chat.0.content')


def test_a_field_that_is_the_same_in_all_rows_is_refused(tmp_path):
    lines = [record(text, i, style='rule') for i, text in enumerate('pqr')]
    for field in ('problem', 'answer'):
        with pytest.raises(ValueError, match=r"field 'style' is the same .*all 3 rows"):
            read(tmp_path, lines, **{field: 'style'})
    # Copies of one row are repeats, and two rows may agree by chance.
    assert len(read(tmp_path, [record('p')] * 3)) == 1
    assert len(read(tmp_path, [record('p'), record('q')])) == 2


def test_repeats_and_problems_without_an_answer_are_left_out(tmp_path, caplog):
    parsed = read(
        tmp_path,
        [record('Find x.'), record('empty', ' '), record('find\n  X. ', '2')],
        [record('Find x.'), record('find y.')],
    )
    assert [(p.id, p.data['answer']) for p in parsed] == [(0, '1'), (1, '1')]
    assert 'file0.jsonl: left out 1 problems without a gold and 1' in caplog.text
    assert 'file1.jsonl: left out 0 problems without a gold and 1' in caplog.text


def test_golds_that_stand_for_none_are_left_out_and_counted(tmp_path, caplog):
    nothing = ['proof', 'Proof', 'notfound', 'NaN', float('nan'), None, '', ' null ']
    lines = [record(f'{i}', gold) for i, gold in enumerate([*nothing, 'none', '5'])]
    parsed = read(tmp_path, lines)
    assert [p.data['answer'] for p in parsed] == ['none', '5']
    assert f'left out {len(nothing)} problems without a gold' in caplog.text


@pytest.mark.parametrize(
    ('line', 'message'),
    [
        ('nonsense', r'line 2: not JSON'),
        ('[' * 100_000, r'line 2: not JSON'),
        ('[]', r'line 2: give a problem as a record'),
        ({'answer': '1'}, r"line 2: no field 'problem'; have \['answer'\]"),
        ({'problem': 'a'}, r"line 2: no field 'answer'"),
        (record(' '), r"line 2: field 'problem' must be text"),
        (record(3), r"line 2: field 'problem' must be text"),
        (record('a', True), r"line 2: the gold, field 'answer', must be text or a num"),
        (record('a', {'b': '1'}), r"line 2: the gold, field 'answer', must be text"),
        (record('a', ['1', '2']), r"line 2: the gold, field 'answer', has 2 answers"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    with pytest.raises(ValueError, match=r'file0.jsonl: ' + message):
        read(tmp_path, [record('good'), line])


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path, what in ((tmp_path / 'x.jsonl', 'are absent'), (tmp_path, 'cannot be')):
        with pytest.raises(ValueError, match=f"problems '{path}' {what}"):
            problems.read_split([str(path)], **FIELDS)
    (tmp_path / 'latin').write_bytes(b'\xff')
    with pytest.raises(ValueError, match=r'cannot be read: .*utf-8'):
        problems.read_split([str(tmp_path / 'latin')], **FIELDS)


def test_a_problem_of_two_splits_is_named(tmp_path):
    a, b, again = (
        problems.parse(record(text)) for text in ('Find $a$.', 'find b', 'FIND  $a$.')
    )
    check_disjoint({'train': [a, a], 'test': [b]}, digest=problems.content_hash)
    message = r"1 problems lie .* problem 0 of 'train' .* problem 0 of 'test' .*'FIND  "
    with pytest.raises(ValueError, match=message):
        check_disjoint(
            {'train': [a, b], 'validation': [], 'test': [again]},
            digest=problems.content_hash,
        )


def test_the_benchmarks_are_read_as_they_are(shared_dir):
    data = shared_dir / 'data'
    counts = {
        'aime/aime_2024': 30,
        'aime/aime_2025': 30,
        'olymmath/OlymMATH-EN-EASY': 100,
        'olymmath/OlymMATH-EN-HARD': 100,
        'olymmath/OlymMATH-ZH-EASY': 100,
        'olymmath/OlymMATH-ZH-HARD': 100,
        'math_train/aime_1983_2023': 975,
        'math_train/math500_test': 500,
        # Two of its 7,474 have no answer, and one is there twice.
        'math_train/math_train': 7471,
    }
    for name, count in counts.items():
        parsed = problems.read_split([str(data / f'{name}.jsonl')], **FIELDS)
        assert len(parsed) == count
        assert ('id' in parsed[0].data) == (
            name.partition('/')[2] not in ('aime_1983_2023', 'math_train')
        )


def test_the_files_of_the_reported_cases_are_read(shared_dir, tmp_path):
    if not (cases := shared_dir / 'cases' / 'data').is_dir():
        pytest.skip('no ../shared/cases here')
    names = [*cases.glob('*.jsonl*'), *cases.glob('*.json'), *cases.glob('*.parquet')]
    assert names
    for name in names:
        fields = {}
        if name.suffix == '.parquet':
            fields = {'problem': 'prompt', 'answer': 'reward_model.ground_truth'}
        problems_read = problems.read_split([str(name)], **FIELDS | fields)
        texts = [p.data['problem'] for p in problems_read]
        assert texts == [f'What is {i}+{i}?' for i in (1, 2, 3)]
