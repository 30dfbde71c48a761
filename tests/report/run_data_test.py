"""A run directory is read whatever is missing from it."""

import json

import pytest

from passk_jax.report import run_data
from passk_jax.report.write import write_curves, write_report
from tests.slow import slow_values


def _write_lines(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))


def test_an_empty_directory_is_a_run_without_anything(tmp_path):
    run = run_data.read_run(tmp_path)
    assert (run.config, run.git, run.train, run.timing) == ({}, {}, [], [])
    assert (run.evaluations, run.dumps) == ({}, {})
    assert run.option('advantage.name') is None


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match='no run directory at'):
        run_data.read_run(tmp_path / 'nowhere')


def test_lines_cut_short_are_skipped_and_the_others_kept(tmp_path):
    (tmp_path / 'metrics.jsonl').write_text(
        '{"step": 1, "split": "train"}\n{"step": 2, "sp\n7\n'
        '{"step": 0, "split": "test"}\n{"step": 3, "split": "tr'
    )
    (tmp_path / 'config.json').write_text('{"name": ')
    run = run_data.read_run(tmp_path)
    assert run.train == [{'step': 1, 'split': 'train'}]
    assert run.evaluations == {'test': [{'step': 0, 'split': 'test'}]}
    assert run.config == {}


def test_a_response_may_hold_any_character_that_ends_lines_elsewhere(tmp_path):
    rows = [{'step': 0, 'split': 'train', 'text': f'a{c}b'} for c in '\u2028\x85\x1c\r']
    text = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    (tmp_path / 'metrics.jsonl').write_text(text)
    assert run_data.read_lines(tmp_path / 'metrics.jsonl') == rows


def test_each_line_is_read_once_as_the_file_grows(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    reader = run_data.RunReader(tmp_path)
    assert reader.read().train == []
    lines = [json.dumps({'step': s, 'split': 'train', 'x': s}) + '\n' for s in range(5)]
    path.write_text(''.join(lines[:2]) + lines[2][:9])
    assert [row['x'] for row in reader.read().train] == [0, 1]
    # What was read is not read again: it may as well be something else.
    path.write_text('#' * len(''.join(lines[:2])) + ''.join(lines[2:]))
    assert [row['x'] for row in reader.read().train] == [0, 1, 2, 3, 4]
    assert [row['x'] for row in reader.read().train] == [0, 1, 2, 3, 4]


def test_a_long_run_has_a_bounded_number_of_rows_whose_means_are_its_own(tmp_path):
    count = 40_000
    _write_lines(
        tmp_path / 'metrics.jsonl',
        *({'step': s, 'split': 'train', 'reward': s % 4} for s in range(count)),
        *({'step': s, 'split': 'test', 'pass_at_1': 0.5} for s in range(2000)),
    )
    first = {'step': 0, 'seconds': 9.0, 'start_seconds': 9.0, 'decode_seconds': 9.0}
    later = {'seconds': 2.0, 'decode_seconds': 1.0}
    # A process begins at each thousandth step.
    _write_lines(
        tmp_path / 'timing.jsonl',
        *((first if s % 1000 == 0 else later) | {'step': s} for s in range(count)),
    )
    run = run_data.read_run(tmp_path)
    for rows, most in ((run.train, 1002), (run.evaluations['test'], 252)):
        assert most / 2 <= len(rows) <= most
    assert (run.train[0]['step'], run.train[-1]['step']) == (0, count - 1)
    assert {row['reward'] for row in run.train[1:-2]} == {1.5}
    total = sum(row['seconds'] * row.get('mean_of', 1) for row in run.timing)
    assert total == pytest.approx(2.0 * count + 7.0 * count / 1000)
    assert {row['decode_seconds'] for row in run.timing[1:]} == {1.0}


DAMAGE = [
    b'{"step": 1, "split": "train", "reward": "text", "entropy": NaN}',
    b'{"step": 1, "split": "train", "reward": Infinity, "entropy": -Infinity}',
    b'{"step": 1, "split": "train", "reward": 1e999, "entropy": 1e39}',
    b'{"step": 1, "split": "train", "reward": ' + b'9' * 400 + b'}',
    b'{"step": 1, "split": "train", "reward": ' + b'9' * 5000 + b'}',
    b'{"step": ' + b'9' * 400 + b', "split": "train", "reward": 0.5}',
    b'{"step": "1", "split": "train", "reward": 0.5}',
    b'{"step": true, "split": "train", "reward": 0.5}',
    b'{"step": 1.5, "split": "train", "reward": 0.5}',
    b'{"step": -1, "split": "train", "reward": 0.5}',
    b'{"step": null, "split": ["train"], "reward": {"a": 1}}',
    b'{"step": 1, "split": "train", "reward": [0.5], "entropy": false}',
    b'[' * 100_000,
    b'{"step": 1, "split": "train", "reward": ' + b'[' * 3000 + b']' * 3000 + b'}',
    b'\xff\xfe\x00',
    b'',
    b'{"step": 0, "split": "test", "pass_at_0": 0.5, "pass_at_' + b'9' * 400 + b'": 1}',
    b'{"step": 0, "split": "test", "\xc2\xb2/pass_at_1": 0.5, "pass_at_1": "x"}',
    b'{"step": 0, "split": "test", "' + b'9' * 5000 + b'/pass_at_1": 0.5}',
]


@pytest.mark.parametrize('line', slow_values(DAMAGE, quick=DAMAGE[::4]))
def test_values_that_no_run_writes_are_left_out(tmp_path, line):
    rows = [{'step': s, 'split': 'train', 'reward': 0.25} for s in (0, 2)]
    texts = [json.dumps(row).encode() for row in rows]
    content = b'\n'.join([texts[0], line, texts[1], b''])
    for name in ('metrics', 'timing', 'diagnostics'):
        (tmp_path / f'{name}.jsonl').write_bytes(content)
    run = run_data.read_run(tmp_path)
    assert [row['reward'] for row in run.train if 'reward' in row] == [0.25] * 2
    html = write_report(tmp_path).read_text()
    assert 'class="card empty">no r' not in html.replace('no rollouts yet', '')
    assert write_curves(tmp_path).read_bytes().startswith(b'\x89PNG')


def test_lines_that_are_there_twice_or_in_another_order_are_drawn(tmp_path):
    rows = [{'step': s, 'split': 'train', 'reward': 0.5} for s in (3, 0, 1, 1, 2)]
    for name in ('metrics', 'timing', 'diagnostics'):
        _write_lines(tmp_path / f'{name}.jsonl', *rows)
    assert [r['step'] for r in run_data.read_run(tmp_path).train] == [0, 1, 1, 2, 3]
    assert 'aria-label="Training reward"' in write_report(tmp_path).read_text()


def test_dumps_are_in_the_order_of_their_steps(tmp_path):
    for step in (100, 20, 3):
        _write_lines(tmp_path / 'rollouts' / f'step_{step:08d}.jsonl', {})
    (tmp_path / 'rollouts' / 'notes.jsonl').write_text('')
    assert list(run_data.read_run(tmp_path).dumps) == [3, 20, 100]


def test_a_dotted_option_is_found_only_where_every_part_is(tmp_path):
    (tmp_path / 'config.json').write_text('{"a": {"b": 1}, "c": 2}')
    run = run_data.read_run(tmp_path)
    assert run.option('a.b') == 1
    assert run.option('c.b', 'none') == 'none'


def test_ks_and_categories_come_from_the_names_in_numeric_order():
    rows = [
        {'pass_at_16': 0.1, 'pass_at_2': 0.1, 'pass_at_2_low': 0.0, 'entropy': 1.0},
        {'11x11/pass_at_1': 0.1, '9x9/pass_at_32': 0.1, 'easy/pass_at_1': 0.2},
    ]
    assert run_data.ks_of(rows) == [2, 16]
    assert run_data.categories_of(rows) == ['9x9', '11x11', 'easy']


def test_categories_get_every_k_from_the_counts_of_each_problem(tmp_path):
    _write_lines(
        tmp_path / 'evaluation' / 'test_step_00000004.jsonl',
        {'category': 'a', 'n': 4, 'c': 1},
        {'category': 'a', 'n': 4, 'c': 4},
        {'category': 'b', 'n': 4, 'c': 0},
    )
    run = run_data.read_run(tmp_path)
    measures = run_data.measure_categories(run, 'test', 4)
    assert measures == pytest.approx(
        {
            'a/pass_at_1': (1 / 4 + 1) / 2,
            'a/pass_at_2': (1 / 2 + 1) / 2,
            'a/pass_at_4': 1.0,
            'b/pass_at_1': 0.0,
            'b/pass_at_2': 0.0,
            'b/pass_at_4': 0.0,
        }
    )
    assert run_data.measure_categories(run, 'test', 5) == {}


def test_records_of_an_evaluation_keep_their_order_and_their_answers(tmp_path):
    first = {'problem_id': 7, 'n': 2, 'c': 1, 'parsed': ['U', 'R'], 'correct': [0, 1]}
    last = {'problem_id': 3, 'n': 2, 'c': 0}
    half = {'problem_id': 5, 'n': 2}
    file = tmp_path / 'evaluation' / 'test_step_00000004.jsonl'
    _write_lines(file, first, half, last)
    run = run_data.read_run(tmp_path)
    assert run_data.evaluation_records(run, 'test', 4) == [first, last]
    assert run_data.evaluation_records(run, 'validation', 4) == []
    assert run_data.correct_counts(run, 'test', 4) == {7: 1, 3: 0}
