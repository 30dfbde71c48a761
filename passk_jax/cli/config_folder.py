"""The configs of the package: finds them by name and makes ``configs`` importable.

In a checkout they are next to the package; an installed package contains them.
"""

import contextlib
import os
import pathlib
import sys
import types
from collections.abc import Iterator

from passk_jax.config import checks
from passk_jax.errors import InputError

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_INSIDE = _PACKAGE / 'configs'
FOLDER = _INSIDE if _INSIDE.is_dir() else _PACKAGE.parent / 'configs'
"""The directory of the package's configs."""


def names() -> list[str]:
    """Lists the configs' names, such as ``maze_tiny`` or ``ablations/exceeding``."""
    return sorted(
        path.relative_to(FOLDER).with_suffix('').as_posix()
        for path in FOLDER.rglob('*.py')
        if '\ndef get_config(' in path.read_text(encoding='utf-8')
    )


def find(file: str) -> str:
    """Returns the path of a config file: ``file``, or else the config of that name.

    Args:
        file: a path; or a name, with or without ``configs/`` and ``.py``.

    Raises:
        InputError: neither exists.
    """
    if os.path.isfile(file):
        return file
    choices, name = names(), file.removeprefix('configs/').removesuffix('.py')
    if name in choices:
        return str(FOLDER / f'{name}.py')
    near = checks.nearest(name, choices)
    hint = f'did you mean {" or ".join(near)}?' if near else f'have {choices}'
    raise InputError(f'no such file, and no config of the package; {hint}')


@contextlib.contextmanager
def importable(file: str) -> Iterator[None]:
    """Lets a config file import the package's configs: ``from configs import base``.

    If the file is in a folder ``configs``, modules of that folder take precedence. On
    exit, ``configs`` is the same module as before; if the process had not imported one,
    the file's module stays.
    """
    parents = pathlib.Path(file).resolve().parents
    folders = [str(folder) for folder in parents if folder.name == 'configs'][:1]
    package = types.ModuleType('configs')
    package.__path__ = list(dict.fromkeys([*folders, str(FOLDER)]))
    before = {
        name: module
        for name, module in sys.modules.items()
        if name.partition('.')[0] == 'configs'
    }
    same = [str(pathlib.Path(p).resolve()) for p in _path(before)] == package.__path__
    if not same:
        for name in before:
            del sys.modules[name]
        sys.modules['configs'] = package
    try:
        yield
    finally:
        if before and not same:
            for name in [n for n in sys.modules if n.partition('.')[0] == 'configs']:
                del sys.modules[name]
            sys.modules.update(before)


def _path(modules: dict[str, types.ModuleType]) -> list[str]:
    return list(getattr(modules.get('configs'), '__path__', ()))
