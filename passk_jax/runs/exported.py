"""Records the run and step of an exported model, which ``push`` reads."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from passk_jax.errors import InputError, prefixed
from passk_jax.files import atomic_write_text, read_json
from passk_jax.runs.saved_config import config_file

RECORD = 'passk_run.json'
# Keys of the config that identify a run; others may change when it resumes.
_IDENTITY = ('name', 'seed', 'task', 'model', 'init', 'advantage')


@dataclasses.dataclass(frozen=True)
class ExportRecord:
    """The record of an export.

    Attributes:
        step: the step of its weights.
        is_local: whether ``model.source`` of the run was a directory, which a name such
            as ``models/smollm2`` does not tell from a name on the hub.
    """

    step: int
    is_local: bool


def write_record(directory: pathlib.Path, workdir: pathlib.Path, *, step: int) -> None:
    """Writes the step and the run's config into the directory of an export."""
    config = read_json(config_file(workdir))
    record = {'step': step, 'is_local': _is_local(config), 'config': config}
    atomic_write_text(directory / RECORD, json.dumps(record, indent=2) + '\n')


def read_record(directory: pathlib.Path, workdir: pathlib.Path) -> ExportRecord:
    """Returns the record of an export.

    Raises:
        InputError: ``directory`` is no export, or it is an export of another run.
    """
    config = config_file(workdir)
    path = directory / RECORD
    if not path.is_file():
        raise InputError(
            f'{directory} is no export: {path} is absent; make one by '
            f'passk export --workdir={workdir} --out={directory}'
        )
    with prefixed(path):
        record, now = read_json(path), read_json(config)
        if not isinstance(record, dict) or not isinstance(record.get('step'), int):
            raise InputError('it is no record of an export')
        then = record.get('config')
        if not isinstance(then, dict) or not isinstance(now, dict):
            raise InputError('it has no config')
        if changed := [x for x in _IDENTITY if then.get(x) != now.get(x)]:
            raise InputError(f'it is from another run than {workdir}: {changed} differ')
    # Exports of earlier versions do not say whether the source was a directory.
    is_local = record.get('is_local', _is_local(then))
    return ExportRecord(record['step'], bool(is_local))


def _is_local(config: Mapping[str, Any]) -> bool:
    source = config.get('model', {}).get('source', '')
    return bool(source) and pathlib.Path(source).expanduser().is_dir()
