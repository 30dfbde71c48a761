"""Records the run and step of an exported model, which ``push`` reads."""

import json
import pathlib

from passk_jax.errors import InputError, prefixed
from passk_jax.files import atomic_write_text, read_json
from passk_jax.runs.saved_config import config_file

RECORD = 'passk_run.json'
# Keys of the config that identify a run; others may change when it resumes.
_IDENTITY = ('name', 'seed', 'task', 'model', 'init', 'advantage')


def write_record(directory: pathlib.Path, workdir: pathlib.Path, *, step: int) -> None:
    """Writes the step and the run's config into the directory of an export."""
    record = {'step': step, 'config': read_json(config_file(workdir))}
    atomic_write_text(directory / RECORD, json.dumps(record, indent=2) + '\n')


def read_step(directory: pathlib.Path, workdir: pathlib.Path) -> int:
    """Returns the step of an export.

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
    return record['step']
