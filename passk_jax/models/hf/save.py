"""Writes our parameters as safetensors that transformers and vLLM read.

1. :func:`check_new` says, before anything is read or computed, whether a directory can
   be made under a name;
2. :func:`new_directory` makes it; it gets its name only when all of it is written;
3. :func:`write_params` fills as many files as the parameters need. All hosts cast and
   gather tensor by tensor; process 0 writes file by file.

``Transformer.parameters`` has the names and layouts. config.py writes ``config.json``,
and export.py what else belongs to a model.
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
from passk_jax.models.parameters import Parameter, Place, Table, tensors_in_order
from passk_jax.models.policy import Params, Policy
from passk_jax.models.transformer import Transformer
from passk_jax.sharding import replicated

DTYPES = ('bfloat16', 'float32')
"""Dtypes that can be written."""

# A tensor: its name, its parameter, and its place in the stack.
_Item = tuple[str, str, Place]

_UNFINISHED = '.unfinished'


def check_new(directory: str | os.PathLike[str]) -> None:
    """Checks that :func:`new_directory` can make this directory; changes nothing.

    It does not use JAX, so it may run before the processes have found each other.

    Raises:
        InputError: the name is taken or impossible, or nothing can be written there.
    """
    path = _resolved(directory)
    _check_free(path)
    with prefixed(f'{path} cannot be made', OSError):
        # The nearest directory that exists; those between would be made in it.
        above = next(parent for parent in path.parents if parent.exists())
        tempfile.TemporaryFile(dir=above).close()


@contextlib.contextmanager
def new_directory(directory: str | os.PathLike[str]) -> Iterator[pathlib.Path | None]:
    """A directory to fill, which gets its name once the block has ended well.

    Until then it is beside that name, as ``.<name>.<random>.unfinished``. A block that
    raises removes it. A process that is killed leaves it, and the next one says so.

    Every process enters, but only process 0 touches the disk, because a late process
    may find the directory finished.

    Yields:
        Where process 0 writes; ``None`` to the others.

    Raises:
        InputError: as for :func:`check_new`; or the directory cannot get its name. Then
            it stays, and the message says where.
    """
    if jax.process_index():
        yield None
        return
    path = _resolved(directory)
    _check_free(path)
    with prefixed(f'{path} cannot be made', OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _warn_of_unfinished(path)
        # Beside it, because a rename is one step only inside a file system.
        temporary = pathlib.Path(
            tempfile.mkdtemp(_UNFINISHED, f'.{path.name}.', path.parent)
        )
    logging.info('writing to %s until all of it is there', temporary)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary)
        raise
    what = f'all is written and stays in {temporary}, which could not become {path}'
    with prefixed(what, OSError):
        let_others_read(temporary, 0o777)
        temporary.replace(path)


def _resolved(directory: str | os.PathLike[str]) -> pathlib.Path:
    """The directory that this name means; a link means what it points to."""
    return pathlib.Path(os.path.realpath(pathlib.Path(directory).expanduser()))


def _check_free(path: pathlib.Path) -> None:
    """Raises InputError if a directory cannot get this name."""
    with prefixed(f'{path} cannot be read', OSError):
        mounted = path.is_mount()
        # A circle of links leads nowhere, but the name is taken.
        occupied = os.path.lexists(path) and (not path.is_dir() or any(path.iterdir()))
    if mounted:
        raise InputError(
            f'{path} is a mount point and cannot be replaced: name a directory in it'
        )
    if occupied:
        raise InputError(f'{path} exists and is not an empty directory: choose another')


def _warn_of_unfinished(path: pathlib.Path) -> None:
    """Names what killed processes left behind."""
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

    Every process calls it, because all take part in gathering a tensor; process 0
    writes. The host holds the tensors of one file at a time, a device one whole tensor.
    Tied embeddings are written once.

    Args:
        policy: the policy.
        params: its parameters, under any sharding.
        directory: an existing one; only process 0 needs it.
        dtype: one of :data:`DTYPES`; rounded to the nearest.
        max_shard_bytes: of the tensors of a file; a larger tensor has its own file.

    Raises:
        InputError: an unknown dtype, no room in a file, or parameters that are not
            those of training.
    """
    table = Transformer.parameters(policy.arch)
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
        name = 'model.safetensors'
        if len(files) > 1:
            name = f'model-{i + 1:05d}-of-{len(files):05d}.safetensors'
        weight_map |= {tensor: name for tensor, _, _ in items}
        tensors = _gather_all(table, params, items, dtype)
        if jax.process_index() == 0:
            # Loaders ask for the layout's framework.
            save_file(tensors, directory / name, metadata={'format': 'pt'})
            let_others_read(directory / name, 0o666)
        # Frees them before the tensors of the next file are gathered.
        del tensors
    count = sum(x.size for x in params.values())
    if len(files) > 1 and jax.process_index() == 0:
        index = {'metadata': {'total_size': count * width}, 'weight_map': weight_map}
        text = json.dumps(index, indent=2) + '\n'
        (directory / 'model.safetensors.index.json').write_text(text, 'utf-8')
    logging.info('wrote %d parameters as %s; files: %d', count, dtype, len(files))


def _divided(table: Table, params: Params, *, max_elements: int) -> list[list[_Item]]:
    """The tensors of each file, in the order of the network."""
    shapes = {name: x.shape for name, x in params.items()}
    files: list[list[_Item]] = [[]]
    room = max_elements
    for item in tensors_in_order(table, shapes):
        _, name, _ = item
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
    """The tensors of a file, gathered one by one; empty but on process 0."""
    tensors = {}
    for tensor, name, place in items:
        gathered = _gather(params[name], table[name], place, dtype)
        if jax.process_index() == 0:
            tensors[tensor] = np.asarray(gathered.addressable_data(0))
    return tensors


def _gather(x: jax.Array, row: Parameter, place: Place, dtype: str) -> jax.Array:
    """The stored tensor at a place of a parameter, whole on every device."""
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        sharding = replicated(sharding.mesh)
    return _stored(sharding, row.dims, dtype)(x, *map(np.int32, place))


@functools.cache
def _stored(sharding: Any, dims: tuple[tuple[int, ...], ...], dtype: str) -> Any:
    """A function from a parameter to a tensor; compiled once for all places."""

    def stored(x: jax.Array, *place: jax.Array) -> jax.Array:
        inner = x.shape[len(place) :]
        starts = (*place, *(0 for _ in inner))
        x = jax.lax.dynamic_slice(x, starts, (*(1 for _ in place), *inner))
        shape = Parameter('', (), dims).stored_shape(inner)
        order = [d for group in dims for d in group]
        return x.reshape(inner).astype(dtype).transpose(order).reshape(shape)

    return jax.jit(stored, out_shardings=sharding)
