"""Makes the C library return the memory of freed arrays to the system.

Blocks of up to 32 MiB, such as arrays of JAX on a CPU, come from glibc's heap. What
they free between small objects stays with the process until the heap is trimmed: a run
grows with every batch of an evaluation, and by what steps and compilers used.
"""

import contextlib
import ctypes
import time


def return_freed_memory() -> None:
    """Returns free memory of the heap; does nothing without glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL('libc.so.6').malloc_trim(0)


class MemoryReturner:
    """Calls :func:`return_freed_memory`, at most once in ``seconds``.

    A call takes up to a tenth of a second, and later steps take pages anew.
    """

    def __init__(self, seconds: float = 10.0):
        self._seconds, self._last = seconds, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last >= self._seconds:
            return_freed_memory()
            self._last = time.monotonic()
