"""Makes the C library return the memory of freed arrays to the system.

Blocks of up to 32 MiB, such as arrays of JAX on a CPU, come from glibc's heap. What
they free between small objects stays with the process until the heap is trimmed: a run
grows with every batch of an evaluation, and by what steps and compilers used.
"""

import contextlib
import ctypes
import time

# When the heap of this process was trimmed last; a list of one time in seconds.
_TRIMMED = [0.0]


def return_freed_memory(*, every: float = 0.0) -> None:
    """Returns free memory of the heap, at most once in ``every`` seconds.

    It does nothing without glibc. A call takes up to a tenth of a second, and later
    steps take pages anew.
    """
    if time.monotonic() - _TRIMMED[0] >= every:
        _trim()
        _TRIMMED[0] = time.monotonic()


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL('libc.so.6').malloc_trim(0)
