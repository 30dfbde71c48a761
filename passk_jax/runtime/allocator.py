"""Makes the C library return the memory of freed arrays to the system.

Blocks of up to 32 MiB, such as arrays of JAX on a CPU, come from glibc's heap. What
they free between small objects stays with the process until the heap is trimmed: a run
grows with every batch of an evaluation, and by what a compiler used.
"""

import contextlib
import ctypes


def return_freed_memory() -> None:
    """Returns free memory of the heap; does nothing without glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL('libc.so.6').malloc_trim(0)
