"""Reads records of problems from local files, files of the hub and TFDS directories.

A name has one of these forms:

* ``train/problems.jsonl``: a file below the data directory.
* ``hf://datasets/OWNER/NAME@REVISION/PATH``: a file of a data set on the Hugging Face
  hub. It is fetched once and then read from the hub's cache, also without a network
  (``HF_HUB_OFFLINE=1``). A revision that is a commit never changes; a branch may.
* ``tfds://DIRECTORY/SPLIT``: a split of a data set that TFDS has prepared with
  ``file_format='array_record'``. ``tfds://gsm8k/1.0.0/train`` is the split ``train`` of
  the directory ``gsm8k/1.0.0`` below the data directory. It needs no TensorFlow.

:mod:`passk_jax.tasks.rows` lists the forms of files.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks import records, rows
from passk_jax.tasks.rows import Records

HOW_TO_GET = 'JSON lines of your own; configs/math.py names repositories with some'
_HUB, _TFDS = 'hf://', 'tfds://'
_HUB_NAME = re.compile(r'hf://datasets/([^/@]+/[^/@]+)@([^/@]+)/(.+)')
_HUB_FORM = 'hf://datasets/OWNER/NAME@REVISION/PATH'
# Records of a TFDS split that are read at a time.
_CHUNK = 4096


@dataclasses.dataclass(frozen=True)
class Source:
    """The records of one name.

    Attributes:
        name: as in the parameters of the task.
        label: the category of its problems.
        unit: what the numbers count, for messages.
        records: pairs of a record and its number, from 1.
        folder: the directory of the file, where paths in records may start.
    """

    name: str
    label: str
    unit: str
    records: Records
    folder: pathlib.Path


def check_files(params: Any, splits: Iterable[str]) -> None:
    """Raises InputError if a name in ``<split>_files`` of a task's parameters is empty.

    A path of that name would be the directory of all files.
    """
    for split in splits:
        if not all(files := getattr(params, f'{split}_files')):
            raise InputError(f'{split}_files={files}: a name is empty')


def read(name: str, *, data_dir: str) -> Source:
    """Reads the source of a name.

    Args:
        name: one of the forms above.
        data_dir: where local names start; ``''``: the working directory.

    Raises:
        ValueError: the source cannot be found, fetched or read.
    """
    if name.startswith(_TFDS):
        path, _, split = name.removeprefix(_TFDS).rpartition('/')
        directory = records.located(path, data_dir)
        label = f'{directory.parent.name}_{split}'
        return Source(name, label, 'record', _tfds(directory, split), directory)
    hub = name.startswith(_HUB)
    file = fetched(name) if hub else records.located(name, data_dir)
    if not file.exists():
        raise InputError(
            f'problems {str(file)!r} are absent: {HOW_TO_GET}; --data_dir '
            '(data.dir of a config) says where such a path starts'
        )
    # The cache links to files whose names are digests.
    unit, records_read = rows.read(file, name=name)
    return Source(name, rows.stem(name), unit, records_read, file.parent)


def is_remote(name: str) -> bool:
    """Returns whether a source is on the hub or of TFDS, and no path."""
    return name.startswith((_HUB, _TFDS))


def fetched(name: str) -> pathlib.Path:
    """Returns the file in the hub's cache, after fetching it if necessary.

    Raises ValueError if the name has another form, or the file cannot be fetched.
    """
    match = _HUB_NAME.fullmatch(name)
    if not match:
        raise InputError(f'{name!r} is not of the form {_HUB_FORM}')
    # Imported here, because it takes a second and only this needs it.
    import huggingface_hub
    from huggingface_hub import errors

    owner_and_name, revision, path = match.groups()
    try:
        downloaded = huggingface_hub.hf_hub_download(
            owner_and_name, path, repo_type='dataset', revision=revision
        )
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError, ValueError) as e:
        reason = ' '.join(str(e).split())
        raise InputError(f'{name!r} is neither cached nor fetched: {reason}') from e
    return pathlib.Path(downloaded)


def _tfds(directory: pathlib.Path, split: str) -> Records:
    if not (directory / 'dataset_info.json').is_file():
        raise InputError(f'{str(directory)!r} is not a prepared data set of TFDS')
    return list(enumerate(_tfds_records(str(directory), split), start=1))


@functools.lru_cache(maxsize=8)
def _tfds_records(directory: str, split: str) -> tuple[dict[str, Any], ...]:
    import tensorflow_datasets as tfds

    # Otherwise TFDS would first ask its public bucket.
    tfds.core.utils.gcs_utils._is_gcs_disabled = True
    try:
        # Its decorator hides its type.
        builder_of: Any = tfds.builder_from_directory
        builder = builder_of(directory)
        if split not in builder.info.splits:
            raise InputError(f'{split!r} is none of {sorted(builder.info.splits)}')
        source = builder.as_data_source(split)
        rows = []
        for start in range(0, len(source), _CHUNK):
            end = min(start + _CHUNK, len(source))
            rows += source.__getitems__(list(range(start, end)))
    # Many kinds: protobuf's, and NotImplementedError where TensorFlow is needed.
    except Exception as e:
        raise InputError(f'TFDS data set {directory!r}, split {split!r}: {e}') from e
    return tuple(map(_plain, rows))


def _plain(value: Any) -> Any:
    """Converts arrays and bytes to numbers and texts; leaves pictures."""
    if isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (np.uint8, 3):
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode('utf-8', 'replace') if isinstance(value, bytes) else value
