import json
import os
import subprocess
import sys

import pytest

from passk_jax import score, tasks
from passk_jax.types import Verdict
from tests.tasks.custom_class_test import GOOD
from tests.tasks.toy import LastDigit

_MAZE = '*****\n*S.E*\n*****\n'


def _score(tmp_path, content, task='maze', **options):
    source, target = tmp_path / 'in.jsonl', tmp_path / 'out.jsonl'
    source.write_bytes(content)
    num_malformed = score.score_file(
        task, input_path=str(source), output_path=str(target), **options
    )
    lines = target.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b'\n') for line in lines)
    return [json.loads(line) for line in lines], num_malformed


def test_each_line_comes_back_with_its_verdict(tmp_path):
    records = [
        {'problem': _MAZE, 'response': r'so \boxed{R r}', 'id': 7, 'note': 'é→'},
        {'problem': _MAZE, 'response': 'U'},
        {'correct': 'old', 'problem': _MAZE, 'response': ''},
    ]
    content = '\n'.join(json.dumps(record) for record in records).encode()
    results, num_malformed = _score(tmp_path, content)
    assert num_malformed == 0
    assert results == [
        records[0] | {'correct': True, 'parsed': 'RR', 'error': None},
        records[1]
        | {'correct': False, 'parsed': 'U', 'error': 'stepped on a wall at move 1'},
        records[2] | {'correct': False, 'parsed': '', 'error': 'no moves'},
    ]


@pytest.mark.parametrize(
    ('line', 'error'),
    [
        (b'', 'empty line'),
        (b'{"problem": 1', 'not JSON'),
        (b'{"problem": NaN}', 'not JSON: NaN'),
        (b'{"problem": "S.E", "response": "R", "id": -1e999}', 'not JSON: -1e999'),
        (b'[1]', 'not an object'),
        (b'{"response": "R"}', "no field 'problem'"),
        (b'{"problem": "S.E"}', "no field 'response'"),
        (b'{"problem": 3, "response": "R"}', "'problem' is not text or an object"),
        (b'{"problem": {}, "response": "R"}', 'give a maze as text'),
        (b'{"problem": "S.E", "response": 3}', "field 'response' is not text"),
        (b'{"problem": "S..", "response": "R"}', 'malformed maze: no E'),
        (b'\xff', 'utf-8'),
        # Since Python 3.14, 'Stack overflow'.
        (b'[' * 100_000, 'not JSON: '),
        (b'1' * 10_000, 'digits'),
    ],
)
def test_a_malformed_line_does_not_stop_the_others(line, error, tmp_path, caplog):
    good = json.dumps({'problem': _MAZE, 'response': 'RR'}).encode()
    results, num_malformed = _score(tmp_path, good + b'\n' + line + b'\n' + good)
    assert num_malformed == 1
    assert results[0]['correct']
    assert results[2]['correct']
    malformed = results[1]
    assert error in malformed.pop('error')
    assert malformed.items() >= {'line': 2, 'correct': False, 'parsed': ''}.items()
    assert 'line 2' in caplog.text


def test_text_that_is_no_unicode_scalar_survives(tmp_path):
    record = {'problem': _MAZE, 'response': 'RR \ud800'}
    results, _ = _score(tmp_path, json.dumps(record).encode())
    assert results[0]['response'] == record['response']
    assert results[0]['correct']


def test_an_empty_input_gives_an_empty_output(tmp_path):
    assert _score(tmp_path, b'') == ([], 0)


def test_scores_are_those_of_the_task():
    line = json.dumps({'problem': _MAZE, 'response': 'R'}).encode()
    [(result, malformed)] = score.score_lines([line], task=tasks.task_class('maze'))
    assert not malformed
    assert result['error'] == 'ended at . not E'


class Numbers(LastDigit):
    """A task whose problems are records."""

    @staticmethod
    def parse_problem(record):
        if not isinstance(record, dict):
            raise ValueError('not a record')
        return LastDigit.parse_problem(record['number'])


def test_a_problem_may_be_the_record_of_a_benchmark():
    record = {'problem': {'number': '13', 'source': 'a book'}, 'response': 'so 3'}
    text = record | {'problem': '13'}
    lines = [json.dumps(problem).encode() for problem in (record, text)]
    (first, _), (second, malformed) = score.score_lines(lines, task=Numbers)
    assert first == record | {'correct': True, 'parsed': 'so 3', 'error': None}
    assert malformed
    assert second['error'] == 'not a record'


# The official verifier of binario takes any two numbers.
_BINARIO = {
    'problem': {
        'task': 'binario',
        'prompt': '',
        'answer': '',
        'meta': {'question': '0 _\n_ _'},
    },
    'response': '```\n0 3\n3 0\n```',
}


def test_the_official_verdict_is_another_one(tmp_path):
    line = json.dumps(_BINARIO).encode()
    ([strict], _), ([official], _) = (
        _score(tmp_path, line, 'enigmata', official=choice) for choice in (False, True)
    )
    assert strict['error'] == 'a number is neither 0 nor 1'
    assert official == _BINARIO | {
        'correct': True,
        'parsed': '0 3\n3 0',
        'error': None,
    }


def test_a_task_whose_rule_is_the_official_one_gives_the_same(tmp_path):
    lines = [{'problem': _MAZE, 'response': text} for text in ('R R', 'RU', '')]
    content = '\n'.join(map(json.dumps, lines)).encode()
    assert _score(tmp_path, content, official=True) == _score(tmp_path, content)


def test_a_task_without_an_official_verdict_is_refused_at_once(tmp_path):
    message = r"--official needs .* task 'math' lacks; .*\[.*'enigmata', .*'mmmu'.*\]"
    with pytest.raises(ValueError, match=message):
        score.score_file(
            'math', input_path='absent', output_path='absent/out', official=True
        )


def test_files_that_cannot_be_used_are_named(tmp_path):
    source = tmp_path / 'in.jsonl'
    source.write_text('')
    for input_path, output_path, message in (
        (tmp_path / 'absent', tmp_path / 'out', 'absent.* cannot be read'),
        (tmp_path, tmp_path / 'out', 'cannot be read: Is a directory'),
        (source, tmp_path / 'absent' / 'out', 'absent/out.* cannot be written'),
        (source, tmp_path, 'Is a directory'),
    ):
        with pytest.raises(ValueError, match=message):
            score.score_file(
                'maze', input_path=str(input_path), output_path=str(output_path)
            )


def test_a_failure_leaves_the_old_output(tmp_path, monkeypatch):
    source, target = tmp_path / 'in.jsonl', tmp_path / 'out.jsonl'
    source.write_text(json.dumps({'problem': _MAZE, 'response': 'R'}))
    target.write_text('old')

    def full(*args):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(ValueError, match='No space left'):
        score.score_file('maze', input_path=str(source), output_path=str(target))
    assert target.read_text() == 'old'
    assert sorted(p.name for p in tmp_path.iterdir()) == ['in.jsonl', 'out.jsonl']


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    source = tmp_path / 'in.jsonl'
    source.write_text(json.dumps({'problem': _MAZE, 'response': 'RR'}))
    (tmp_path / 'out').symlink_to('/dev/null')
    (tmp_path / 'full').symlink_to('/dev/full')
    score.score_file('maze', input_path=str(source), output_path=str(tmp_path / 'out'))
    with pytest.raises(ValueError, match=r'full.* cannot be written: .*No space left'):
        score.score_file(
            'maze', input_path=str(source), output_path=str(tmp_path / 'full')
        )
    assert all((tmp_path / name).is_char_device() for name in ('out', 'full'))


def _command(*arguments):
    return subprocess.run(
        [sys.executable, '-m', 'passk_jax.score', *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_exits_with_1_for_a_malformed_line(tmp_path):
    source, target = tmp_path / 'in.jsonl', tmp_path / 'out.jsonl'
    good = json.dumps({'problem': _MAZE, 'response': 'RR'})
    arguments = ['--task=maze', f'--input={source}', f'--output={target}']
    source.write_text(f'{good}\nnonsense\n')
    result = _command(*arguments)
    assert result.returncode == 1
    assert 'line 2: not JSON' in result.stderr
    assert len(target.read_text().splitlines()) == 2
    source.write_text(f'{good}\n')
    result = _command(*arguments, '--official')
    assert (result.returncode, result.stdout + result.stderr) == (0, '')


def test_the_command_says_which_input_is_missing(tmp_path):
    result = _command('--task=maze', '--input=absent', f'--output={tmp_path / "out"}')
    assert result.returncode == 2
    assert "input 'absent' cannot be read" in result.stderr
    assert 'Traceback' not in result.stderr


def test_a_malformed_object_keeps_what_names_it():
    line = json.dumps({'problem': 'SS', 'response': 'R', 'id': 7}).encode()
    [(result, malformed)] = score.score_lines([line], task=tasks.task_class('maze'))
    assert malformed
    assert result['id'] == 7
    assert result['problem'] == 'SS'
    assert not result['correct']


def test_a_task_that_reads_no_records_is_refused_once(tmp_path, elsewhere):
    """A task of a user's own needs no parse_problem for anything else."""
    (elsewhere / 'my.py').write_text(GOOD)
    words = r'^my\.py, line 4 \(Mine\) has no parse_problem\(record\), which makes'
    with pytest.raises(ValueError, match=words):
        _score(tmp_path, b'{"problem": "a", "response": "a"}\n', task='my.py:Mine')
    parse = """
    @staticmethod
    def parse_problem(record):
        return Problem(0, record, {}, 'mine')
"""
    (elsewhere / 'read.py').write_text(GOOD + parse)
    line = b'{"problem": "a", "response": "a"}\n'
    ((result,), num_malformed) = _score(tmp_path, line, task='read.py:Mine')
    assert (result['correct'], num_malformed) == (True, 0)


def test_a_verdict_of_a_users_own_that_is_none_is_named(tmp_path, elsewhere):
    text = GOOD.replace("Verdict(response == 'a', response, None)", 'True')
    text += (
        '\n    @staticmethod\n    def parse_problem(record):\n        return record\n'
    )
    (elsewhere / 'none.py').write_text(text)
    line = b'{"problem": "a", "response": "a"}\n'
    ((result,), _) = _score(tmp_path, line, task='none.py:Mine')
    assert result['error'].startswith('none.py, line 10 (Mine.verdict) returned True')


def test_a_response_whose_verdict_raises_is_wrong_and_not_malformed(monkeypatch):
    def verdict(problem, text):
        return Verdict(text[0] == '3', text, None)

    monkeypatch.setattr(Numbers, 'verdict', staticmethod(verdict))
    texts = ['', '3']
    records = [{'problem': {'number': '13'}, 'response': text} for text in texts]
    lines = [json.dumps(record).encode() for record in records]
    (first, malformed), (second, _) = score.score_lines(lines, task=Numbers)
    wrong = {'correct': False, 'parsed': '', 'error': 'the verifier raised an error'}
    assert first == records[0] | wrong
    assert not malformed
    assert second['correct']
