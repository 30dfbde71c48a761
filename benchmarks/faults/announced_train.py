"""The trainer, which tells the fault campaign when it verifies, and lingers there.

``$FAULTS_MARKS`` is a folder. Each process appends the number of every step that it
verifies to ``steps-<process>``, and keeps ``verifying-<process>`` there meanwhile.
Verifying a tiny maze takes less than a signal needs, so it pauses.

Process 1 keeps its compiled programs, too, which JAX leaves to process 0: their keys
differ, and a restart would compile them for a minute. Nothing else is changed:
``benchmarks/faults/campaign.py`` starts this in place of ``passk_jax.train``.
"""

import os
import pathlib
import time
from typing import Any

import jax
from jax._src import compiler, distributed

from passk_jax import cli, train
from passk_jax.rollouts.verify import Verify

_PAUSE_SECONDS = 0.05
_verify, _write = Verify.__call__, compiler._cache_write


def announced(*args: Any, step: int, **keywords: Any) -> Any:
    """The verb *verify*, announced where training calls it, which wants to be told."""
    if 'begin_phase' not in keywords:
        return _verify(*args, step=step, **keywords)
    marks, index = pathlib.Path(os.environ['FAULTS_MARKS']), jax.process_index()
    with (marks / f'steps-{index}').open('a') as stream:
        stream.write(f'{step}\n')
    mark = marks / f'verifying-{index}'
    mark.touch()
    time.sleep(_PAUSE_SECONDS)
    verified = _verify(*args, step=step, **keywords)
    mark.unlink(missing_ok=True)
    return verified


def write_anyway(*args: Any) -> None:
    """Keeps a compiled program on whichever process."""
    state = distributed.global_state
    index, state.process_id = state.process_id, 0
    try:
        _write(*args)
    finally:
        state.process_id = index


if __name__ == '__main__':
    Verify.__call__, compiler._cache_write = announced, write_anyway
    cli.run(train.main)
