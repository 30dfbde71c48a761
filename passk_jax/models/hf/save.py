"""Writes our parameters as safetensors that transformers and vLLM read.

1. :func:`check_new` checks, before any work, that a directory can be made;
2. :func:`new_directory` makes it, under a temporary name until it is complete;
3. :func:`write_params` writes as many files as the parameters need. All hosts cast and
   gather tensor by tensor; process 0 writes file by file.

weights.py has the names and layouts. config.py writes ``config.json``, and export.py
the other files of a model.
"""

import contextlib
import functools
import json
import math
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax import numpy as jnp
from jax.sharding import NamedSharding
from safetensors.numpy import save_file

from passk_jax.errors import InputError, prefixed
from passk_jax.files import let_others_read
from passk_jax.models.hf.weights import stored_tables
from passk_jax.models.parameters import Parameter, Place, Table, tensors_in_order
from passk_jax.models.policy import Params, Policy
from passk_jax.sharding import replicated

DTYPES = ('bfloat16', 'float32')
"""Dtypes of written weights."""

# A tensor: its name, the parameters in it, in order, and its place in their stack.
_Item = tuple[str, list[str], Place]

_UNFINISHED = '.unfinished'


def check_new(directory: str | os.PathLike[str]) -> None:
    """Checks that :func:`new_directory` can make this directory; changes nothing.

    It does not use JAX, so it may run before the processes are connected.

    Raises:
        InputError: the name is taken or invalid, or its place is not writable.
    """
    path = _resolved(directory)
    _check_free(path)
    with prefixed(f'{path} cannot be made', OSError):
        # new_directory makes the missing directories below this one.
        above = next(parent for parent in path.parents if parent.exists())
        tempfile.TemporaryFile(dir=above).close()


@contextlib.contextmanager
def new_directory(directory: str | os.PathLike[str]) -> Iterator[pathlib.Path | None]:
    """Yields a new directory to fill, which gets its name when the block ends.

    Until then it is ``.<name>.<random>.unfinished`` in the same place. It is removed if
    the block raises. If the process is killed, it stays, and the next process warns.

    Every process must enter, but only process 0 touches the disk, because a late
    process may already see the finished directory.

    Yields:
        The directory on process 0; ``None`` on the others.

    Raises:
        InputError: as for :func:`check_new`; or the directory cannot get its name. It
            then stays, and the message says where.
    """
    if jax.process_index():
        yield None
        return
    path = _resolved(directory)
    _check_free(path)
    with prefixed(f'{path} cannot be made', OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _warn_of_unfinished(path)
        # Renames are atomic within a file system.
        temporary = pathlib.Path(
            tempfile.mkdtemp(_UNFINISHED, f'.{path.name}.', path.parent)
        )
    logging.info('writing to %s until it is complete', temporary)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary)
        raise
    message = f'all is written and stays in {temporary}, which could not become {path}'
    with prefixed(message, OSError):
        let_others_read(temporary, 0o777)
        temporary.replace(path)


def _resolved(directory: str | os.PathLike[str]) -> pathlib.Path:
    """Resolves a path and its links."""
    return pathlib.Path(os.path.realpath(pathlib.Path(directory).expanduser()))


def _check_free(path: pathlib.Path) -> None:
    """Raises InputError if a directory cannot get this name."""
    with prefixed(f'{path} cannot be read', OSError):
        mounted = path.is_mount()
        # A circle of links has no target, but the name is taken.
        occupied = os.path.lexists(path) and (not path.is_dir() or any(path.iterdir()))
    if mounted:
        raise InputError(
            f'{path} is a mount point and cannot be replaced: name a directory in it'
        )
    if occupied:
        raise InputError(f'{path} exists and is not an empty directory: choose another')


def _warn_of_unfinished(path: pathlib.Path) -> None:
    """Warns of directories that killed processes left behind."""
    name = re.compile(re.escape(f'.{path.name}.') + r'[^.]+' + re.escape(_UNFINISHED))
    for sibling in sorted(path.parent.iterdir()):
        if name.fullmatch(sibling.name):
            logging.warning(
                '%s was left by a process that was killed, unless one is writing it '
                'now: delete it',
                sibling,
            )


def write_params(
    policy: Policy,
    params: Params,
    directory: pathlib.Path | None,
    *,
    dtype: str,
    max_shard_bytes: int,
) -> None:
    """Writes ``model.safetensors``, or its parts and their index.

    Tied embeddings are written once. ``params`` are the training parameters; see
    :func:`write_tensors` for the other arguments.
    """
    table, *_ = stored_tables(policy.arch)
    options = {'dtype': dtype, 'max_shard_bytes': max_shard_bytes}
    write_tensors(table, params, directory, stem='model', **options)


def write_tensors(
    table: Table,
    params: Params,
    directory: pathlib.Path | None,
    *,
    dtype: str,
    max_shard_bytes: int,
    stem: str,
) -> None:
    """Writes ``<stem>.safetensors``, or its parts and their index.

    Every process must call it, because all gather tensors; process 0 writes. The host
    holds the tensors of one file at a time, and a device holds one whole tensor.

    Args:
        table: names and layouts of the tensors.
        params: parameters of the table, under any sharding.
        directory: an existing directory; ``None`` on a process that writes nothing.
        dtype: one of :data:`DTYPES`; values are rounded to the nearest.
        max_shard_bytes: limit of a file's tensors; a larger tensor has its own file.
        stem: how the names of the files begin.

    Raises:
        InputError: an unknown dtype, a limit below 1, or parameters that do not match
            the table.
    """
    if unknown := params.keys() - table.keys():
        raise InputError(f'{sorted(unknown)} are none of {list(table)}')
    if dtype not in DTYPES:
        raise InputError(f'{dtype=} is none of {DTYPES}')
    if max_shard_bytes < 1:
        raise InputError(f'{max_shard_bytes=} must be positive')
    width = jnp.dtype(dtype).itemsize
    files = _divided(table, params, max_elements=max_shard_bytes // width)
    weight_map = {}
    for i, items in enumerate(files):
        name = f'{stem}.safetensors'
        if len(files) > 1:
            name = f'{stem}-{i + 1:05d}-of-{len(files):05d}.safetensors'
        weight_map |= {tensor: name for tensor, _, _ in items}
        tensors = _gather_all(table, params, items, dtype)
        if directory is not None:
            # transformers and vLLM require the format's framework.
            save_file(tensors, directory / name, metadata={'format': 'pt'})
            let_others_read(directory / name, 0o666)
        # Free these tensors before gathering those of the next file.
        del tensors
    count = sum(x.size for x in params.values())
    if len(files) > 1 and directory is not None:
        index = {'metadata': {'total_size': count * width}, 'weight_map': weight_map}
        text = json.dumps(index, indent=2) + '\n'
        (directory / f'{stem}.safetensors.index.json').write_text(text, 'utf-8')
    logging.info('wrote %d parameters as %s; files: %d', count, dtype, len(files))


def _divided(table: Table, params: Params, *, max_elements: int) -> list[list[_Item]]:
    """Divides the tensors into files, in the order of the network."""
    shapes = {name: x.shape for name, x in params.items()}
    files: list[list[_Item]] = [[]]
    room = max_elements
    for item in tensors_in_order(table, shapes):
        _, (name, *_), _ = item
        size = math.prod(table[name].stored_shape(shapes[name]))
        if files[-1] and size > room:
            files.append([])
            room = max_elements
        files[-1].append(item)
        room -= size
    return files


def _gather_all(
    table: Table, params: Params, items: Sequence[_Item], dtype: str
) -> dict[str, np.ndarray]:
    """Gathers the tensors of a file one by one; empty except on process 0."""
    tensors = {}
    for tensor, names, place in items:
        parts = []
        for name in names:
            gathered = _gather(params[name], table[name], place, dtype)
            if jax.process_index() == 0:
                parts.append(np.asarray(gathered.addressable_data(0)))
        if parts:
            tensors[tensor] = _joined(parts, table[names[0]])
    return tensors


def _joined(parts: list[np.ndarray], row: Parameter) -> np.ndarray:
    """Joins the parts of a tensor; ``row`` is the row of the first part."""
    if row.part is None:
        return parts[0]
    return np.concatenate(parts, axis=row.dims.index((row.part.dim,)))


def _gather(x: jax.Array, row: Parameter, place: Place, dtype: str) -> jax.Array:
    """Gathers, on every device, the tensor at one place of a parameter's stack."""
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        sharding = replicated(sharding.mesh)
    return _stored(sharding, row.dims, dtype)(x, *map(np.int32, place))


@functools.cache
def _stored(sharding: Any, dims: tuple[tuple[int, ...], ...], dtype: str) -> Any:
    """Makes the function from parameter to tensor; compiled once for all places."""

    def stored(x: jax.Array, *place: jax.Array) -> jax.Array:
        inner = x.shape[len(place) :]
        starts = (*place, *(0 for _ in inner))
        x = jax.lax.dynamic_slice(x, starts, (*(1 for _ in place), *inner))
        shape = Parameter('', (), dims).stored_shape(inner)
        order = [d for group in dims for d in group]
        return x.reshape(inner).astype(dtype).transpose(order).reshape(shape)

    return jax.jit(stored, out_shardings=sharding)
