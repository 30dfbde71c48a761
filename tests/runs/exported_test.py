"""An export names its run and step, and no other run takes it for its own."""

import json

import pytest

from passk_jax.runs.exported import RECORD, read_record, write_record

CONFIG = {'name': 'a', 'seed': 0, 'task': {'name': 'maze'}, 'train': {'steps': 5}}


@pytest.fixture
def workdir(tmp_path):
    (tmp_path / 'config.json').write_text(json.dumps(CONFIG))
    (tmp_path / 'hf').mkdir()
    return tmp_path


def test_the_step_comes_back_although_the_run_has_become_longer(workdir):
    write_record(workdir / 'hf', workdir, step=3)
    longer = CONFIG | {'train': {'steps': 9}}
    (workdir / 'config.json').write_text(json.dumps(longer))
    assert read_record(workdir / 'hf', workdir).step == 3
    assert json.loads((workdir / 'hf' / RECORD).read_text())['config'] == CONFIG


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'seed': 1}, r"from another run than .*: \['seed'\] differ"),
        ({'task': {'name': 'math'}}, r"\['task'\] differ"),
        ({'advantage': {'name': 'rloo'}}, r"\['advantage'\] differ"),
    ],
)
def test_an_export_of_another_run_is_refused(workdir, change, words):
    write_record(workdir / 'hf', workdir, step=3)
    (workdir / 'config.json').write_text(json.dumps(CONFIG | change))
    with pytest.raises(ValueError, match=words):
        read_record(workdir / 'hf', workdir)


@pytest.mark.parametrize('text', ['[]', '{}', 'x', '{"step": "3"}', '{"step": 3}'])
def test_a_damaged_record_is_one_line(workdir, text):
    (workdir / 'hf' / RECORD).write_text(text)
    with pytest.raises(ValueError, match=RECORD) as caught:
        read_record(workdir / 'hf', workdir)
    assert '\n' not in str(caught.value)


def test_a_directory_without_an_export_says_how_to_make_one(workdir):
    with pytest.raises(ValueError, match=r'no export: .* passk export --workdir='):
        read_record(workdir / 'hf', workdir)
    with pytest.raises(ValueError, match='is not a run directory'):
        read_record(workdir / 'hf', workdir / 'hf')
