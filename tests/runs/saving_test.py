"""A save is whole or nothing, whatever happens while it is under way."""

import asyncio
import errno
import subprocess
import sys
import textwrap
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.serialization import serialization

from passk_jax.errors import ElsewhereError, NonFiniteError
from passk_jax.runs import checkpoints as checkpoint
from passk_jax.runs import commits, saving
from tests.runs import states
from tests.slow import slow_rows


@pytest.mark.parametrize('value', [np.nan, -np.inf])
def test_what_is_not_finite_takes_the_place_of_no_checkpoint(tmp_path, value):
    checkpoints, state = states.saved(tmp_path, 0, keep=1), states.state()
    state['params']['head'] = state['params']['head'].at[3, 4].set(value)
    with pytest.raises(NonFiniteError, match=r'/1 is not saved, .* finite: head$'):
        checkpoints.save(1, **state, meta=states.META)
    assert checkpoints.steps() == (0,)
    cache = tmp_path / 'cache'
    with pytest.raises(NonFiniteError, match='not finite: head'):
        checkpoint.save_cached_params(cache, state['params'], fingerprint={})
    assert not list(cache.iterdir())


@pytest.mark.parametrize('sharding', [None, states.sharding(8, 'fsdp')])
def test_what_the_next_step_donates_reaches_no_checkpoint(
    tmp_path, monkeypatch, sharding
):
    """The next step overwrites the arrays before a byte of them is written."""
    checkpoints = states.saved(tmp_path, 0)
    overwritten = threading.Event()
    write = serialization.async_serialize_from_host

    async def late(*args, **kwargs):
        assert await asyncio.to_thread(overwritten.wait, 20)
        return await write(*args, **kwargs)

    handlers = sys.modules[type_handlers.ArrayHandler.__module__]
    monkeypatch.setattr(handlers.serialization, 'async_serialize_from_host', late)
    overwrite = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    value, twin = (jax.device_put(jnp.arange(4096.0), sharding) for _ in range(2))
    overwrite(twin)
    assert twin.is_deleted()
    checkpoints.save(1, params={'w': value}, opt_state={}, meta={})
    assert not (tmp_path / '1' / 'commit.json').exists()
    assert (np.asarray(overwrite(value)) == -1).all()
    overwritten.set()
    target = {'w': jax.ShapeDtypeStruct((4096,), jnp.float32)}
    restored = checkpoints.restore(params=target, opt_state={})
    assert restored.step == 1
    np.testing.assert_array_equal(restored.params['w'], np.arange(4096.0))


def test_an_error_in_the_background_is_raised_at_the_next_question(
    tmp_path, monkeypatch
):
    def full(path, commit):
        raise OSError(errno.ENOSPC, 'No space left on device', str(path))

    checkpoints = states.saved(tmp_path, 0)
    checkpoints.check()
    monkeypatch.setattr(saving, 'write_commit', full)
    checkpoints.save(1, **states.state(), meta={})
    words = r'1 could not be saved \(complete=\[0\]\): OSError: .*No space left'
    checkpoints._saving._thread.join()
    with pytest.raises(ValueError, match=words):
        checkpoints.check()
    with pytest.raises(ValueError, match=words):
        checkpoints.wait()
    # The partial checkpoint is removed, or the disk would stay full.
    assert [path.name for path in tmp_path.iterdir()] == ['0']
    monkeypatch.undo()
    checkpoints.save(1, **states.state(), meta={})
    assert checkpoints.steps() == (0, 1)


def test_the_first_save_is_on_disk_and_leaving_waits_for_the_last(
    tmp_path, monkeypatch
):
    write = saving.write_commit

    def slow(path, commit):
        time.sleep(0.3)
        write(path, commit)

    monkeypatch.setattr(saving, 'write_commit', slow)
    with checkpoint.Checkpoints(tmp_path, keep=5) as checkpoints:
        checkpoints.save(0, **states.state(), meta={})
        assert (tmp_path / '0' / 'commit.json').exists()
        checkpoints.save(1, **states.state(), meta={})
        assert not (tmp_path / '1' / 'commit.json').exists()
    assert (tmp_path / '1' / 'commit.json').exists()


_SAVE = """
import os, signal, sys
import jax.numpy as jnp
from passk_jax.runs import checkpoints as checkpoint
directory, event, end = sys.argv[1:]
def kill(happening, args):
    if happening == event and any(str(arg).endswith(end) for arg in args[:2]):
        os.kill(os.getpid(), signal.SIGKILL)
checkpoints = checkpoint.Checkpoints(directory, keep=1)
sys.addaudithook(kill)
checkpoints.save(9, params={'w': jnp.full(4, 9.0)}, opt_state={}, meta={})
checkpoints.wait()
"""


@pytest.mark.parametrize(
    ('event', 'end', 'step'),
    slow_rows(
        [
            ('os.mkdir', '/9', 8),
            ('os.mkdir', '/9/params', 8),
            ('os.rename', '/9/commit.json', 8),
            ('os.remove', '/8/commit.json', 9),
            ('shutil.rmtree', '/8', 9),
        ],
        quick=[('os.rename', '/9/commit.json', 8), ('os.remove', '/8/commit.json', 9)],
    ),
)
def test_a_save_killed_anywhere_leaves_the_old_checkpoint_or_the_whole_new_one(
    tmp_path, event, end, step
):
    old = checkpoint.Checkpoints(tmp_path, keep=1)
    old.save(8, params={'w': jnp.full(4, 8.0)}, opt_state={}, meta={})
    result = subprocess.run(
        [sys.executable, '-c', _SAVE, str(tmp_path), event, end], check=False
    )
    assert result.returncode == -9
    checkpoints = checkpoint.Checkpoints(tmp_path, keep=1)
    target = {'w': jax.ShapeDtypeStruct((4,), jnp.float32)}
    restored = checkpoints.restore(params=target, opt_state={})
    assert restored.step == step
    np.testing.assert_array_equal(restored.params['w'], np.full(4, float(step)))
    # The next save removes the half that was left.
    for after in (9, 10):
        value = jnp.full(4, float(after))
        checkpoints.save(after, params={'w': value}, opt_state={}, meta={})
    checkpoints.wait()
    assert [p.name for p in tmp_path.iterdir()] == ['10']


def test_a_full_disk_is_an_error_with_the_path_and_no_checkpoint(tmp_path):
    script = textwrap.dedent("""
        import resource, signal, sys
        import jax
        import jax.numpy as jnp
        from passk_jax.runs import checkpoints as checkpoint
        checkpoints = checkpoint.Checkpoints(sys.argv[1], keep=1)
        params = {'w': jax.random.normal(jax.random.key(0), (300, 300))}
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            checkpoints.save(4, params=params, opt_state={}, meta={})
        except ValueError as error:
            print('ValueError', error)
    """)
    result = subprocess.run(
        [sys.executable, '-c', script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'ValueError checkpoint {tmp_path / "4"} could not be' in result.stdout
    assert 'disk full' in result.stdout
    assert checkpoint.Checkpoints(tmp_path, keep=1).steps() == ()


def test_a_run_goes_on_if_an_old_checkpoint_cannot_be_removed(
    tmp_path, monkeypatch, caplog
):
    def busy(path):
        raise OSError(errno.EBUSY, 'busy', str(path))

    checkpoints = states.saved(tmp_path, 2, keep=1)
    monkeypatch.setattr(commits, 'remove', busy)
    checkpoints.save(3, **states.state(), meta={})
    assert checkpoints.steps() == (2, 3)
    assert 'cannot remove' in caplog.text


def test_an_error_of_another_process_is_shown_as_it_is():
    """``cli`` waits for the process that has it to say so first."""
    with (
        pytest.raises(ElsewhereError, match=r'^process 1 failed: a disk$'),
        saving.named_errors('checkpoint 3 could not be saved'),
    ):
        raise ElsewhereError('process 1 failed: a disk')
