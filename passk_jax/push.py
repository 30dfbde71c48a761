"""Uploads an exported policy to the Hugging Face hub, with a model card from its run.

    python -m passk_jax.push --workdir=runs/maze_tiny --exported=runs/maze_tiny/hf \\
        --repo=me/maze-tiny --private

Run ``export`` first. This command adds curves.png and the model card, README.md, to the
exported directory, but never replaces a README.md. ``--dry_run`` writes both files and
uploads nothing, so that you can edit them first. An existing repository needs
``--overwrite``, which adds a commit to it. The login is that of ``hf auth login``.
"""

import contextlib
import importlib.metadata
import pathlib
import platform
import re
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from passk_jax import cli, tasks
from passk_jax.errors import InputError, prefixed
from passk_jax.files import atomic_write_bytes, atomic_write_text, read_json
from passk_jax.models.hf.adapters import CONFIG
from passk_jax.models.hf.config import source_directory
from passk_jax.models.hf.processor import PROCESSOR
from passk_jax.report.model_card import FIGURE, Exported, model_card
from passk_jax.report.run_data import read_run
from passk_jax.report.write import write_curves
from passk_jax.runs.exported import ExportRecord, read_record
from passk_jax.tasks.task import UNDESCRIBED, About

CARD = 'README.md'
_REPO = re.compile(r'[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*')
_PACKAGES = ('jax', 'transformers', 'huggingface_hub')
_EXISTS, _DENIED = 409, (401, 403)


def main(
    *,
    workdir: str,
    exported: str,
    repo: str,
    private: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> None:
    """Writes the card into ``exported``, and uploads that directory to ``repo``."""
    if not _REPO.fullmatch(repo):
        raise InputError(f'{repo=} must be OWNER/NAME, of letters, digits and ._-')
    path, directory = pathlib.Path(workdir), pathlib.Path(exported)
    record = read_record(directory, path)
    write_card(directory, path, repo=repo, record=record)
    if dry_run:
        logging.info('read %s; without --dry_run it goes to %s', directory / CARD, repo)
        return
    url = upload(
        directory,
        repo,
        step=record.step,
        private=private,
        overwrite=overwrite,
        run=path.name,
    )
    logging.info('uploaded %s to %s', directory, url)


def write_card(
    directory: pathlib.Path, workdir: pathlib.Path, *, repo: str, record: ExportRecord
) -> None:
    """Adds curves.png to an export, and README.md unless it has one.

    Raises:
        InputError: the run cannot be read, the directory cannot be written, the export
            has adapters for a base that is not on the hub, or its README.md names
            another repository.
    """
    run = read_run(workdir)
    source = run.option('model.source', '')
    is_published = source and run.option('init.kind') != 'scratch'
    base = source if is_published and not record.is_local else ''
    adapters = directory / CONFIG
    if adapters.is_file():
        name = read_json(adapters).get('base_model_name_or_path')
        # If the base was warm-started, it is a directory beside the adapters.
        if not base or name != base.partition('@')[0]:
            raise InputError(
                f'{directory} has adapters for {name!r}, which is on this machine '
                'only: export the merged model, without --peft'
            )
    with prefixed(f'cannot write in {directory}', OSError):
        curves = workdir / FIGURE
        if not curves.is_file():
            curves = write_curves(run)
        atomic_write_bytes(directory / FIGURE, curves.read_bytes())
        if (directory / CARD).is_file():
            _check_card(directory / CARD, repo)
            logging.info('%s is there and stays: remove it for a new one', CARD)
            return
        kind = 'vision' if (directory / PROCESSOR).is_file() else 'text'
        model = Exported(
            repo=repo,
            step=record.step,
            kind='peft' if adapters.is_file() else kind,
            base=base,
            licence=_licence(source, is_local=record.is_local),
            versions=_versions(),
        )
        text = model_card(run, model, dict(_tasks(run.option('task', {}))))
        atomic_write_text(directory / CARD, text)


def _check_card(card: pathlib.Path, repo: str) -> None:
    """Raises InputError if a card loads models, but does not quote the repository."""
    text = card.read_text(encoding='utf-8', errors='replace')
    loaded = re.findall(r'from_pretrained\(\s*[\'"]([^\'"]+)', text)
    if loaded and not re.search(rf'[\'"]{re.escape(repo)}[\'"]', text):
        raise InputError(
            f'{card} loads {loaded[0]!r}, not {repo!r}: edit it, or remove it for a '
            'new one'
        )


def upload(
    directory: pathlib.Path,
    repo: str,
    *,
    step: int,
    private: bool,
    overwrite: bool,
    run: str,
) -> str:
    """Makes the repository, and uploads the directory; returns the address.

    Raises:
        InputError: there is no login or no network, the hub refuses, or the repository
            exists and ``overwrite`` is false.
    """
    # This import takes a second, and only this function needs it.
    import huggingface_hub

    api = huggingface_hub.HfApi(library_name='passk_jax')
    with _explained(f'{repo} was not made'):
        api.whoami()
        address = api.create_repo(repo, private=private, exist_ok=overwrite)
    with _explained(f'{repo} was made but lacks files: repeat with --overwrite'):
        api.upload_folder(
            repo_id=repo,
            folder_path=directory,
            commit_message=f'Step {step} of the run {run} of passk_jax',
        )
    return str(address)


@contextlib.contextmanager
def _explained(failed: str) -> Iterator[None]:
    """Converts errors of the hub to a line that begins with ``failed``."""
    from huggingface_hub import errors

    try:
        yield
    except errors.LocalTokenNotFoundError as error:
        raise InputError(
            f'{failed}: no login; run hf auth login, or set HF_TOKEN'
        ) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        reason = ' '.join(str(error).split())
        if status == _EXISTS:
            reason = 'it exists; choose another --repo, or add a commit by --overwrite'
        elif status in _DENIED:
            reason = f'the hub refuses this login ({reason}); hf auth whoami shows it'
        raise InputError(f'{failed}: {reason}') from error
    # Without a network, httpx and the system raise other errors.
    except (OSError, ValueError, errors.HTTPError) as error:
        reason = ' '.join(str(error).split())
        raise InputError(f'{failed}, is there a network? {reason}') from error


def _licence(source: str, *, is_local: bool) -> Mapping[str, Any]:
    """Reads the licence from the card of a source; ``{}`` if it cannot be read."""
    import huggingface_hub

    if is_local and not pathlib.Path(source).expanduser().is_dir():
        # The hub may have another model of that name.
        logging.warning('no licence of %s: the directory is not here', source)
        return {}
    try:
        path = source_directory(source, [CARD]) / CARD if source else None
        if path is None or not path.is_file():
            return {}
        fields = huggingface_hub.ModelCard.load(path).data.to_dict()
    # A card may be any text, and its YAML header may have any form.
    except Exception as error:
        logging.warning('no licence of %s: %s', source, ' '.join(str(error).split()))
        return {}
    return {key: x for key, x in fields.items() if key.startswith('license') and x}


def _tasks(task: Mapping[str, Any]) -> Iterator[tuple[str, About]]:
    """Yields the task of a section ``task``; for a mixture, the tasks of its parts."""
    params = task.get('params', {})
    if task.get('name') == 'mixture':
        for part in params['parts'].values():
            yield from _tasks({'name': part['task'], 'params': part['params']})
        return
    try:
        yield task['name'], tasks.task_class(task['name']).about
    except InputError:
        yield task['name'], UNDESCRIBED


def _versions() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {'python': platform.python_version(), **versions}


if __name__ == '__main__':
    cli.run(main)
