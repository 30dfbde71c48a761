"""Eight fake CPU devices, quick compiles, and where the shared data may lie."""

import functools
import gc
import importlib.metadata
import os
import pathlib
import sys
import threading

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Without the fusion emitters, a program compiles three times faster. As one part, it
# compiles a tenth faster, because parts are for idle cores. XLA aborts at an unknown
# flag, so only versions that have these flags get them.
os.environ['XLA_FLAGS'] = ' '.join(
    [
        os.environ.get('XLA_FLAGS', ''),
        '--xla_backend_optimization_level=0',
        '--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1'
        if importlib.metadata.version('jaxlib').startswith('0.10.')
        else '',
    ]
).strip()

# Tests and the commands that they start compile the same few programs over and over.
# Each worker has its own cache: a process ends if it reads what another is writing.
os.environ.update(
    JAX_COMPILATION_CACHE_DIR=str(
        pathlib.Path(__file__).resolve().parents[1]
        / '.pytest_cache'
        / 'xla'
        / os.environ.get('PYTEST_XDIST_WORKER', 'main')
    ),
    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS='0',
    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES='0',
)

import filelock
import hypothesis
import jax
import pytest
from jax._src.interpreters import mlir

# A loaded machine is no error of the code.
hypothesis.settings.register_profile('any machine', deadline=None)
hypothesis.settings.load_profile('any machine')

jax.config.update('jax_num_cpu_devices', 8)
# Starts all devices. Otherwise a plan for fewer would start fewer for all later tests.
jax.devices()

# A new context of MLIR for each small program is a third of its cost; one per test file
# is enough.
_new_context = mlir.make_ir_context
_shared_context = functools.cache(_new_context)


def _make_context() -> mlir.ir.Context:
    """Returns the shared context, or a new one in a thread or inside a lowering."""
    alone = threading.current_thread() is threading.main_thread()
    shares = alone and not mlir.ir.Context.current
    return _shared_context() if shares else _new_context()


mlir.make_ir_context = _make_context

_SHARED = pathlib.Path(__file__).resolve().parents[2] / 'shared'


def pytest_configure() -> None:
    """Makes collections of garbage rare: they took a tenth of the time."""
    gc.set_threshold(20_000, 10, 10)


def pytest_collection_finish() -> None:
    """Excludes objects from before the tests from later garbage collections."""
    gc.collect()
    gc.freeze()


# A program takes several memory mappings. A process may have 65,530 of them on Linux,
# and crashes if it needs more. A test file adds some thousands.
_MANY_MAPPINGS = 30_000
_MAPPINGS = pathlib.Path('/proc/self/maps')


@pytest.fixture(autouse=True, scope='module')
def forget_programs():
    """Forgets programs after a test file, if the process has very many.

    Otherwise files share them: tracing even the smallest again takes tens of
    milliseconds.
    """
    yield
    _shared_context.cache_clear()
    if _MAPPINGS.exists() and _MAPPINGS.read_bytes().count(b'\n') > _MANY_MAPPINGS:
        gc.unfreeze()
        jax.clear_caches()
        gc.collect()
    gc.freeze()


@pytest.fixture
def shared_dir() -> pathlib.Path:
    """The folder of real problems and official verdicts beside the checkout."""
    if not _SHARED.is_dir():
        pytest.skip(f'no shared data beside the checkout: {_SHARED} is absent')
    return _SHARED


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> pathlib.Path:
    """An empty working directory, and a module path that is restored afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [*sys.path])
    return tmp_path


@pytest.fixture(scope='session')
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory of an uninterrupted run of tests/tiny.py, for reading only."""
    from tests import tiny

    base = tmp_path_factory.getbasetemp()
    # The workers share it.
    shared = base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base
    workdir = shared / 'finished'
    with filelock.FileLock(shared / 'finished.lock'):
        if not workdir.exists():
            assert tiny.run(tiny.make_config(), base / 'unfinished')
            (base / 'unfinished').rename(workdir)
    return workdir
