"""``python -m passk_jax.evaluate``, called as the command calls itself."""

import json
import shutil

import pytest

from passk_jax import evaluate
from tests import tiny
from tests.slow import slow_values


@pytest.fixture
def workdir(finished_run, tmp_path):
    """A finished run to write into."""
    shutil.copytree(finished_run, tmp_path / 'run')
    return tmp_path / 'run'


def run(workdir, *, num_devices=1, **arguments):
    """Calls the command with these flags; returns its records and their summary."""
    with tiny.devices(num_devices):
        evaluate.main(workdir=str(workdir), **arguments)
    directory = workdir / 'evaluation' / 'by_command'
    records = max(directory.glob('*.jsonl'), key=lambda path: path.stat().st_mtime_ns)
    return records, json.loads(records.with_suffix('.json').read_text())


@pytest.mark.parametrize('split', ['validation', 'test'])
def test_it_is_the_evaluation_that_the_run_made_of_its_last_step(
    split, workdir, capsys
):
    records, summary = run(workdir, split=split)
    of_the_run = workdir / 'evaluation' / f'{split}_step_00000005.jsonl'
    assert records.read_bytes() == of_the_run.read_bytes()
    assert records.name == of_the_run.name
    line = tiny.metrics(workdir, split)[-1]
    values = summary['metrics']
    assert values == tiny.measured(line)
    table = dict(row.split() for row in capsys.readouterr().out.splitlines())
    assert table.keys() == values.keys()
    assert float(table['pass_at_4']) == pytest.approx(values['pass_at_4'], abs=1e-4)


def test_an_earlier_checkpoint_is_evaluated_as_it_was_then(workdir):
    records, _ = run(workdir, split='validation', step=4)
    of_the_run = workdir / 'evaluation' / 'validation_step_00000004.jsonl'
    assert records.read_bytes() == of_the_run.read_bytes()


def test_flags_change_how_it_is_evaluated(workdir):
    records, summary = run(
        workdir, split='train', num_problems=3, num_responses=8, temperature=0.5
    )
    assert [row['n'] for row in tiny.read_lines(records)] == [8, 8, 8]
    assert 'pass_at_8' in summary['metrics']


def test_evaluations_of_other_settings_are_beside_each_other_and_say_what_they_are(
    workdir,
):
    first, _ = run(workdir)
    before = first.read_bytes()
    # 4 is the run's own number, so the setting is the same.
    again, summary = run(workdir, num_responses=4)
    assert again == first
    second, other = run(workdir, num_responses=2, temperature=0.5)
    assert second.name == 'test_step_00000005_num_responses=2_temperature=0.5.jsonl'
    assert first.read_bytes() == before
    assert (other['split'], other['step'], other['num_dropped']) == ('test', 5, 0)
    of_run = json.loads((workdir / 'config.json').read_text())['eval']
    assert summary['eval'] == of_run
    assert other['eval'] == of_run | {'num_responses': 2, 'temperature': 0.5}


def test_problems_that_were_dropped_are_counted(workdir):
    """A 3x3 maze is 12 tokens, a 4x4 maze 20."""
    path = workdir / 'config.json'
    config = json.loads(path.read_text())
    config['data'] |= {'max_prompt_tokens': 12, 'overlong': 'drop'}
    path.write_text(json.dumps(config))
    _, summary = run(workdir, split='validation')
    assert summary['num_dropped'] == 4
    assert summary['metrics']['num_problems'] == 2


@pytest.mark.parametrize(
    'mesh', slow_values(['2,1,1,-1', '1,2,1,2,1'], quick=['2,1,1,-1'])
)
def test_another_mesh_gives_the_same_responses(mesh, workdir):
    alone, _ = run(workdir)
    before = tiny.read_lines(alone)
    records, _ = run(workdir, mesh=mesh, num_devices=4)
    assert records == alone
    counts = [(row['n'], row['c'], row['response_length']) for row in before]
    assert counts == [
        (row['n'], row['c'], row['response_length']) for row in tiny.read_lines(records)
    ]


def test_a_run_that_goes_on_keeps_what_was_evaluated_by_command(workdir):
    records, _ = run(workdir, split='validation')
    assert tiny.run(tiny.make_config(), workdir)
    assert records.exists()


def corrupt(workdir):
    for file in (workdir / 'checkpoints' / '5' / 'params').rglob('d/*'):
        file.write_bytes(file.read_bytes()[:-9])


def remove_checkpoints(workdir):
    shutil.rmtree(workdir / 'checkpoints')


def empty_checkpoints(workdir):
    remove_checkpoints(workdir)
    (workdir / 'checkpoints').mkdir()


def remove_config(workdir):
    (workdir / 'config.json').unlink()


def spoil_config(workdir):
    (workdir / 'config.json').write_text('{"name": ')


def empty_config(workdir):
    (workdir / 'config.json').write_text('{}')


def another_model(workdir):
    path = workdir / 'config.json'
    config = json.loads(path.read_text())
    config['model']['arch']['mlp_dim'] = 48
    path.write_text(json.dumps(config))


def test_a_place_for_the_results_is_made_before_the_work(workdir, monkeypatch):
    shutil.rmtree(workdir / 'evaluation')
    (workdir / 'evaluation').touch()
    monkeypatch.setattr(evaluate, 'make_setup', None)
    with pytest.raises(NotADirectoryError, match='evaluation'):
        evaluate.main(workdir=str(workdir))


def test_more_responses_than_memory_are_an_error_before_the_work(workdir, monkeypatch):
    monkeypatch.setattr(evaluate, 'make_setup', None)
    with pytest.raises(ValueError, match=r'eval.num_responses=10000000, .* host'):
        evaluate.main(
            workdir=str(workdir), num_responses=10**7, max_response_tokens=10**6
        )


@pytest.mark.parametrize(
    ('damage', 'message'),
    [
        (corrupt, r'checkpoints/5 is corrupted.*Other checkpoints.*\[4\]'),
        (remove_checkpoints, r'no checkpoint to restore: .*checkpoints does not exist'),
        (empty_checkpoints, r'no checkpoint to restore: .*checkpoints is empty'),
        (remove_config, r'is not a run directory: .*config.json is absent'),
        (spoil_config, r'config.json is not a config: Expecting value'),
        (empty_config, r'config.json is not a config: missing keys'),
        (another_model, r'does not fit this run.*\n.*mlp'),
    ],
)
def test_a_run_that_cannot_be_read_is_an_error_that_says_why(damage, message, workdir):
    damage(workdir)
    with pytest.raises(ValueError, match=message):
        run(workdir, split='validation')


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'step': 3}, r'no checkpoint of step=3 .* there is \(4, 5\)'),
        ({'split': 'tset'}, r"split 'tset' is none of \['train'"),
        ({'num_responses': 0}, r'eval.num_responses=0 must lie in'),
        ({'temperature': -1.0}, r'eval.temperature=-1.0 must be 0 \(greedy\)'),
        ({'top_p': 1.5}, r'eval.top_p=1.5 must lie in \[1e-6, 1\]'),
        ({'top_k': -2}, r'eval.top_k=-2 must lie in'),
        ({'min_p': 2.0}, r'eval.min_p=2.0 must lie in \[0, 1\]'),
        ({'mesh': '1,1,1,1,1,1'}, r"mesh='1,1,1,1,1,1' must be data,fsdp"),
        ({'mesh': '1,1,1,1,2'}, r'mesh.decode_tensor=2 must be 0 .* one of \[1\]'),
        ({'mesh': '1,1,1,1,-1'}, r'mesh.decode_tensor=-1 must lie in'),
        ({'mesh': '1,1'}, r"mesh='1,1' must be data,fsdp,rollout,tensor"),
        ({'mesh': '1,1,1,x'}, r"mesh='1,1,1,x' must be data,fsdp,rollout,tensor"),
        ({'mesh': '3,-1,1,1'}, r"'data': 3, 'fsdp': -1, .* does not fit 1 devices"),
        ({'data_dir': 'x'}, r"data_dir='x' is the place of other tasks"),
        ({'hosts': 'many'}, r"hosts='many' must be 'auto'"),
    ],
)
def test_a_bad_flag_is_an_error(arguments, message, workdir):
    with pytest.raises(ValueError, match=message):
        run(workdir, **arguments)


def test_an_empty_split_is_an_error(workdir):
    path = workdir / 'config.json'
    config = json.loads(path.read_text())
    config['task']['params'] |= {'test_sizes': [], 'test_counts': []}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="split 'test' of the maze task is empty"):
        run(workdir, split='test')
