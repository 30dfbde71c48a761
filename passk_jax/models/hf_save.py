"""Our parameters to safetensors as transformers and vLLM read them.

1. :func:`new_directory` gives a directory that appears under its name only when all of
   it is written;
2. :func:`write_params` puts the parameters into as many files as they need: tensor by
   tensor they are cast and gathered by all hosts, file by file written by process 0;
3. :func:`save_params` does both.

Names and layouts are those of :data:`hf_weights.TENSORS`. ``config.json`` is the
business of hf_config.py, and what else belongs to a model of export.py.
"""

import contextlib
import functools
import json
import math
import os
import pathlib
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

from passk_jax.models.hf_weights import STACKED, TENSORS, Tensor
from passk_jax.models.policy import Params, Policy
from passk_jax.sharding import replicated

DTYPES = ('bfloat16', 'float32')
"""Dtypes that can be written."""

# A tensor: its name, the parameter, and the layer of it, if it is stacked.
_Item = tuple[str, str, int | None]


def save_params(
    policy: Policy,
    params: Params,
    directory: str | os.PathLike[str],
    *,
    dtype: str,
    max_shard_bytes: int,
) -> None:
    """Writes the weights into a new directory, which is there whole or not at all.

    Args:
        policy, params, dtype, max_shard_bytes: as of :func:`write_params`.
        directory: absent or empty.

    Raises:
        ValueError: as of :func:`new_directory` and :func:`write_params`.
    """
    with new_directory(directory) as path:
        write_params(policy, params, path, dtype=dtype, max_shard_bytes=max_shard_bytes)


def check_new(directory: str | os.PathLike[str]) -> None:
    """Raises ValueError if there is something under this name already."""
    path = pathlib.Path(directory)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f'{path} exists and is no empty directory: choose another')


@contextlib.contextmanager
def new_directory(directory: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A directory to fill, which gets its name once the block has ended well.

    Every process enters; only process 0 makes, names and, on an error, removes it.

    Yields:
        Where process 0 is to write.

    Raises:
        ValueError: there is something under its name already.
    """
    path = pathlib.Path(directory).absolute()
    check_new(path)
    if jax.process_index():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, because only inside a file system a rename is one step.
    temporary = pathlib.Path(tempfile.mkdtemp(dir=path.parent, prefix=f'.{path.name}.'))
    try:
        yield temporary
        _let_others_read(temporary, 0o777)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary)
        raise


def _let_others_read(path: pathlib.Path, mode: int) -> None:
    """The usual permissions, of what was made private; a model is read by others."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def write_params(
    policy: Policy,
    params: Params,
    directory: pathlib.Path,
    *,
    dtype: str,
    max_shard_bytes: int,
) -> None:
    """Writes ``model.safetensors``, or its parts and their index.

    Every process calls it, because all take part in gathering a tensor; process 0
    writes. It has the tensors of one file at a time, a device one whole tensor. Tied
    embeddings are written once.

    Args:
        policy: the policy.
        params: its parameters, sharded as they may be.
        directory: where to; it exists.
        dtype: one of :data:`DTYPES`; rounded to the nearest.
        max_shard_bytes: of the tensors of a file; one that is larger has a file of its
            own.

    Raises:
        ValueError: an unknown dtype, no room in a file, or parameters that are not
            those that are trained.
    """
    if unknown := params.keys() - TENSORS.keys():
        raise ValueError(f'{sorted(unknown)} are none of {list(TENSORS)}')
    if dtype not in DTYPES:
        raise ValueError(f'{dtype=} is none of {DTYPES}')
    if max_shard_bytes < 1:
        raise ValueError(f'{max_shard_bytes=} must be positive')
    width = jnp.dtype(dtype).itemsize
    files = _divided(policy, params, max_elements=max_shard_bytes // width)
    weight_map = {}
    for i, items in enumerate(files):
        name = 'model.safetensors'
        if len(files) > 1:
            name = f'model-{i + 1:05d}-of-{len(files):05d}.safetensors'
        weight_map |= {tensor: name for tensor, _, _ in items}
        _write_file(params, directory / name, items, dtype)
    count = sum(x.size for x in params.values())
    if len(files) > 1 and jax.process_index() == 0:
        index = {'metadata': {'total_size': count * width}, 'weight_map': weight_map}
        text = json.dumps(index, indent=2) + '\n'
        (directory / 'model.safetensors.index.json').write_text(text)
    logging.info('wrote %d parameters as %s; files: %d', count, dtype, len(files))


def _divided(policy: Policy, params: Params, *, max_elements: int) -> list[list[_Item]]:
    """The tensors of each file, in the order of the network."""
    rows = [(name, row) for name, row in TENSORS.items() if name in params]
    layers: list[_Item] = [
        (row.name.format(i), name, i)
        for i in range(policy.arch.num_layers)
        for name, row in rows
        if name.startswith(STACKED)
    ]
    apart = [
        (row.name, name, None) for name, row in rows if not name.startswith(STACKED)
    ]
    # The token table, the layers, the last norm and the head.
    items = [*apart[:1], *layers, *apart[1:]]
    files: list[list[_Item]] = [[]]
    room = max_elements
    for item in items:
        size = math.prod(_stored_shape(params, item))
        if files[-1] and size > room:
            files.append([])
            room = max_elements
        files[-1].append(item)
        room -= size
    return files


def _stored_shape(params: Params, item: _Item) -> tuple[int, ...]:
    _, name, layer = item
    shape = params[name].shape
    return TENSORS[name].shape(shape if layer is None else shape[1:])


def _write_file(
    params: Params, path: pathlib.Path, items: Sequence[_Item], dtype: str
) -> None:
    """Gathers the tensors of a file, one by one, and writes it."""
    tensors = {}
    for tensor, name, layer in items:
        whole = _gather(params[name], TENSORS[name], layer, dtype)
        if jax.process_index() == 0:
            tensors[tensor] = np.asarray(whole.addressable_data(0))
    if tensors:
        # Loaders ask whose layout it is.
        save_file(tensors, path, metadata={'format': 'pt'})
        _let_others_read(path, 0o666)


def _gather(x: jax.Array, tensor: Tensor, layer: int | None, dtype: str) -> jax.Array:
    """The tensor that is stored of a parameter, whole on every device."""
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        sharding = replicated(sharding.mesh)
    stored = _stored(sharding, tensor.dims, dtype)
    return stored(x) if layer is None else stored(x, np.int32(layer))


@functools.cache
def _stored(sharding: Any, dims: tuple[tuple[int, ...], ...], dtype: str) -> Any:
    """A function to a stored tensor; compiled once for all layers."""

    def stored(x: jax.Array, layer: jax.Array | None = None) -> jax.Array:
        if layer is not None:
            x = jax.lax.dynamic_index_in_dim(x, layer, keepdims=False)
        shape = Tensor('', dims).shape(x.shape)
        order = [d for group in dims for d in group]
        return x.astype(dtype).transpose(order).reshape(shape)

    return jax.jit(stored, out_shardings=sharding)
