"""Writes and reads arrays with Orbax, which no other module uses.

An item, such as the parameters, is a flat dictionary ``path -> array`` in its own
directory, so no container type is stored. A write copies the arrays to the host and
continues in the background. It renames nothing, so an unfinished write looks like a
finished one; :mod:`passk_jax.runs.commits` distinguishes them.
"""

import functools
import logging as python_logging
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp
from absl import logging

from passk_jax.errors import InputError

PyTree = Any
Items = Mapping[str, Mapping[str, Any]]

# Replicas share the writing of an array only if each writes at least this many bytes,
# because slicing compiles a program for every shape.
_LEAST_PART = 2**20


def flatten(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves by dotted path; InputError if one is not an array."""
    leaves = jax.tree.leaves_with_path(tree)
    name = functools.partial(jax.tree_util.keystr, simple=True, separator='.')
    flat = {name(path): leaf for path, leaf in leaves}
    if len(flat) != len(leaves):
        raise InputError('two leaves of a pytree to checkpoint have the same path')
    if bad := [key for key, leaf in flat.items() if not hasattr(leaf, 'dtype')]:
        raise InputError(f'a pytree to checkpoint must hold arrays; not arrays: {bad}')
    return flat


def start_writing(path: pathlib.Path, items: Items) -> Callable[[], None]:
    """Copies arrays to the host and starts writing them; every process must call it.

    Args:
        path: a directory that does not exist yet.
        items: for each item, arrays by name; items without arrays are skipped.

    Returns:
        A function that waits, in any thread, until all processes have written their
        part, and raises this process's errors.
    """
    _prepare()
    in_place = ocp.path.atomicity.CommitFileTemporaryPath
    options = ocp.CompositeOptions(temporary_path_class=in_place)
    handler = _handler(items, composite_options=options)
    writer = ocp.AsyncCheckpointer(handler, temporary_path_class=in_place)
    # Orbax rejects an empty tree, such as the state of plain SGD.
    args = {k: ocp.args.StandardSave(dict(v)) for k, v in items.items() if v}
    # Returns after copying, so the next step may overwrite the arrays.
    writer.save(path, args=ocp.args.Composite(**args))

    def finish() -> None:
        try:
            writer.wait_until_finished()
        finally:
            writer.close()

    return finish


def read(path: pathlib.Path, items: Items) -> dict[str, dict[str, Any]]:
    """Reads arrays with the shardings and dtypes of ``items``.

    A target without a sharding is read to the first local device.
    """
    _prepare()
    first_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    args = {}
    for name, targets in items.items():
        abstract = {
            key: jax.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=getattr(x, 'sharding', None) or first_device
            )
            for key, x in targets.items()
        }
        if abstract:
            args[name] = ocp.args.StandardRestore(abstract)
    with ocp.Checkpointer(_handler(items)) as reader:
        composite = reader.restore(path, args=ocp.args.Composite(**args))
    return {name: composite[name] if name in args else {} for name in items}


def _handler(items: Items, **settings: Any) -> ocp.CompositeCheckpointHandler:
    # Orbax takes item names and its own settings as keywords of one function.
    settings |= {name: ocp.StandardCheckpointHandler() for name in items}
    return ocp.CompositeCheckpointHandler(**settings)


@functools.cache
def _prepare() -> None:
    # Orbax logs forty lines per checkpoint, a warning for each item that is not read,
    # and a traceback of errors that finish() raises anyway.
    logging.get_absl_logger().addFilter(_not_of_orbax)
    handler = ocp.type_handlers.ArrayHandler(
        min_slice_bytes_for_replica_parallel=_LEAST_PART
    )
    ocp.type_handlers.register_type_handler(jax.Array, handler, override=True)


def _not_of_orbax(record: python_logging.LogRecord) -> bool:
    return '/orbax/' not in record.pathname or record.levelno > python_logging.ERROR
