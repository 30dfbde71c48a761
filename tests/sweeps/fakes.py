"""Sweeps whose runs are tests/sweeps/fake_run.py: the command, without training."""

import contextlib
import multiprocessing
import os
import pathlib
import sys
from collections.abc import Mapping
from unittest import mock

from tests import tiny

FAKE = pathlib.Path(__file__).with_name('fake_run.py')

SWEEP = """
from passk_jax.sweeps import Arm, Stage, Sweep

def arm(name, *stages):
    overrides = {{'advantage.name': name, 'train.steps': {steps}}}
    return Arm(name, name.upper(), 'tests/tiny.py', overrides, stages)

def get_sweep():
    return Sweep(
        name='fake',
        title='Fakes',
        arms=(
            arm('pass_at_1'),
            arm('pass_at_k', Stage('then', {{'advantage.name': 'pass_at_1'}})),
        ),
        baseline='pass_at_1',
        seeds={seeds},
        measures={{'pass_at_1': 'Pass@1', 'pass_at_4': 'Pass@4'}},
        split='test',
        curves='validation',
    )
"""

FILES = ('fake.jsonl.gz', 'fake.md', 'fake.png')

# Imports once what every sweep would import for seconds.
_SERVER = multiprocessing.get_context('forkserver')
_SERVER.set_forkserver_preload(
    [
        'passk_jax.sweep',
        'passk_jax.tasks.maze.task',
        'tests.sweeps.fakes',
        'matplotlib.backends.backend_agg',
        'matplotlib.figure',
    ]
)


def write_sweep(
    directory: pathlib.Path, *, steps: int = 4, seeds: tuple[int, ...] = (0, 1)
) -> pathlib.Path:
    """A sweep file."""
    path = directory / 'sweep.py'
    path.write_text(SWEEP.format(steps=steps, seeds=seeds))
    return path


def start(
    directory: pathlib.Path, environment: Mapping[str, str] | None = None, **flags
) -> multiprocessing.Process:
    """Starts the sweep of ``directory`` in a process of its own; see :func:`_run`."""
    process = _SERVER.Process(target=_run, args=(directory, environment or {}, flags))
    process.start()
    return process


def run(directory: pathlib.Path, environment=None, **flags) -> int:
    """Runs the sweep of ``directory``; returns its exit status."""
    process = start(directory, environment, **flags)
    process.join(120)
    return process.exitcode


def finished(directory: pathlib.Path) -> pathlib.Path:
    """The directory, with a sweep of two seeds that nothing interrupted."""
    write_sweep(directory)
    assert run(directory) == 0, output_of(directory)
    return directory


def output_of(directory: pathlib.Path) -> str:
    """The output of all sweeps in ``directory``."""
    return (directory / 'said').read_text()


def results(directory: pathlib.Path) -> dict[str, bytes]:
    """File name -> content of the results that a sweep wrote."""
    return {name: (directory / 'results' / name).read_bytes() for name in FILES}


def notes(directory: pathlib.Path) -> list[str]:
    """What the runs noted."""
    path = directory / 'runs' / 'notes'
    return path.read_text().splitlines() if path.exists() else []


def _run(directory: pathlib.Path, environment: Mapping[str, str], flags) -> None:
    # Here: the tests import this module too, and need not wait for it.
    from passk_jax import sweep
    from passk_jax.sweeps import running

    os.chdir(tiny.ROOT)
    os.environ.update(environment)
    paths = {'workdir': directory / 'runs', 'results': directory / 'results'}
    flags = {name: str(path) for name, path in paths.items()} | flags
    program = (sys.executable, '-S', '-E', str(FAKE))
    with (
        (directory / 'said').open('a', buffering=1) as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        mock.patch.multiple(running, PROGRAM=program, POLL_SECONDS=0.01),
    ):
        sys.exit(sweep.main(config=str(directory / 'sweep.py'), **flags))
