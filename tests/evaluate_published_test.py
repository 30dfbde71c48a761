"""``python -m passk_jax.evaluate --model``: a published model without a run."""

import json
import logging
import shutil

import pytest

from passk_jax import evaluate, export
from tests import tiny
from tests.models.hf.source import make_source
from tests.tasks import pictured_toy

CONFIG = str(tiny.ROOT / 'tests' / 'tiny.py')


@pytest.fixture(scope='module')
def model(finished_run, tmp_path_factory):
    """The policy of a run as a Hugging Face directory."""
    out = tmp_path_factory.mktemp('exported') / 'out'
    with tiny.devices(1):
        export.main(workdir=str(finished_run), out=str(out))
    return str(out)


def run(workdir, model, *, task=CONFIG, **flags):
    with tiny.devices(1):
        evaluate.main(workdir=str(workdir), model=model, task=task, **flags)
    directory = workdir / 'evaluation' / 'by_command'
    records = max(directory.glob('*.jsonl'), key=lambda path: path.stat().st_mtime_ns)
    return tiny.read_lines(records), json.loads(
        records.with_suffix('.json').read_text()
    )


def test_its_responses_are_those_of_the_run_that_it_comes_from(
    model, finished_run, tmp_path, capsys
):
    published, summary = run(tmp_path / 'published', model, temperature=0.0)
    workdir = shutil.copytree(finished_run, tmp_path / 'run')
    with tiny.devices(1):
        evaluate.main(workdir=str(workdir), temperature=0.0)
    directory = workdir / 'evaluation' / 'by_command'
    (records,) = directory.glob('*temperature=0.0.jsonl')
    of_run = tiny.read_lines(records)
    keys = ('problem_id', 'parsed', 'correct')
    assert [[row[key] for key in keys] for row in published] == [
        [row[key] for key in keys] for row in of_run
    ]
    assert len(of_run) > 3
    # Nobody knows what it was trained on.
    assert summary['left_out']['trained on'] is None
    assert '| tiny |' in capsys.readouterr().out


def test_the_weights_are_among_the_settings(model, tmp_path):
    _, summary = run(tmp_path, model)
    assert 'model.safetensors' in summary['checkpoint']
    before = summary['checkpoint']['model.safetensors']
    assert len(before) == 64


def test_a_response_may_be_shorter(model, tmp_path):
    rows, summary = run(tmp_path, model, max_response_tokens=4)
    assert all(row['response_length'] <= 4 for row in rows)
    assert summary['max_response_tokens'] == 4


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        ({}, '--workdir is required, or --model'),
        ({'model': 'm'}, '--model=m has no task of its own'),
        ({'model': 'm', 'task': 'maze', 'step': 3}, 'leave out --step=3'),
        ({'model': '/absent', 'task': 'maze'}, "model source '/absent' is neither"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    flags, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        evaluate.main(**flags)
    assert not list(tmp_path.iterdir())


def test_a_run_is_no_place_for_the_results_of_a_model(model, finished_run):
    with pytest.raises(ValueError, match='is a run: give --model another --workdir'):
        evaluate.main(model=model, task='maze', workdir=str(finished_run))


def test_responses_without_a_signal_are_warned_of(model, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger='absl'):
        run(tmp_path, model, num_problems=1, num_responses=1)
    assert 'maze test: ' in caplog.text
    assert 'One response: ' in caplog.text


@pytest.mark.slow
def test_benchmarks_with_pictures_are_rows_of_one_table(tmp_path, capsys):
    """The paper's table of them, for a random model, in the layouts users have."""
    sizes = {'max_position_embeddings': 9000, 'num_hidden_layers': 2}
    make_source(tmp_path / 'model', 'qwen3_vl', **sizes)
    data = tmp_path / 'data'
    pictured_toy.write_benchmarks(data)
    names = ('mathvision', 'mmmu')
    with tiny.devices(1):
        evaluate.main(
            workdir=str(tmp_path / 'out'),
            model=str(tmp_path / 'model'),
            task=','.join(names),
            data_dir=str(data),
            num_responses=2,
            max_response_tokens=4,
        )
    rows = [line.split('|') for line in capsys.readouterr().out.splitlines()]
    first = [cells[1].strip() for cells in rows if len(cells) > 2]
    assert all(any(name in cell for cell in first) for name in names), first
    for name in names:
        (file,) = (tmp_path / 'out').rglob(f'*task={name}_*.jsonl')
        lines = tiny.read_lines(file)
        assert [len(line['correct']) for line in lines] == [2, 2], lines[0].keys()
