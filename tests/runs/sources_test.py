"""A run goes on, is evaluated and exported with the model's files it began with."""

import dataclasses
import json
import pathlib

import pytest

from passk_jax import evaluate, export
from passk_jax.models.hf import config as hf_config
from passk_jax.runs.sources import check_sources, remember_sources
from tests import tiny
from tests.initial.params_test import of_hf
from tests.train_test import begin


@pytest.fixture
def source(tmp_path):
    """A model's directory; weights and notes in it are not part of what is kept."""
    directory = tmp_path / 'model'
    directory.mkdir()
    (directory / 'config.json').write_text('{"rope_theta": 10000}')
    (directory / 'tokenizer.json').write_text('{}')
    (directory / 'chat_template.jinja').write_text('{{ messages }}')
    (directory / 'model.safetensors').write_bytes(b'weights')
    return directory


def model_of(source, **changes):
    model = tiny.make_config().model
    return dataclasses.replace(model, source=str(source), **changes)


def edit(source):
    (source / 'config.json').write_text('{"rope_theta": 1000000}')


def test_the_digests_are_those_of_the_files_that_decide(source, tmp_path):
    other = tmp_path / 'other'
    other.mkdir()
    (other / 'tokenizer.json').write_text('{"own": true}')
    remember_sources(tmp_path, model_of(source, tokenizer=str(other)), begun=False)
    digests = json.loads((tmp_path / 'sources.json').read_text())
    assert digests.keys() == {str(source), str(other)}
    assert digests[str(source)].keys() == {
        'config.json',
        'tokenizer.json',
        'chat_template.jinja',
    }
    assert digests[str(other)].keys() == {'tokenizer.json'}


@pytest.mark.parametrize(
    ('file', 'text'),
    [
        ('config.json', '{"rope_theta": 1000000}'),
        ('chat_template.jinja', 'other'),
        ('tokenizer.json', None),
        ('generation_config.json', '{}'),
    ],
)
def test_a_file_that_changed_came_or_went_is_named(source, tmp_path, file, text):
    model = model_of(source)
    remember_sources(tmp_path, model, begun=False)
    check_sources(tmp_path, model)
    (source / 'model.safetensors').write_bytes(b'others')
    check_sources(tmp_path, model)
    if text is None:
        (source / file).unlink()
    else:
        (source / file).write_text(text)
    with pytest.raises(ValueError, match=rf"\['{file}'\] of .*model' changed since"):
        check_sources(tmp_path, model)


@pytest.mark.parametrize('kind', ['processor', 'preprocessor'])
def test_the_processor_of_pictures_is_remembered_by_new_runs(kind, source, tmp_path):
    file, model = source / f'{kind}_config.json', model_of(source)
    file.write_text('{"patch_size": 14}')
    remember_sources(tmp_path, model, begun=False)
    file.write_text('{"patch_size": 16}')
    with pytest.raises(ValueError, match=rf"'{kind}_config.json'\] of .* ch"):
        check_sources(tmp_path, model)
    # That of an earlier version had no digest of it.
    old = json.loads((tmp_path / 'sources.json').read_text())
    del old[str(source)][file.name]
    (tmp_path / 'sources.json').write_text(json.dumps(old))
    check_sources(tmp_path, model)


def test_a_run_that_has_not_begun_takes_the_files_as_they_are(source, tmp_path):
    model = model_of(source)
    remember_sources(tmp_path, model, begun=False)
    edit(source)
    remember_sources(tmp_path, model, begun=False)
    check_sources(tmp_path, model)


def test_a_run_of_an_earlier_version_gets_its_digests_when_it_is_resumed(
    source, tmp_path
):
    model = model_of(source)
    check_sources(tmp_path, model)
    remember_sources(tmp_path, model, begun=True)
    edit(source)
    with pytest.raises(ValueError, match='changed since the run'):
        remember_sources(tmp_path, model, begun=True)


def test_a_run_without_a_source_has_none_to_remember(tmp_path):
    remember_sources(tmp_path, tiny.make_config().model, begun=False)
    assert not list(tmp_path.iterdir())


def test_every_command_refuses_a_source_that_changed(source, tmp_path):
    workdir = tmp_path / 'run'
    changes = {key.replace('__', '.'): value for key, value in of_hf(source).items()}
    assert begin(workdir, **changes) == 0
    (workdir / 'metrics.jsonl').touch()
    assert begin(workdir, **changes) == 0
    edit(source)
    for command in (
        lambda: begin(workdir, **changes),
        lambda: evaluate.main(workdir=str(workdir)),
        lambda: export.main(workdir=str(workdir), out=str(tmp_path / 'out')),
    ):
        with pytest.raises(ValueError, match=r"\['config.json'\] of .* changed since"):
            command()


def test_a_hub_name_may_have_a_revision(monkeypatch, tmp_path):
    downloads = []

    def download(name, **options):
        downloads.append((name, options['revision']))
        return str(tmp_path)

    monkeypatch.setattr(hf_config, 'snapshot_download', download)
    for source in ('Qwen/Qwen2.5-7B', 'Qwen/Qwen2.5-7B@refs/pr/3', 'gpt2@a1b2c3'):
        assert hf_config.source_directory(source, ['config.json']) == tmp_path
    assert downloads == [
        ('Qwen/Qwen2.5-7B', None),
        ('Qwen/Qwen2.5-7B', 'refs/pr/3'),
        ('gpt2', 'a1b2c3'),
    ]
    for source in ('Qwen/Qwen2.5-7B@', 'a@b@c', '@main'):
        with pytest.raises(ValueError, match='neither a directory nor a hub name'):
            hf_config.source_directory(source, ['config.json'])


def test_a_file_of_a_users_own_is_remembered_and_checked_where_it_is_read(tmp_path):
    model = tiny.make_config().model
    task, advantage = (str(tmp_path / f'{name}.py') for name in ('task', 'advantage'))
    for file in (task, advantage):
        pathlib.Path(file).write_text('X = 1')
    config = {'task': {'name': f'{task}:X'}, 'advantage': {'name': f'{advantage}:X'}}
    remember_sources(tmp_path, model, config, begun=False)
    remember_sources(tmp_path, model, config, begun=True)
    pathlib.Path(advantage).write_text('X = 2')
    # An evaluation reads no advantage.
    check_sources(tmp_path, model, config['task'])
    with pytest.raises(ValueError, match=r"\['advantage.py'\] of .* changed since the"):
        remember_sources(tmp_path, model, config, begun=True)
    pathlib.Path(task).unlink()
    with pytest.raises(ValueError, match=r'task\.py: no such file'):
        check_sources(tmp_path, model, config['task'])


def test_a_run_that_lost_its_digests_is_refused(source, tmp_path):
    workdir = tmp_path / 'run'
    changes = {key.replace('__', '.'): value for key, value in of_hf(source).items()}
    assert begin(workdir, **changes) == 0
    (workdir / 'metrics.jsonl').touch()
    text = (workdir / 'sources.json').read_text()
    (workdir / 'sources.json').unlink()
    with pytest.raises(ValueError, match=r'lacks what its run wrote: sources\.json\.'):
        begin(workdir, **changes)
    for damaged in ('{}', json.dumps({str(source): 3}), text.replace('config', 'x')):
        (workdir / 'sources.json').write_text(damaged)
        with pytest.raises(ValueError, match=r'has no digests of|changed since'):
            begin(workdir, **changes)
    (workdir / 'sources.json').write_text(text)
    assert begin(workdir, **changes) == 0
