"""Stores maze data sets as array_record files, by a TFDS builder without TensorFlow.

A data set's directory is named after a digest of its parameters and the generator's
version, so a change of either makes a new directory. :func:`open_split` prepares a
missing data set under a lock, in a directory that it renames when complete. So neither
concurrent nor killed processes leave an incomplete data set. Nothing here uses the
network.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import filelock
import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from passk_jax.errors import prefixed
from passk_jax.tasks.maze import generator as maze_generator

# Increase this whenever the same parameters give other mazes. Otherwise TFDS would
# reuse a directory of the old generator.
GENERATOR_VERSION = '1.0.0'

DEFAULT_DATA_DIR = '~/.cache/passk_jax'

# Mazes read from a file at a time.
_CHUNK = 4096


@dataclasses.dataclass(kw_only=True)
class MazeConfig(tfds.core.BuilderConfig):
    """Config of a data set; ``values`` are the arguments of ``generate_splits``."""

    values: dict[str, Any]

    @classmethod
    def create(cls, **values: Any) -> 'MazeConfig':
        """Makes a config whose name is the digest of its values."""
        text = json.dumps(values, sort_keys=True).encode('utf-8')
        digest = hashlib.sha256(text).hexdigest()[:16]
        name = f'{values["generator"]}_{digest}'
        # pyrefly: ignore[unexpected-keyword]  # TFDS imports its base class lazily.
        return cls(name=name, values=values)

    def generate(self) -> dict[str, list[str]]:
        """Generates the mazes of every split."""
        return maze_generator.generate_splits(**self.values)


class PasskMaze(tfds.core.GeneratorBasedBuilder):
    """Builder of text mazes; the id of a maze is its index in its split."""

    VERSION = tfds.core.Version(GENERATOR_VERSION)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description='Text mazes: * is a wall, . is free, S the start, E the end.',
            features=tfds.features.FeaturesDict({'maze': tfds.features.Text()}),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager) -> dict[str, Iterator]:
        del dl_manager  # Nothing is downloaded.
        splits = self.builder_config.generate()
        return {name: self._generate_examples(m) for name, m in splits.items() if m}

    def _generate_examples(self, mazes: Sequence[str]) -> Iterator:
        for index, maze in enumerate(mazes):
            yield index, {'maze': maze}

    def _log_download_bytes(self) -> None:
        """Suppresses TFDS's message about downloads, because there are none."""

    _log_download_done = _log_download_bytes


def open_split(
    config: MazeConfig, split: str, *, data_dir: str | os.PathLike[str]
) -> Sequence[str]:
    """Reads the texts of a split's mazes; the first call generates the data set.

    Args:
        config: the data set.
        split: a split that has mazes.
        data_dir: the directory of all data sets; ``''``: ``~/.cache/passk_jax``.

    Raises:
        ValueError: the mazes cannot be generated, or ``data_dir`` cannot be used.
    """
    data_dir = pathlib.Path(data_dir or DEFAULT_DATA_DIR).expanduser().absolute()
    # Otherwise TFDS would first ask its public bucket for a prepared copy.
    tfds.core.utils.gcs_utils._is_gcs_disabled = True
    tfds.disable_progress_bar()
    with prefixed(f'data directory {data_dir} cannot be used', OSError):
        return _read(str(_prepared(config, data_dir)), split)


def _prepared(config: MazeConfig, data_dir: pathlib.Path) -> pathlib.Path:
    """Returns the directory of the complete data set, after generating it if needed."""
    home = data_dir / PasskMaze.name / config.name
    directory = home / GENERATOR_VERSION
    # Only a rename creates this directory, so it is complete. It may be read-only.
    if directory.is_dir():
        return directory
    home.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(home / 'prepare.lock'):
        if directory.is_dir():
            return directory
        # A killed process left it, because TFDS renames such a directory at the end.
        for half in home.glob('incomplete.*'):
            shutil.rmtree(half)
        logging.info('generating mazes in %s', directory)
        with _warnings_off():
            builder = PasskMaze(config=config, data_dir=data_dir)
            builder.download_and_prepare(file_format='array_record')
    return directory


@contextlib.contextmanager
def _warnings_off() -> Iterator[None]:
    """Silences TFDS, which reports every file and warns about configs not listed."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@functools.lru_cache(maxsize=8)
def _read(directory: str, split: str) -> tuple[str, ...]:
    with _warnings_off():
        builder = tfds.builder_from_directory(directory)
        # pyrefly: ignore[bad-argument-type]  # TFDS's decorator has no self.
        source: Any = builder.as_data_source(split)
    mazes: list[str] = []
    for start in range(0, len(source), _CHUNK):
        end = min(start + _CHUNK, len(source))
        records = source.__getitems__(list(range(start, end)))
        mazes.extend(np.asarray(r['maze']).item().decode('ascii') for r in records)
    return tuple(mazes)
