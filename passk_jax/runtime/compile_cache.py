"""Keeps compiled programs for the next process, and logs slow compilations by name.

``JAX_COMPILATION_CACHE_DIR`` and JAX's other settings of its persistent cache take
precedence, and ``JAX_ENABLE_COMPILATION_CACHE=false`` turns it off.
"""

import hashlib
import os
import pathlib
import platform
import threading

import jax
from absl import logging
from jax._src import distributed

DIRECTORY = '~/.cache/passk_jax/xla'
SHARED_NAME = 'xla'

# Programs that compile sooner are not worth a file.
_MIN_SECONDS = 0.2
# The least recently used go first. JAX locks a cache that has a limit, so processes
# that run side by side can share it.
_MAX_BYTES = 2 << 30
_LONG_SECONDS = 10.0
# JAX reports the first just before it compiles a program, and the second after.
_LOWERED = '/jax/core/compile/jaxpr_to_mlir_module_duration'
_COMPILED = '/jax/core/compile/backend_compile_duration'


def keep_programs(workdir: pathlib.Path) -> None:
    """Turns the persistent cache on; call it before anything is compiled.

    Only process 0 writes it, so several processes share one in ``workdir``. Nothing
    there is ever removed.
    """
    jax.monitoring.register_event_duration_secs_listener(_SlowCompilations())
    if jax.config.values['jax_compilation_cache_dir'] is not None:
        return
    if distributed.global_state.num_processes > 1:
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
        logging.warning('cannot write %s: every process compiles anew', path)
        return
    jax.config.update('jax_compilation_cache_dir', str(path))
    jax.config.update('jax_compilation_cache_max_size', _MAX_BYTES)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', _MIN_SECONDS)


def _machine() -> str:
    """Names this kind of CPU: a program for another one might not run on it."""
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
    """Logs a long compilation when it ends, and a very long one while it runs too."""

    def __init__(self) -> None:
        self.waiting: dict[str, threading.Timer] = {}

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        program = str(kwargs.get('fun_name', 'a program'))
        if event == _LOWERED:
            self._forget(program)
            message = 'compiling %s', program
            timer = threading.Timer(4 * _LONG_SECONDS, _say, message)
            timer.daemon = True
            self.waiting[program] = timer
            timer.start()
        elif event == _COMPILED:
            self._forget(program)
            if duration_secs >= _LONG_SECONDS:
                _say('compiled %s in %.0f s', program, duration_secs)

    def _forget(self, program: str) -> None:
        if timer := self.waiting.pop(program, None):
            timer.cancel()


def _say(message: str, *values: object) -> None:
    # Called by a timer's thread, absl would name that module as the speaker.
    logging.info(message, *values)
