"""Reads safetensors of a Hugging Face model into our parameters; save.py writes them.

1. :func:`stored_tables` has the names and layouts, for reading and writing.
2. :func:`load_params` compares the stored tensors with those the policy needs, and
   reports every difference before it reads any data.
3. Then it streams: it reads each shard for this host's devices once, slice by slice of
   the tensors, and puts it on its devices before it reads the next.

Our layers are stacked, Hugging Face's are separate (parameters.py). config.py reads
``config.json``. Nothing here needs torch.
"""

import contextlib
import dataclasses
import math
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh
from safetensors import SafetensorError, safe_open

from passk_jax.errors import InputError
from passk_jax.models.arch import Arch
from passk_jax.models.experts import join_experts
from passk_jax.models.hf import other_formats
from passk_jax.models.hf.config import read_json, source_directory
from passk_jax.models.parameters import Parameter, Table
from passk_jax.models.policy import Params, Policy, param_shapes
from passk_jax.models.transformer import HEAD, Transformer

# Start and stop of a slice, along one dimension and along all.
Bound = tuple[int, int]
Bounds = tuple[Bound, ...]

# How names of tensors begin in memory -> in files with short names.
_SHORT = {'model.language_model.': 'model.', 'model.visual.': 'visual.'}
_DTYPES = ('F32', 'F16', 'BF16')
# Older programs stored these values, which follow from config.json. We ignore them, as
# transformers does.
_DERIVED = re.compile(r'(.*\.)?rotary_emb\.((original_)?inv_freq|(cos|sin)_cached)')


def load_params(policy: Policy, source: str, mesh: Mesh) -> Params:
    """Reads a checkpoint into sharded arrays of the master dtype.

    The host holds at most one device's shard of one parameter at a time.

    Args:
        policy: a policy with the source's architecture (``hf.config.arch_from_hf``).
        source: a directory or hub name with ``model.safetensors`` or
            ``model.safetensors.index.json``; float32, float16 or bfloat16.
        mesh: the mesh for the parameters.

    Raises:
        InputError: no such source, an unreadable file, a value that is not finite, or
            missing, unexpected, misshapen or mistyped tensors (all in one message).
            With tied embeddings, an ``lm_head.weight`` that equals the token table is
            allowed. Stored frequencies of a rope are ignored.
    """
    directory = source_directory(
        source, ['config.json', '*.safetensors', '*.safetensors.index.json']
    )
    shapes, files = param_shapes(policy, mesh), _files(directory)
    return read_tensors(directory, files, stored_tables(policy.arch), shapes)


def stored_tables(arch: Arch) -> list[Table]:
    """Makes a table for each way in which files name tensors; save.py uses the first.

    One of them has transformers' names in memory.
    """
    tables: list[Table] = [Transformer.parameters(arch)]
    if arch.vision and arch.vision.short_names:
        tables.insert(0, {k: _shortened(row) for k, row in tables[0].items()})
    if arch.num_experts and not arch.fused_experts:
        tables.append({k: join_experts(row) for k, row in tables[0].items()})
    return tables


def _shortened(row: Parameter) -> Parameter:
    for name, short in _SHORT.items():
        if row.tensor.startswith(name):
            tensor = short + row.tensor.removeprefix(name)
            return dataclasses.replace(row, tensor=tensor)
    return row


def read_tensors(
    directory: pathlib.Path,
    files: Sequence[pathlib.Path],
    tables: Sequence[Table],
    shapes: dict[str, jax.ShapeDtypeStruct],
) -> Params:
    """Reads the parameters of these shapes from files of a directory.

    The files must name tensors as one of the tables does.
    """
    with contextlib.ExitStack() as stack:
        stored, problems = _open_tensors(directory, files, stack)
        table = max(
            tables, key=lambda x: len(_allowed_shapes(x, shapes).keys() & stored)
        )
        # Adapters have no token table.
        row = table.get('embed.embedding')
        tied = row.tensor if row else ''
        problems += _problems(stored, _allowed_shapes(table, shapes), tied)
        if problems:
            raise InputError(
                f'{directory} does not fit the model:\n  ' + '\n  '.join(problems)
            )
        params = {name: _load(stored, table[name], x) for name, x in shapes.items()}
    count = sum(x.size for x in shapes.values())
    logging.info('read %d parameters from %s', count, directory)
    return params


def _allowed_shapes(
    table: Table, shapes: dict[str, jax.ShapeDtypeStruct]
) -> dict[str, list[tuple[int, ...]]]:
    """Returns the allowed shapes of each tensor of the parameters, by name."""
    return {
        table[name].tensor_at(place): [
            row.stored_shape(x.shape) for row in table[name].layouts
        ]
        for name, x in shapes.items()
        for place in table[name].places(x.shape)
    }


def _load(stored: dict[str, Any], row: Parameter, x: jax.ShapeDtypeStruct) -> jax.Array:
    """Loads a parameter; reads each distinct shard once and puts it on its devices."""
    places: dict[Bounds, list[jax.Device]] = {}
    for device, index in x.sharding.addressable_devices_indices_map(x.shape).items():
        # Only devices of other hosts have no index.
        assert index is not None
        parts = zip(index, x.shape, strict=True)
        bounds = tuple(part.indices(size)[:2] for part, size in parts)
        places.setdefault(bounds, []).append(device)
    shards = []
    for bounds, devices in places.items():
        values = _read(stored, row, x, bounds)
        copies = [jax.device_put(values, device) for device in devices]
        # Wait before the next read: a pending transfer keeps its values on the host.
        shards += jax.block_until_ready(copies)
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, shards)


def _read(
    stored: dict[str, Any], row: Parameter, x: jax.ShapeDtypeStruct, bounds: Bounds
) -> np.ndarray:
    """Reads a slice of a parameter, and only that slice of its tensors."""
    depth = len(row.stack)
    values = np.empty([stop - start for start, stop in bounds], x.dtype)
    for at in row.places(values.shape):
        place = (i + start for i, (start, _) in zip(at, bounds, strict=False))
        tensor = row.tensor_at(tuple(place))
        have = tuple(stored[tensor].get_shape())
        (layout, *_) = (y for y in row.layouts if y.stored_shape(x.shape) == have)
        part = _read_part(stored[tensor], layout, x.shape[depth:], bounds[depth:])
        values[at] = part
        _check_finite(tensor, values[at])
    return values


def _read_part(
    stored: Any, row: Parameter, shape: tuple[int, ...], bounds: Sequence[Bound]
) -> np.ndarray:
    """Reads a slice of a tensor, in the parameter's order of dimensions."""
    # One read takes only consecutive rows.
    bounds, parts, slices = list(bounds), [], [slice(None)] * len(bounds)
    for first, *faster_dims in row.dims:
        for d in faster_dims:
            slices[d], bounds[d] = slice(*bounds[d]), (0, shape[d])
        inner = math.prod(shape[d] for d in faster_dims)
        start, stop = bounds[first]
        if row.part and row.part.dim == first:
            start, stop = (row.part.index * shape[first] + x for x in (start, stop))
        parts.append(slice(start * inner, stop * inner))
    sizes = [stop - start for start, stop in bounds]
    order = [d for group in row.dims for d in group]
    values = np.asarray(stored[tuple(parts)]).reshape([sizes[d] for d in order])
    return values.transpose(np.argsort(order))[tuple(slices)]


def _check_finite(tensor: str, values: np.ndarray) -> None:
    """Raises InputError if a value is infinite or not a number."""
    with np.errstate(invalid='ignore'):
        # If any value is NaN, both extremes are.
        extremes = values.min(), values.max()
    if not all(map(math.isfinite, extremes)):
        raise InputError(f'{tensor} holds NaN or infinity')


def _problems(
    stored: dict[str, Any], allowed: dict[str, list[tuple[int, ...]]], tied: str
) -> list[str]:
    """Lists everything wrong with the stored tensors; ``tied`` is the token table."""
    problems = [f'missing {name}' for name in sorted(allowed.keys() - stored.keys())]
    # A tied model has no head, but its file may repeat the table as one.
    repeated = {HEAD.tensor} & stored.keys() - allowed.keys()
    for name in sorted(stored.keys() - allowed.keys() - repeated):
        problems.append(f'unexpected {name} {tuple(stored[name].get_shape())}')
    for name, may in allowed.items():
        if name not in stored:
            continue
        have = tuple(stored[name].get_shape())
        if have not in may:
            allowed_shapes = ' or '.join(map(str, may))
            problems.append(f'{name} has shape {have}, not {allowed_shapes}')
        dtype = stored[name].get_dtype()
        if dtype not in _DTYPES:
            problems.append(f'{name} is {dtype}, none of {_DTYPES}')
    head = HEAD.tensor
    if repeated and tied in stored and not _equal(stored[head], stored[tied]):
        problems.append(
            f'{head} differs from {tied} although tie_word_embeddings is true'
        )
    return problems


def _equal(a: Any, b: Any, *, rows: int = 4096) -> bool:
    """Returns whether two stored matrices are equal; reads a few rows at a time."""
    if a.get_shape() != b.get_shape():
        return False
    size = a.get_shape()[0]
    parts = [slice(i, min(i + rows, size)) for i in range(0, size, rows)]
    return all(np.array_equal(a[part], b[part]) for part in parts)


def _open_tensors(
    directory: pathlib.Path,
    files: Sequence[pathlib.Path],
    stack: contextlib.ExitStack,
) -> tuple[dict[str, Any], list[str]]:
    """Opens the files; returns a lazy slice of each tensor, and errors of duplicates.

    Raises:
        InputError: some cannot be read.
    """
    stored: dict[str, Any] = {}
    twice, unreadable = [], []
    for path in files:
        try:
            file = stack.enter_context(safe_open(path, framework='numpy'))
        except (OSError, SafetensorError) as error:
            why = other_formats.stand_in(path) or f'cannot read {path.name}: {error}'
            unreadable.append(why)
            continue
        names = {x for x in set(file.keys()) if not _DERIVED.fullmatch(x)}
        twice += [f'{name} is stored twice' for name in sorted(names & set(stored))]
        stored.update({name: file.get_slice(name) for name in names})
    if unreadable:
        # Raise now, or all tensors of these files would be reported as missing.
        raise InputError(f'{directory}: ' + '; '.join(unreadable))
    return stored, twice


def _files(directory: pathlib.Path) -> list[pathlib.Path]:
    """Lists the files with the tensors, in order."""
    index = directory / 'model.safetensors.index.json'
    single = directory / 'model.safetensors'
    if not index.is_file():
        if single.is_file():
            return [single]
        raise InputError(
            f'{directory} has neither {single.name} nor {index.name}'
            f'{other_formats.hint(directory)}'
        )
    files = read_json(index).get('weight_map')
    if not (isinstance(files, dict) and files):
        raise InputError(f'{index} has no weight_map')
    for tensor, name in files.items():
        if name in ('', '..') or name != pathlib.PurePath(str(name)).name:
            raise InputError(
                f'{index} gives {tensor} the file {name!r}, not a name of its directory'
            )
    names = sorted(set(files.values()))
    if single.is_file() and names != [single.name]:
        raise InputError(
            f'{directory} has both {single.name} and {index.name}, which names other '
            'files: transformers reads the first; remove the one that is out of date'
        )
    return [directory / name for name in names]
