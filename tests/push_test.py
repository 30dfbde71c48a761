"""``passk push``: the card beside an export, and what the hub is asked."""

import json
import shutil
import types
from unittest import mock

import huggingface_hub
import pytest
from huggingface_hub import errors

from passk_jax import export, push
from passk_jax.report.run_data import read_run
from passk_jax.runs.exported import write_record
from tests import tiny

CONFIG = {
    'name': 'tiny',
    'seed': 0,
    'task': {'name': 'maze', 'params': {}},
    'init': {'kind': 'hf'},
    'model': {'source': ''},
    'advantage': {'name': 'pass_at_k', 'k': 4},
}


@pytest.fixture
def workdir(tmp_path):
    """A run and its export, with as little as the command reads."""
    path = tmp_path / 'run'
    (path / 'hf').mkdir(parents=True)
    (path / 'config.json').write_text(json.dumps(CONFIG))
    rows = [{'step': step, 'split': 'test', 'pass_at_1': step / 10} for step in (0, 5)]
    lines = [json.dumps(row) + '\n' for row in rows]
    (path / 'metrics.jsonl').write_text(''.join(lines))
    write_record(path / 'hf', path, step=5)
    (path / 'hf' / 'model.safetensors').write_bytes(b'weights')
    (path / 'curves.png').write_bytes(b'curves')
    return path


@pytest.fixture
def api(monkeypatch):
    """A hub that checks the signatures of the real one; the network is none."""
    api = mock.create_autospec(huggingface_hub.HfApi, instance=True)
    api.create_repo.return_value = 'https://huggingface.co/me/b'
    monkeypatch.setattr(huggingface_hub, 'HfApi', lambda **options: api)
    return api


def run(workdir, **flags):
    flags = {'exported': str(workdir / 'hf'), 'repo': 'me/b'} | flags
    push.main(workdir=str(workdir), **flags)


def refused(status):
    response = types.SimpleNamespace(
        status_code=status, headers={}, request=mock.Mock(), text=''
    )
    return errors.HfHubHTTPError(f'{status} from\nthe hub', response=response)


def change(workdir, **sections):
    """Changes the config of the run, and of its export."""
    (workdir / 'config.json').write_text(json.dumps(CONFIG | sections))
    write_record(workdir / 'hf', workdir, step=5)


def test_the_directory_goes_to_the_repository(workdir, api):
    run(workdir, private=True)
    assert [call[0] for call in api.method_calls] == [
        *('whoami', 'create_repo', 'upload_folder')
    ]
    api.create_repo.assert_called_once_with('me/b', private=True, exist_ok=False)
    uploaded = api.upload_folder.call_args.kwargs
    assert uploaded['folder_path'] == workdir / 'hf'
    assert uploaded['commit_message'] == 'Step 5 of the run run of passk_jax'
    assert {path.name for path in (workdir / 'hf').iterdir()} == {
        *('README.md', 'curves.png', 'model.safetensors', 'passk_run.json')
    }
    assert (workdir / 'hf' / 'curves.png').read_bytes() == b'curves'


def test_a_dry_run_writes_the_card_and_asks_nobody(workdir, api):
    run(workdir, dry_run=True)
    assert not api.method_calls
    card = (workdir / 'hf' / 'README.md').read_text()
    assert '| all | pass@1 | 0.500 | 0.000 |' in card
    assert 'mazes' in card


def test_a_card_that_somebody_changed_is_uploaded_as_it_is(workdir, api):
    run(workdir, dry_run=True)
    (workdir / 'hf' / 'README.md').write_text('mine')
    run(workdir)
    assert (workdir / 'hf' / 'README.md').read_text() == 'mine'
    assert api.upload_folder.call_count == 1


def test_a_card_of_another_repository_is_not_uploaded(workdir, api):
    run(workdir, repo='me/taken', dry_run=True)
    words = r"README\.md loads 'me/taken', not 'me/b': edit it, or remove it"
    with pytest.raises(ValueError, match=words):
        run(workdir)
    assert not api.method_calls
    (workdir / 'hf' / 'README.md').unlink()
    run(workdir)
    assert api.upload_folder.call_count == 1
    # PEFT loads the base by its name first.
    text = "from_pretrained('you/base')\nPeftModel.from_pretrained(base, 'me/b')\n"
    (workdir / 'hf' / 'README.md').write_text(text)
    run(workdir)
    assert api.upload_folder.call_count == 2


def test_curves_are_drawn_where_the_run_has_none(workdir, api):
    (workdir / 'curves.png').unlink()
    run(workdir, dry_run=True)
    assert (workdir / 'hf' / 'curves.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize(
    'repo', ['b', 'me/', '/b', 'me/a/b', 'https://x/me/b', 'a b/c']
)
def test_a_repository_has_an_owner_and_a_name(workdir, api, repo):
    with pytest.raises(ValueError, match=r'repo=.* must be OWNER/NAME'):
        run(workdir, repo=repo)
    assert not api.method_calls


def test_without_an_export_nothing_is_uploaded(workdir, api):
    shutil.rmtree(workdir / 'hf')
    with pytest.raises(ValueError, match=r'hf is no export: .*passk export'):
        run(workdir)
    assert not api.method_calls


@pytest.mark.parametrize(
    ('method', 'error', 'words'),
    [
        (
            'whoami',
            errors.LocalTokenNotFoundError('long\ntext'),
            'me/b was not made: no login; run hf auth login, or set HF_TOKEN',
        ),
        ('whoami', refused(401), 'me/b was not made: the hub refuses this login'),
        ('create_repo', refused(403), 'me/b was not made: the hub refuses this login'),
        ('create_repo', refused(409), 'it exists; choose another --repo, or add a'),
        ('create_repo', refused(500), 'me/b was not made: 500 from the hub'),
        (
            'create_repo',
            errors.HFValidationError('Repo\nid'),
            'me/b was not made, is there a network? Repo id',
        ),
        (
            'whoami',
            errors.OfflineModeIsEnabled('offline mode'),
            'me/b was not made, is there a network? offline mode',
        ),
        ('whoami', ConnectionError('no route'), 'is there a network? no route'),
        ('whoami', errors.HTTPError('name\nnot known'), 'network? name not known'),
        (
            'upload_folder',
            ConnectionError('broken'),
            'me/b was made but lacks files: repeat with --overwrite, is there',
        ),
    ],
)
def test_an_error_of_the_hub_is_one_line(workdir, api, method, error, words):
    getattr(api, method).side_effect = error
    with pytest.raises(ValueError, match=words.replace('?', r'\?')) as caught:
        run(workdir)
    assert '\n' not in str(caught.value)


def test_a_repository_that_exists_gets_a_commit_if_asked(workdir, api):
    run(workdir, overwrite=True)
    assert api.create_repo.call_args.kwargs['exist_ok'] is True


def test_the_base_and_its_licence_come_from_its_own_card(workdir, api, monkeypatch):
    base = workdir / 'base'
    base.mkdir()
    (base / 'README.md').write_text('---\nlicense: gemma\nlanguage: en\n---\n# Base\n')
    monkeypatch.setattr(push, 'source_directory', lambda source, names: base)
    change(workdir, model={'source': 'you/base@v1'})
    run(workdir, dry_run=True)
    card = (workdir / 'hf' / 'README.md').read_text()
    assert 'license: "gemma"' in card
    assert 'base_model: "you/base"' in card
    assert 'language' not in card


@pytest.mark.parametrize('text', ['', '---\nlicense: [\n---\n', '# no head\n', None])
def test_a_base_without_a_readable_card_has_no_known_licence(workdir, api, text):
    base = workdir / 'base'
    base.mkdir()
    if text is not None:
        (base / 'README.md').write_text(text)
    change(workdir, model={'source': str(base)})
    run(workdir, dry_run=True)
    card = (workdir / 'hf' / 'README.md').read_text()
    assert 'license:' not in card.split('---\n')[1]
    # A directory of this machine is no base that the hub knows.
    assert 'base_model' not in card


def test_a_directory_that_is_gone_is_no_name_on_the_hub(
    workdir, api, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'models' / 'a').mkdir(parents=True)
    change(workdir, model={'source': 'models/a'})
    (tmp_path / 'models' / 'a').rmdir()
    monkeypatch.setattr(push, 'source_directory', mock.Mock(side_effect=AssertionError))
    run(workdir, dry_run=True)
    assert 'models/a' not in (workdir / 'hf' / 'README.md').read_text().split('---')[1]


@pytest.mark.parametrize('base', ['/home/me/base', '/out/base'])
def test_adapters_need_a_base_that_others_can_load(workdir, api, base):
    fields = {'base_model_name_or_path': base}
    (workdir / 'hf' / 'adapter_config.json').write_text(json.dumps(fields))
    change(workdir, model={'source': 'you/base'}, init={'kind': 'warm_start'})
    with pytest.raises(ValueError, match=r"adapters for '/.*', which is on this mach"):
        run(workdir)
    assert not api.method_calls


def test_adapters_of_a_published_base_are_loaded_by_peft(workdir, api):
    fields = {'base_model_name_or_path': 'you/base'}
    (workdir / 'hf' / 'adapter_config.json').write_text(json.dumps(fields))
    change(workdir, model={'source': 'you/base@v1'})
    with mock.patch.object(push, 'source_directory', side_effect=ValueError('offline')):
        run(workdir, dry_run=True)
    card = (workdir / 'hf' / 'README.md').read_text()
    assert 'base_model_relation: "adapter"' in card
    assert 'library_name: "peft"' in card


def test_a_mixture_names_the_tasks_of_its_parts(workdir, api):
    parts = {
        'a': {'weight': 1, 'task': 'maze', 'params': {}},
        'b': {'weight': 1, 'task': 'gone.py:Task', 'params': {}},
    }
    change(workdir, task={'name': 'mixture', 'params': {'parts': parts}})
    run(workdir, dry_run=True)
    card = (workdir / 'hf' / 'README.md').read_text()
    assert '| `maze` |' in card
    assert '| `gone.py:Task` | your task |' in card


def test_a_real_run_is_exported_and_described(finished_run, tmp_path, api):
    workdir = tmp_path / 'run'
    shutil.copytree(finished_run, workdir)
    with tiny.devices(1):
        export.main(workdir=str(workdir), out=str(workdir / 'hf'))
    run(workdir, dry_run=True)
    card = (workdir / 'hf' / 'README.md').read_text()
    last = read_run(workdir).evaluations['validation'][-1]
    value, low, high = (last[f'pass_at_1{end}'] for end in ('', '_low', '_high'))
    assert f'| all | pass@1 | {value:.3f} [{low:.3f}, {high:.3f}] |' in card
    assert 'a policy made from scratch' in card
