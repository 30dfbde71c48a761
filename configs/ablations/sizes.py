"""The sizes of every ablation: the paper's, a laptop's and a small language model's.

Each file of this folder is one ablation of the paper. It takes the argument ``size``:
``full`` (default) starts from configs/maze.py, ``enigmata`` from configs/enigmata.py
with Qwen2.5-7B-Instruct, ``tiny`` from configs/maze_tiny.py, and ``smollm2`` from
configs/smollm2.py, whose model is the hub's; for another add
``--config.model.source=DIR``. The paper ran most ablations on mazes and some on
Enigmata; their docstrings have the size of its figure.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from configs import arguments, enigmata, maze, maze_tiny, smollm2

SIZES: Mapping[str, Callable[[], ConfigDict]] = {
    'full': maze.get_config,
    'enigmata': functools.partial(enigmata.get_config, 'model=qwen25_7b'),
    'tiny': maze_tiny.get_config,
    'smollm2': smollm2.get_config,
}
OF_THE_PAPER = ('full', 'enigmata')


def start(
    name: str,
    argument: str,
    *,
    defaults: Mapping[str, Any] | None = None,
    choices: Mapping[str, Iterable[Any]] | None = None,
) -> tuple[ConfigDict, dict[str, Any]]:
    """Returns the configuration that an ablation starts from, and all arguments.

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
    size, settings = values['size'], [str(values[key]) for key in defaults or {}]
    config = SIZES[size]()
    config.name = '_'.join([name, *settings, *([] if size == 'full' else [size])])
    return config, values
