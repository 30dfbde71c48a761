"""Arrays on disk, each item of them in a directory of its own. The only user of Orbax.

An item is one flat dictionary ``path -> array``, so that no container type is stored.
A write copies the arrays to the host and goes on in the background. It renames nothing:
half a write looks like a whole one, and :mod:`passk_jax.runs.commits` tells them apart.
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

# Replicas share the writing of an array only if each writes this many bytes or more:
# cutting it takes a program for every shape.
_LEAST_PART = 2**20


def flatten(tree: PyTree) -> dict[str, Any]:
    """Leaves by dotted path; ValueError if one is not an array."""
    leaves = jax.tree.leaves_with_path(tree)
    name = functools.partial(jax.tree_util.keystr, simple=True, separator='.')
    flat = {name(path): leaf for path, leaf in leaves}
    if len(flat) != len(leaves):
        raise InputError('two leaves of a pytree to checkpoint have the same path')
    if bad := [key for key, leaf in flat.items() if not hasattr(leaf, 'dtype')]:
        raise InputError(f'a pytree to checkpoint must hold arrays; not arrays: {bad}')
    return flat


def start_writing(path: pathlib.Path, items: Items) -> Callable[[], None]:
    """Copies arrays to the host and begins to write them; every process calls it.

    Args:
        path: a directory that does not exist.
        items: arrays by name, of each item; one without arrays is left out.

    Returns:
        Waits, in any thread, until all processes have written their part; it raises
        whatever went wrong here.
    """
    _prepare()
    in_place = ocp.path.atomicity.CommitFileTemporaryPath
    options = ocp.CompositeOptions(temporary_path_class=in_place)
    handler = _handler(items, composite_options=options)
    writer = ocp.AsyncCheckpointer(handler, temporary_path_class=in_place)
    # Plain SGD has no state, and Orbax refuses an empty tree.
    args = {k: ocp.args.StandardSave(dict(v)) for k, v in items.items() if v}
    # It returns once the copies are made, so the next step may overwrite the arrays.
    writer.save(path, args=ocp.args.Composite(**args))

    def finish() -> None:
        try:
            writer.wait_until_finished()
        finally:
            writer.close()

    return finish


def stored(path: pathlib.Path, items: Items) -> dict[str, dict[str, Any]]:
    """What is stored of these items: something with ``shape`` and ``dtype`` by name."""
    _prepare()
    with _reader(items) as reader:
        metadata = reader.metadata(path).item_metadata
    held = {name: metadata.get(name) for name in items}
    return {name: dict(item.tree) if item else {} for name, item in held.items()}


def read(path: pathlib.Path, items: Items) -> dict[str, dict[str, Any]]:
    """Reads arrays onto the shardings of ``items``, and casts to their dtypes.

    A target without a sharding goes to the first local device.
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
    with _reader(items) as reader:
        found = reader.restore(path, args=ocp.args.Composite(**args))
    return {name: found[name] if name in args else {} for name in items}


def _reader(items: Items) -> ocp.Checkpointer:
    return ocp.Checkpointer(_handler(items))


def _handler(items: Items, **settings: Any) -> ocp.CompositeCheckpointHandler:
    # Orbax has the names of items among the keywords of its own settings.
    settings |= {name: ocp.StandardCheckpointHandler() for name in items}
    return ocp.CompositeCheckpointHandler(**settings)


@functools.cache
def _prepare() -> None:
    # It drops forty lines per checkpoint, a warning for each item that is not read, and
    # a traceback of what finish() raises.
    logging.get_absl_logger().addFilter(_not_of_orbax)
    handler = ocp.type_handlers.ArrayHandler(
        min_slice_bytes_for_replica_parallel=_LEAST_PART
    )
    ocp.type_handlers.register_type_handler(jax.Array, handler, override=True)


def _not_of_orbax(record: python_logging.LogRecord) -> bool:
    return '/orbax/' not in record.pathname or record.levelno > python_logging.ERROR
