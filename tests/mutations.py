"""Breaks the package in one line at a time and asks whether a test notices.

    python -m tests.mutations                     # all of tests/mutations.toml
    python -m tests.mutations --only=temperature  # those that match
    python -m tests.mutations --list
    python -m tests.mutations --directory=/tmp/mutations  # keeps what it compiles

By hand, because it takes a while. The tests run on a copy of the checkout. First, all
of them must pass as it is; then each mutation is applied, its tests run, the slow ones
too, and it is undone. A mutation that no test notices survives; the exit status is then
1. One that does not even import is an error of the table.

A test run is a fork of this process, which has loaded the libraries and started no
backend: loading them takes longer than most of the tests.
"""

import argparse
import dataclasses
import importlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / 'tests' / 'mutations.toml'
COPIED = ('passk_jax', 'configs', 'tests')
# Their libraries are what a fork has loaded; of the package it loads its own copy.
LOADED = ('passk_jax.train', 'tensorflow_datasets')
# Slow tests too: a row names what notices it, however long that takes.
OPTIONS = ('-x', '-q', '--tb=short', '-p', 'no:cacheprovider', '-m', '')
TIMEOUT_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A row of the table; its head says what the fields are."""

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    fields: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """From the root of the repository."""
        return f'passk_jax/{self.file}.py'

    def __str__(self) -> str:
        return f'{self.path}: {self.breaks} ({" ".join(self.new.split())})'

    def applied(self, source: str) -> str:
        """The source with the mutation.

        Raises:
            ValueError: the old fragment does not occur, or more than once.
        """
        if (count := source.count(self.old)) != 1:
            raise ValueError(
                f'{self.path}: {self.old!r} occurs {count} times; change its row in '
                f'tests/mutations.toml'
            )
        return source.replace(self.old, self.new)


def read_table() -> list[Mutation]:
    """The mutations, file by file."""
    return [
        Mutation(
            file, **{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        )
        for file, rows in tomllib.loads(TABLE.read_text()).items()
        for row in rows
    ]


class Checkout:
    """A copy of the checkout in which one test run at a time takes place.

    Args:
        directory: where it is made; an older copy there is replaced.
    """

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        for name in COPIED:
            shutil.rmtree(directory / name, ignore_errors=True)
            ignored = shutil.ignore_patterns('__pycache__')
            shutil.copytree(ROOT / name, directory / name, ignore=ignored)
        shutil.copy(ROOT / 'pyproject.toml', directory)
        self._times = itertools.count(1)

    def start(self, tests: Sequence[str], seconds: int) -> int:
        """Starts tests in a process of their own; returns its id."""
        if pid := os.fork():
            return pid
        signal.alarm(seconds)
        output = os.open(self.directory / 'output', os.O_CREAT | os.O_TRUNC | os.O_RDWR)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self.directory)
        # This very package is another one there.
        for name in [m for m in sys.modules if m.partition('.')[0] in COPIED]:
            del sys.modules[name]
        sys.path[:] = [str(self.directory), *(p for p in sys.path if p)]
        status = pytest.main([*OPTIONS, *tests])
        sys.stdout.flush()
        os._exit(int(status))

    def run(self, tests: Sequence[str], *, seconds: int = 0) -> int:
        """The exit status of pytest; below 0 if it was killed after its seconds."""
        _, status = os.waitpid(self.start(tests, seconds), 0)
        return os.waitstatus_to_exitcode(status)

    def notices(self, mutation: Mutation) -> bool:
        """Whether the mutation's tests fail with it.

        Raises:
            ValueError: they do not even start.
        """
        path = self.directory / mutation.path
        source, before = path.read_text(), path.stat()
        path.write_text(mutation.applied(source))
        # Byte code knows its source by time and size: no two mutations share a time.
        os.utime(path, 2 * (next(self._times),))
        try:
            status = self.run(mutation.tests, seconds=TIMEOUT_SECONDS)
        finally:
            path.write_text(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or status < 0:
            return status != pytest.ExitCode.OK
        raise ValueError(f'{mutation}: pytest ended with {status}\n{self.output}')

    @property
    def output(self) -> str:
        """Of the last run."""
        return (self.directory / 'output').read_text()


def load_libraries() -> None:
    """Loads what all tests load; forks share it."""
    os.environ.setdefault('JAX_PLATFORMS', 'cpu')
    os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'
    for name in LOADED:
        importlib.import_module(name)


def main() -> int:
    """Runs the mutations; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--only', default='', help='a regular expression')
    parser.add_argument('--list', action='store_true', help='show them and end')
    parser.add_argument('--keep-going', action='store_true', help='past a survivor')
    parser.add_argument('--directory', default='', help='of the copy, to be kept')
    arguments = parser.parse_args()
    chosen = [
        mutation
        for mutation in read_table()
        if re.search(arguments.only, str(mutation))
    ]
    if not chosen:
        parser.error(f'no mutation matches {arguments.only!r}')
    if arguments.list:
        print(*chosen, sep='\n')
        return 0
    load_libraries()
    survivors, began = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix='mutations_') as temporary:
        checkout = Checkout(pathlib.Path(arguments.directory or temporary))
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        if checkout.run(tests):
            print(f'{checkout.output}\nThe tests fail without any mutation.')
            return 2
        print(f'{len(tests)} tests pass, {time.monotonic() - began:.0f} s', flush=True)
        for i, mutation in enumerate(chosen, start=1):
            start = time.monotonic()
            noticed = checkout.notices(mutation)
            seconds = time.monotonic() - start
            word = 'noticed ' if noticed else 'SURVIVES'
            print(f'{i}/{len(chosen)} {word} {seconds:4.0f} s  {mutation}', flush=True)
            survivors += [] if noticed else [mutation]
            if survivors and not arguments.keep_going:
                break
    print(f'{len(survivors)} survive, {time.monotonic() - began:.0f} s in all')
    print(*survivors, sep='\n')
    return 1 if survivors else 0


if __name__ == '__main__':
    sys.exit(main())
