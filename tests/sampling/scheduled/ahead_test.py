"""What comes next is compiled beside decoding, once, and changes no token."""

import contextlib
import dataclasses
import threading
from unittest import mock

import jax
import pytest
from jax._src import config

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.runtime import compile_cache
from passk_jax.runtime.background import Background
from passk_jax.sampling.scheduled import ahead, cost, host
from passk_jax.sampling.scheduled.grid import Size
from tests.models import oracle
from tests.sampling import sampler_test
from tests.sampling.sampler_test import assert_same, at, key, plain, run, work_of
from tests.slow import slow_rows

AHEAD = dataclasses.replace(sampler_test.ACCELERATORS, ahead=True)

# Each test has its own limit of tokens, so no other has compiled its programs.


class Compiled:
    """The programs that were compiled, by thread."""

    def __init__(self):
        self.main, self.beside = [], []

    def __call__(self, event, seconds, fun_name='', **_):
        if event == compile_cache._COMPILED:
            is_main = threading.current_thread() is threading.main_thread()
            (self.main if is_main else self.beside).append(fun_name)


@contextlib.contextmanager
def compilations():
    compiled = Compiled()
    jax.monitoring.register_event_duration_secs_listener(compiled)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(compiled)


@pytest.fixture(autouse=True)
def background(monkeypatch):
    """A thread of the test alone, which no other test has compiled with."""
    jobs = Background()
    monkeypatch.setattr(ahead, 'BACKGROUND', jobs)
    with at(AHEAD):
        yield jobs
    jobs.plan({})
    jobs.wait()


@pytest.fixture
def watched(background, monkeypatch):
    """The grids and rings that decode; the thread has time before each."""
    seen, advance = [], host.Decoding.advance

    def wait(self, until):
        background.wait()
        seen.append((self.size, self.ring))
        return advance(self, until)

    monkeypatch.setattr(host.Decoding, 'advance', wait)
    return seen


@contextlib.contextmanager
def placed(policy, params, prompts, sizes):
    """Parameters and prompts on a mesh; ``None``: on one device without a mesh."""
    if sizes is None:
        yield jax.device_put(params), jax.device_put(prompts)
        return
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        shapes = policies.param_shapes(policy, mesh)
        decode_params = {
            k: jax.device_put(x, shapes[k].sharding) for k, x in params.items()
        }
        yield (
            decode_params,
            jax.device_put(prompts, sharding.batch_sharding(mesh, prompts)),
        )


@pytest.mark.parametrize(
    ('limit', 'sizes', 'part', 'size', 'changes'),
    slow_rows(
        [
            (49, None, 1 / 4, None, 2),
            (50, None, 1 / 4, Size(2, 2), 1),
            (51, (2, 2, 1, 2), 1 / 2, None, 2),
            (52, (1, 2, 2, 2), 1 / 2, Size(1, 2), 1),
        ],
    ),
)
def test_no_call_waits_for_what_was_compiled_ahead(
    two_layers, prompts, watched, background, limit, sizes, part, size, changes
):
    policy, params = two_layers
    how = {'max_response_tokens': limit}
    expected = plain(policy, params, prompts, **how)
    pace = dataclasses.replace(AHEAD, part=part)
    # Another test may have compiled what does not depend on the limit.
    jax.clear_caches()
    with placed(policy, params, prompts, sizes) as (params, prompts), at(pace):
        work = work_of(policy, prompts, tokens=limit)
        how |= {'key': key(), 'max_cache_bytes': work.cache_bytes(size) if size else 0}
        with compilations() as compiled, jax.transfer_guard('disallow'):
            have = run(policy, params, prompts, **how)
        assert_same(have, expected)
        # The grid or the ring changed, and then all was there; so were refills.
        assert len(set(watched)) > changes
        assert 'jit(advance)' in compiled.beside
        # Windows of prompts, where not all problems have a slot.
        assert ('jit(put)' in compiled.beside) == bool(size)
        assert compiled.main[-1] == 'jit(advance)'
        assert compiled.main.count('jit(advance)') == 1
        background.wait()
        with compilations() as compiled:
            assert_same(run(policy, params, prompts, **how), expected)
        assert not compiled.main
        assert not compiled.beside


def test_nothing_is_compiled_twice_if_decoding_does_not_wait(
    policy, params, prompts, background
):
    how = {'max_response_tokens': 53}
    seen, advance = set(), host.Decoding.advance

    def look(self, until):
        seen.add((self.size, self.ring))
        return advance(self, until)

    with (
        compilations() as compilation,
        mock.patch.object(host.Decoding, 'advance', look),
    ):
        have = run(policy, params, prompts, **how)
        background.wait()
    compiled = {key[1] for key in background._finished if key}
    programs = {x for x in seen | compiled if x[0] not in ('window', 'refill')}
    assert (
        (compilation.main + compilation.beside).count('jit(advance)')
        == len(programs)
        > 2
    )
    assert_same(have, plain(policy, params, prompts, **how))


@pytest.mark.slow
def test_decoding_waits_for_a_program_under_way(
    policy, params, prompts, background, monkeypatch
):
    how = {'max_response_tokens': 54}
    begun, claimed, events = threading.Event(), threading.Event(), []
    lengthen, claim = ahead.Ahead.lengthen, background.claim

    def late(self, *args):
        begun.set()
        assert claimed.wait(60)
        lengthen(self, *args)
        events.append('compiled')

    def watch(change):
        assert begun.wait(60)
        claimed.set()
        claim(change)
        events.append('claimed')

    monkeypatch.setattr(ahead.Ahead, 'lengthen', late)
    monkeypatch.setattr(background, 'claim', watch)
    how['stop_tokens'] = ()
    with compilations() as compiled:
        have = run(policy, params, prompts, **how)
    assert events == ['compiled', 'claimed']
    # It did not compile what it had waited for.
    assert compiled.main.count('jit(advance)') == 1
    assert_same(have, plain(policy, params, prompts, **how))


@pytest.mark.slow
def test_an_error_of_the_thread_costs_only_time(
    policy, params, prompts, watched, monkeypatch, caplog
):
    how = {'max_response_tokens': 55}

    def fail(*_, **__):
        raise RuntimeError('no memory')

    monkeypatch.setattr(ahead, 'compiled', fail)
    with compilations() as compiled:
        have = run(policy, params, prompts, **how)
    assert_same(have, plain(policy, params, prompts, **how))
    assert compiled.main.count('jit(advance)') == len(set(watched)) > 2
    assert [x.message for x in caplog.records].count(
        'compiling in background failed, so decoding waits: no memory'
    ) == 1


@pytest.mark.slow
def test_what_is_planned_keeps_no_array_alive(policy, params, prompts, monkeypatch):
    planned = []
    monkeypatch.setattr(Background, 'plan', lambda self, jobs: planned.append(jobs))
    run(policy, params, prompts)
    planned.clear()
    before = len(jax.live_arrays())
    run(policy, params, prompts)
    assert planned
    assert len(jax.live_arrays()) == before


@pytest.mark.parametrize('name', ['config_states', 'trace_context', 'config_ext'])
def test_without_what_it_needs_of_jax_nothing_compiles_ahead(
    policy, params, prompts, watched, monkeypatch, caplog, name
):
    expected = run(policy, params, prompts)
    ahead.is_possible.cache_clear()
    with monkeypatch.context() as patch:
        patch.delattr(config, name)
        assert not ahead.is_possible()
    with mock.patch.object(Background, 'plan') as plan:
        assert_same(run(policy, params, prompts), expected)
    ahead.is_possible.cache_clear()
    assert not plan.called
    (line,) = [x for x in caplog.messages if 'cannot copy the context' in x]
    assert name in line


def test_a_job_runs_in_the_context_of_its_plan():
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=2, tensor=2)
    contexts = []
    with (
        jax.set_mesh(mesh),
        jax.default_matmul_precision('float32'),
        jax.transfer_guard_host_to_device('disallow'),
    ):
        (_, here), expected = ahead.context(), look()
    assert look() != expected
    thread = threading.Thread(target=here, args=(lambda: contexts.append(look()),))
    thread.start()
    thread.join()
    assert contexts == [expected]


def look():
    """What JAX keys its caches with, the devices and a guard, in this thread."""
    guard = jax.config.jax_transfer_guard_host_to_device
    return config.trace_context(), jax.sharding.get_mesh(), guard


def test_a_thread_compiles_where_it_disturbs_nothing():
    arch = oracle.tiny_arch()
    assert cost.open_account(arch, {}, 'tpu').pace.ahead
    assert not cost.open_account(arch, {}, 'gpu').pace.ahead
    assert not sampler_test.DEFAULT.ahead
