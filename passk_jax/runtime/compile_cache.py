"""Turns on JAX's persistent compilation cache, and logs slow compilations by name.

JAX's settings take precedence: ``JAX_COMPILATION_CACHE_DIR`` chooses a directory, and
``JAX_ENABLE_COMPILATION_CACHE=false`` turns the cache off.
"""

import hashlib
import os
import pathlib
import platform
import threading

import jax
from absl import logging

from passk_jax.runtime.allocator import return_freed_memory

DIRECTORY = '~/.cache/passk_jax/xla'
SHARED_NAME = 'xla'

# Faster compilations are not cached.
_MIN_SECONDS = 0.2
# JAX removes the least recently used programs first. It locks a cache with a limit, so
# processes on one machine can share it.
_MAX_BYTES = 2 << 30
_LONG_SECONDS = 10.0
# JAX reports the first event just before it compiles a program, the second after.
_LOWERED = '/jax/core/compile/jaxpr_to_mlir_module_duration'
_COMPILED = '/jax/core/compile/backend_compile_duration'


def keep_programs(workdir: pathlib.Path) -> None:
    """Turns the persistent cache on; call it before anything is compiled.

    The processes of a multi-host run share a cache in ``workdir``, which only process 0
    writes. Its programs are never removed.
    """
    jax.monitoring.register_event_duration_secs_listener(_SlowCompilations())
    if jax.config.values['jax_compilation_cache_dir'] is not None:
        return
    if jax.distributed.is_initialized() and jax.process_count() > 1:
        # No size limit: the lock it needs does not work on every shared file system.
        path = str(workdir.absolute() / SHARED_NAME)
        jax.config.update('jax_compilation_cache_dir', path)
        jax.config.update('jax_persistent_cache_min_compile_time_secs', _MIN_SECONDS)
        return
    path = pathlib.Path(DIRECTORY).expanduser() / _machine()
    try:
        path.mkdir(parents=True, exist_ok=True)
        writable = os.access(path, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        logging.warning('cannot write %s: compiled programs are not cached', path)
        return
    jax.config.update('jax_compilation_cache_dir', str(path))
    jax.config.update('jax_compilation_cache_max_size', _MAX_BYTES)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', _MIN_SECONDS)


def _machine() -> str:
    """Returns a name for this kind of CPU; its programs may not run on another kind."""
    try:
        lines = pathlib.Path('/proc/cpuinfo').read_text('utf-8').splitlines()
    except OSError:
        lines = [platform.processor()]
    features = {x for x in lines if x.startswith(('flags', 'Features', 'model name'))}
    digest = hashlib.sha256(
        '\n'.join(sorted(features or lines[:1])).encode()
    ).hexdigest()
    return f'{platform.machine()}-{digest[:8]}'


class _SlowCompilations:
    """A listener that logs long compilations; very long ones also while they run.

    It returns freed memory to the system before a compilation, and after a long one.
    The log marks compilations in other threads as being in the background.
    """

    def __init__(self) -> None:
        # A program may be compiled in two threads, for two shapes.
        self.waiting: dict[tuple[int, str], threading.Timer] = {}

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        program = str(kwargs.get('fun_name', 'a program'))
        key = threading.get_ident(), program
        if threading.current_thread() is not threading.main_thread():
            program += ' in the background'
        if event == _LOWERED:
            self._forget(key)
            # A compiler may need as much memory as the run.
            return_freed_memory(every=_LONG_SECONDS)
            message = 'compiling %s', program
            timer = threading.Timer(4 * _LONG_SECONDS, _say, message)
            timer.daemon = True
            self.waiting[key] = timer
            timer.start()
        elif event == _COMPILED:
            self._forget(key)
            if duration_secs >= _LONG_SECONDS:
                _say('compiled %s in %.0f s', program, duration_secs)
                return_freed_memory()

    def _forget(self, key: tuple[int, str]) -> None:
        if timer := self.waiting.pop(key, None):
            timer.cancel()


def _say(message: str, *values: object) -> None:
    # If a timer called absl directly, the log would name the timer as the source.
    logging.info(message, *values)
