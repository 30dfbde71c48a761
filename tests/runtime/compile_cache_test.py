import contextlib
import os
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
from absl import logging

from passk_jax.runtime import compile_cache
from tests import tiny

# Prints how many programs were read from the cache.
SCRIPT = """
import pathlib
import jax
from passk_jax.runtime import compile_cache
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: hits.append(event) if event.endswith('cache_hits') else None)
compile_cache._MIN_SECONDS = 0
compile_cache.keep_programs(pathlib.Path('/none'))
print(jax.jit(lambda x: x * 3 + 1)(2.0), len(hits))
"""


def run(home, **environment) -> str:
    environ = {
        k: v for k, v in os.environ.items() if not k.startswith(('JAX_C', 'JAX_PE'))
    }
    result = subprocess.run(
        [sys.executable, '-c', SCRIPT],
        env=environ | {'HOME': str(home)} | environment,
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_the_next_process_finds_what_this_one_compiled(tmp_path):
    assert run(tmp_path) == '7.0 0'
    (directory,) = (tmp_path / '.cache' / 'passk_jax' / 'xla').iterdir()
    assert list(directory.glob('*-cache'))
    value, hits = run(tmp_path).split()
    assert value == '7.0'
    assert int(hits) >= 1


def test_a_cache_of_ones_own_stays(tmp_path):
    cache = tmp_path / 'own'
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(cache)) == '7.0 0'
    assert not (tmp_path / '.cache').exists()


@pytest.fixture
def without_a_cache():
    before = jax.config.jax_compilation_cache_dir
    jax.config.update('jax_compilation_cache_dir', None)
    yield
    jax.config.update('jax_compilation_cache_dir', before)


@pytest.mark.usefixtures('without_a_cache')
def test_several_processes_share_a_cache_in_the_run(monkeypatch, tmp_path):
    limit = jax.config.jax_compilation_cache_max_size
    monkeypatch.setattr('jax.distributed.is_initialized', lambda: True)
    monkeypatch.setattr('jax.process_count', lambda: 2)
    compile_cache.keep_programs(tmp_path)
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'xla')
    assert jax.config.jax_compilation_cache_max_size == limit


@pytest.mark.usefixtures('without_a_cache')
def test_a_home_that_cannot_be_written_only_costs_time(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(compile_cache, 'DIRECTORY', '/proc/none/xla')
    with caplog.at_level(logging.WARNING):
        compile_cache.keep_programs(tmp_path)
    assert 'cannot write /proc/none/xla' in caplog.text
    assert jax.config.jax_compilation_cache_dir is None


def test_a_compilation_is_named_while_it_goes_on_and_when_it_ended(monkeypatch, caplog):
    monkeypatch.setattr(compile_cache, '_LONG_SECONDS', 0.0)
    listener = compile_cache._SlowCompilations()

    def three_times(x):
        return x * 3

    with (
        caplog.at_level('INFO', logger='absl'),
        listening(listener),
    ):
        jax.jit(three_times)(2.0)
    messages = [record.message for record in caplog.records]
    assert messages[0] == 'compiling jit(three_times)'
    assert messages[-1] == 'compiled jit(three_times) in 0 s'
    assert not listener.waiting


def test_a_compilation_beside_the_main_thread_is_said_to_be_one(monkeypatch, caplog):
    monkeypatch.setattr(compile_cache, '_LONG_SECONDS', 0.0)
    listener = compile_cache._SlowCompilations()
    lowered, compiled = threading.Event(), threading.Event()

    def listen(event, seconds, **kwargs):
        """Both threads compile a program of the same name at the same time."""
        listener(event, seconds, **kwargs)
        if event == compile_cache._LOWERED and threading.current_thread() is thread:
            lowered.set()
            compiled.wait(60)

    def four_times(x):
        return x * 4

    run = jax.jit(four_times)
    thread = threading.Thread(target=lambda: run.lower(np.ones(3)).compile())
    with caplog.at_level('INFO', logger='absl'), listening(listen):
        thread.start()
        assert lowered.wait(60)
        run(2.0)
        compiled.set()
        thread.join()
    assert {record.message for record in caplog.records} == {
        'compiling jit(four_times)',
        'compiled jit(four_times) in 0 s',
        'compiling jit(four_times) in the background',
        'compiled jit(four_times) in the background in 0 s',
    }
    assert not listener.waiting


def test_a_short_compilation_is_not_worth_a_line(caplog):
    with (
        caplog.at_level('INFO', logger='absl'),
        listening(compile_cache._SlowCompilations()),
    ):
        jax.jit(lambda x: x * 5)(2.0)
    assert not caplog.records


def test_a_compiler_finds_the_memory_that_the_run_has_freed(monkeypatch):
    calls = []
    monkeypatch.setattr(
        compile_cache, 'return_freed_memory', lambda **options: calls.append(options)
    )
    with listening(compile_cache._SlowCompilations()):
        jax.jit(lambda x: x * 6)(2.0)
    assert calls[0] == {'every': compile_cache._LONG_SECONDS}


@contextlib.contextmanager
def listening(listener):
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
