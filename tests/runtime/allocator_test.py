"""Freed arrays between small objects leave the process when the heap is trimmed."""

import os
import pathlib
import subprocess
import sys

import pytest

from passk_jax.runtime import allocator

# Arrays of 8 MiB and a small object after each; how many MB remain without the arrays.
PROGRAM = """
import ctypes, pathlib
from passk_jax.runtime.allocator import return_freed_memory
libc = ctypes.CDLL('libc.so.6')
libc.malloc.restype = ctypes.c_void_p

def take(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block

def resident():
    status = pathlib.Path('/proc/self/status').read_text()
    return int(status.partition('VmRSS:')[2].split()[0]) / 1000

libc.free(ctypes.c_void_p(take(16 * 2**20)))
before = resident()
arrays, objects = [], []
for _ in range(32):
    arrays.append(take(8 * 2**20))
    objects.append(take(1000))
for block in arrays:
    libc.free(ctypes.c_void_p(block))
AFTER
print(resident() - before)
"""

CALL = 'return_freed_memory()'


def remaining_megabytes(*, after=''):
    if not pathlib.Path('/proc/self/status').exists():
        pytest.skip('needs /proc')
    clean = {k: v for k, v in os.environ.items() if k != 'GLIBC_TUNABLES'}
    program = PROGRAM.replace('AFTER', after)
    output = subprocess.run(
        [sys.executable, '-c', program],
        env=clean,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(output.stdout)


def test_a_call_returns_what_was_freed_between_small_objects():
    assert remaining_megabytes() > 200
    assert remaining_megabytes(after=CALL) < 20


def test_steps_return_memory_now_and_then(monkeypatch):
    now, calls = [100.0], []
    monkeypatch.setattr(allocator.time, 'monotonic', lambda: now[0])
    monkeypatch.setattr(allocator, '_trim', lambda: calls.append(now[0]))
    monkeypatch.setattr(allocator, '_TRIMMED', [now[0]])
    for now[0] in (101.0, 109.0, 111.0, 115.0, 121.5):
        allocator.return_freed_memory(every=10)
    assert calls == [111.0, 121.5]
