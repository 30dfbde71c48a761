"""The files that decide what a run does, besides its code; the run remembers them.

``<workdir>/sources.json`` has the SHA-256 digests of the model's configuration, its
tokenizer with the chat template, its generation config, and the Python files of a
user's own (plugins.py). The weights are not among them: a run reads them once.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import jax

from passk_jax import plugins
from passk_jax.config import ModelConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.models.hf.config import read_json, source_directory
from passk_jax.models.tokenizer import TOKENIZER_FILES
from passk_jax.runs.digests import digest

_NAME = 'sources.json'
_FILES = ('config.json', 'generation_config.json', *TOKENIZER_FILES)

Digests = dict[str, dict[str, str]]


def remember_sources(
    workdir: pathlib.Path, model: ModelConfig, settings: Any = (), *, begun: bool
) -> None:
    """Writes the digests of a run's sources, or checks those of a run that has begun.

    A run that lost them gets those of now, if it may go on (see ``--accept_loss``).

    Args:
        workdir: the run directory.
        model: names the model's sources.
        settings: a part of the configuration, which may name files of a user's own.
        begun: whether the run has begun.

    Raises:
        ValueError: as :func:`check_sources`.
    """
    if begun and (workdir / _NAME).exists():
        check_sources(workdir, model, settings)
    elif jax.process_index() == 0 and (digests := _digests(model, settings)):
        atomic_write_text(workdir / _NAME, json.dumps(digests, indent=2) + '\n')


def check_sources(
    workdir: pathlib.Path, model: ModelConfig, settings: Any = ()
) -> None:
    """Checks that the sources are still those that the run began with.

    Args:
        workdir, model, settings: as in :func:`remember_sources`; a source that these do
            not name is not checked.

    Raises:
        ValueError: a file changed, came or went; or a source cannot be read.
    """
    if not (workdir / _NAME).exists():
        return
    before, now = read_json(workdir / _NAME), _digests(model, settings)
    for source in sorted(now):
        old, new = before.get(source), now[source]
        if not isinstance(old, dict):
            raise InputError(
                f'{workdir / _NAME} has no digests of {source!r}: restore it, or '
                'remove it and train with --accept_loss'
            )
        if changed := sorted(dict(old.items() ^ new.items())):
            raise InputError(
                f'{changed} of {source!r} changed since the run in {workdir} began: '
                'restore what was there, or train in another workdir'
            )


def missing_sources(workdir: pathlib.Path, model: ModelConfig) -> list[str]:
    """Names the file of digests if a run has sources, and the file is gone."""
    return [_NAME] if _sources(model) and not (workdir / _NAME).exists() else []


def _digests(model: ModelConfig, settings: Any) -> Digests:
    """The digest of each file of each source that is there, by source and name."""
    return {source: dict(_files(source)) for source in sorted(_sources(model))} | {
        file: {pathlib.Path(file).name: digest}
        for file, digest in plugins.digests_in(settings).items()
    }


def _sources(model: ModelConfig) -> set[str]:
    return {model.source, model.tokenizer} - {'', 'source', 'characters'}


def _files(source: str) -> Iterator[tuple[str, str]]:
    directory = source_directory(source, _FILES)
    for pattern in _FILES:
        for path in directory.glob(pattern):
            yield path.name, digest(path)
