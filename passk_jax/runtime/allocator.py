"""Makes the C library return the memory of freed arrays to the system.

glibc gives a block above a threshold pages that return to the system when it is freed.
But it raises this threshold to the size of each such block, up to 32 MiB. Then arrays
lie between small objects, and most memory that they free remains with the process. On
a CPU, where arrays of JAX are such blocks, a run grows with every batch.
"""

import contextlib
import ctypes
import os

_MMAP_THRESHOLD = -3  # From malloc.h
# Smaller blocks would cost more system calls than they save.
_LEAST_BYTES = 4 * 2**20


def return_freed_memory() -> None:
    """Returns free memory of the heap now, and that of freed arrays from now on.

    An environment that sets the threshold decides it. Other C libraries stay as they
    are.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL('libc.so.6')
        tunables = os.environ.get('GLIBC_TUNABLES', '')
        if (
            'MALLOC_MMAP_THRESHOLD_' not in os.environ
            and 'mmap_threshold' not in tunables
        ):
            library.mallopt(_MMAP_THRESHOLD, _LEAST_BYTES)
        library.malloc_trim(0)
