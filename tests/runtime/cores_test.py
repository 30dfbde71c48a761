import os

import pytest

from passk_jax.runtime.cores import usable_cores


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='no such call here')
def test_the_cores_are_those_that_the_process_is_allowed():
    before = os.sched_getaffinity(0)
    one = min(before)
    try:
        os.sched_setaffinity(0, {one})
        assert usable_cores() == (one,)
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == tuple(sorted(before))


def test_a_system_that_does_not_say_may_use_all(monkeypatch):
    monkeypatch.delattr(os, 'sched_getaffinity', raising=False)
    monkeypatch.setattr(os, 'cpu_count', lambda: 3)
    assert usable_cores() == (0, 1, 2)
    monkeypatch.setattr(os, 'cpu_count', lambda: None)
    assert usable_cores() == (0,)
