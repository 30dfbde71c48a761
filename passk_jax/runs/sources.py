"""Records digests of a run's input files, and checks them when the run resumes.

``<workdir>/sources.json`` has the SHA-256 digests of the model's configuration,
generation config, processor of pictures and tokenizer with its chat template, and of
the user's Python files (plugins.py). It does not cover the weights, because a run reads
them only once.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
from absl import logging

from passk_jax import plugins
from passk_jax.config import ModelConfig
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text
from passk_jax.models.hf.config import read_json, source_directory
from passk_jax.models.hf.processor import FILES as PROCESSOR_FILES
from passk_jax.models.tokenizer import TEMPLATE_FILE, TOKENIZER_FILES
from passk_jax.runs.digests import digest

_NAME = 'sources.json'
_FILES = (
    *('config.json', 'generation_config.json'),
    *(*PROCESSOR_FILES, *TOKENIZER_FILES),
)

Digests = dict[str, dict[str, str]]


def remember_sources(
    workdir: pathlib.Path, model: ModelConfig, settings: Any = (), *, begun: bool
) -> None:
    """Writes the digests of a run's sources, or checks those of a run that has begun.

    A run that lost its digests and may go on (see ``--accept_loss``) gets new ones.

    Args:
        workdir: the run directory.
        model: the model's configuration, which names its sources.
        settings: a part of the configuration that may name the user's Python files.
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
    """Checks that the sources have not changed since the run began.

    Args:
        workdir, model, settings: as in :func:`remember_sources`; only sources that
            these name are checked.

    Raises:
        ValueError: a file was changed, added or removed; or a source is unreadable.
    """
    if (workdir / _NAME).exists():
        _check(workdir, _digests(model, settings))


def check_files(workdir: pathlib.Path, digests: Mapping[str, str]) -> None:
    """Checks that a run began with these versions of the user's Python files.

    Args:
        workdir: the run directory; one without digests is not checked.
        digests: file -> digest, from :func:`plugins.digests_in`.

    Raises:
        ValueError: a file was changed.
    """
    if digests and (workdir / _NAME).exists():
        _check(workdir, _group_files(digests))


def _check(workdir: pathlib.Path, now: Digests) -> None:
    """Raises ValueError unless the run began with these digests."""
    before = read_json(workdir / _NAME)
    for source in sorted(now):
        old, new = before.get(source), now[source]
        if not isinstance(old, dict):
            raise InputError(
                f'{workdir / _NAME} has no digests of {source!r}: restore it, or '
                'remove it and train with --accept_loss'
            )
        # Older runs have no digest of these files, and may resume.
        later = (*PROCESSOR_FILES, TEMPLATE_FILE)
        if TEMPLATE_FILE in new.keys() - old.keys():
            message = (
                'the run began with the template of the tokenizer of %s, not of %s'
            )
            logging.warning(message, source, TEMPLATE_FILE)
        new = {k: x for k, x in new.items() if k in old or k not in later}
        if changed := sorted(dict(old.items() ^ new.items())):
            raise InputError(
                f'{changed} of {source!r} changed since the run in {workdir} began: '
                'restore what was there, or train in another workdir'
            )


def missing_sources(workdir: pathlib.Path, model: ModelConfig) -> list[str]:
    """Returns the name of the file of digests if it is missing; else nothing."""
    return [_NAME] if _sources(model) and not (workdir / _NAME).exists() else []


def _digests(model: ModelConfig, settings: Any) -> Digests:
    """Returns source -> file name -> digest."""
    of_models = {source: dict(_files(source)) for source in sorted(_sources(model))}
    return of_models | _group_files(plugins.digests_in(settings))


def _group_files(digests: Mapping[str, str]) -> Digests:
    return {file: {pathlib.Path(file).name: x} for file, x in digests.items()}


def _sources(model: ModelConfig) -> set[str]:
    return {model.source, model.tokenizer} - {'', 'source', 'characters'}


def _files(source: str) -> Iterator[tuple[str, str]]:
    directory = source_directory(source, _FILES)
    for pattern in _FILES:
        for path in directory.glob(pattern):
            yield path.name, digest(path)
