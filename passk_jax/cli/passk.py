"""The command ``passk``: ``passk train …`` is ``python -m passk_jax.train …``.

It imports only the command that it runs.
"""

import importlib.metadata
import os
import runpy
import sys

from passk_jax.cli.command import EXIT_ERROR
from passk_jax.config import checks

COMMANDS = {
    'train': 'trains a policy into a run directory',
    'evaluate': 'evaluates the policy of a run, also on other tasks',
    'compare': 'compares runs, with intervals of the differences',
    'score': 'judges responses that were made elsewhere',
    'export': 'writes the policy of a run for transformers and vLLM',
    'push': 'uploads an export to the Hugging Face hub, with a model card',
    'plan': 'says what a run needs of its devices, before it runs',
    'sweep': 'runs arms side by side and compares them',
    'tasks': 'lists the tasks, or shows a problem of one',
}
"""Command -> what it does; each is a module of :mod:`passk_jax`."""


def main() -> None:
    """Runs the command that the first argument names, and exits with its status."""
    name, *arguments = sys.argv[1:] or ['']
    if name in ('', '--help', '-h', 'help'):
        print(usage())
        sys.exit(0 if name else EXIT_ERROR)
    if name == '--version':
        print(importlib.metadata.version('passk_jax'))
        return
    if name not in COMMANDS:
        near = checks.nearest(name, COMMANDS) or list(COMMANDS)
        sys.stderr.write(f'error: unknown command {name!r}; try {", ".join(near)}\n')
        sys.exit(EXIT_ERROR)
    # python -m adds this directory first, where its files could hide packages.
    sys.path.append(os.getcwd())
    sys.argv = [f'passk {name}', *arguments]
    runpy.run_module(f'passk_jax.{name}', run_name='__main__', alter_sys=True)


def usage() -> str:
    """Returns the help text, with one line for each command."""
    lines = [f'  {name:<10}{text}' for name, text in COMMANDS.items()]
    return '\n'.join(
        [
            'usage: passk COMMAND --flag=value ...',
            *lines,
            'For example: passk train --config=maze_tiny --workdir=runs/maze_tiny',
            'The flags of a command: passk COMMAND --help',
        ]
    )


if __name__ == '__main__':
    main()
