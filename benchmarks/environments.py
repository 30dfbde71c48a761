"""Makes virtual environments of the peers, once, from the package registry.

Each peer has its own pinned requirements, so that a figure is of known versions. The
user's pip settings say where packages come from.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

REQUIREMENTS: Mapping[str, Sequence[str]] = {
    # The jax of our measurements; tunix takes any since 0.8.
    'tunix': ('google-tunix==0.1.7', 'jax==0.10.2', 'flax==0.12.8'),
    'trl': ('trl==1.16.0', 'transformers==5.23.0', 'torch==2.13.0'),
}


def directory() -> pathlib.Path:
    """Returns the folder of the environments."""
    cache = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return pathlib.Path(cache) / 'passk_jax' / 'benchmarks'


def python_of(peer: str, path: str = '') -> str:
    """Returns the python of a peer.

    The first call makes its environment, in minutes and 1.5 GB.

    Args:
        peer: a name of :data:`REQUIREMENTS`.
        path: a python that has what the peer needs; ``''``: the environment's.

    Raises:
        ValueError: there is no such python.
    """
    if path:
        executable = shutil.which(path)
        if executable is None:
            raise ValueError(f'{path!r} is no python: give a path, or leave it out')
        return executable
    home = directory() / peer
    python = home / 'bin' / 'python'
    # Written last, so an installation that failed is tried again.
    stamp = home / 'installed'
    requirements = '\n'.join(REQUIREMENTS[peer])
    if not stamp.is_file() or stamp.read_text() != requirements:
        print(f'Installing {" ".join(REQUIREMENTS[peer])} into {home} (once; minutes)')
        subprocess.run([sys.executable, '-m', 'venv', '--clear', home], check=True)
        pip = [python, '-m', 'pip', 'install', '--quiet', *REQUIREMENTS[peer]]
        subprocess.run(pip, check=True)
        stamp.write_text(requirements)
    return str(python)
