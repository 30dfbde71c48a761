"""The sizes of every ablation: the paper's, a laptop's and a small language model's.

Each file of this folder is one ablation of the paper. It takes the argument ``size``:
``full`` (default) starts from configs/maze.py, ``tiny`` from configs/maze_tiny.py, and
``smollm2`` from configs/smollm2.py, whose model is the hub's; for another add
``--config.model.source=DIR``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from configs import arguments, maze, maze_tiny, smollm2

SIZES = {'full': maze, 'tiny': maze_tiny, 'smollm2': smollm2}


def start(
    name: str,
    argument: str,
    *,
    defaults: Mapping[str, Any] | None = None,
    choices: Mapping[str, Iterable[Any]] | None = None,
) -> tuple[ConfigDict, dict[str, Any]]:
    """Returns the configuration that an ablation starts from, and its arguments.

    Args:
        name: the ablation's name; the run's name is this and the arguments.
        argument: the text after the colon in ``--config=file.py:argument``.
        defaults, choices: of the ablation's arguments, as in ``arguments.parse``.

    Raises:
        InputError: the argument is wrong; the message names the choices.
    """
    values = arguments.parse(
        argument,
        defaults={**(defaults or {}), 'size': 'full'},
        choices={**(choices or {}), 'size': SIZES},
    )
    size = values.pop('size')
    values = {key: values[key] for key in defaults or {}}
    config = SIZES[size].get_config()
    parts = [name, *map(str, values.values()), *([] if size == 'full' else [size])]
    config.name = '_'.join(parts)
    return config, values
