from unittest import mock

import jax
import pytest
from jax import numpy as jnp

from passk_jax.runtime.profiling import Profile, parse_steps


def traces(directory):
    return sorted(directory.rglob('*.xplane.pb'))


@pytest.fixture
def calls():
    with mock.patch.multiple(
        jax.profiler, start_trace=mock.DEFAULT, stop_trace=mock.DEFAULT
    ) as patched:
        calls = mock.Mock()
        for name, mocked in patched.items():
            calls.attach_mock(mocked, name)
        yield calls


def run(profile, steps, calls):
    with profile:
        for step in steps:
            with profile.step(step):
                calls.step(step)


def test_the_trace_covers_its_steps_and_no_other(tmp_path, calls):
    run(Profile(tmp_path, range(2, 4)), range(6), calls)
    assert calls.mock_calls == [
        mock.call.step(0),
        mock.call.step(1),
        mock.call.start_trace(tmp_path),
        mock.call.step(2),
        mock.call.step(3),
        mock.call.stop_trace(),
        mock.call.step(4),
        mock.call.step(5),
    ]


def test_a_run_that_resumes_among_them_traces_the_rest(tmp_path, calls):
    run(Profile(tmp_path, range(2, 5)), range(3, 5), calls)
    assert calls.mock_calls == [
        mock.call.start_trace(tmp_path),
        mock.call.step(3),
        mock.call.step(4),
        mock.call.stop_trace(),
    ]


def test_an_error_ends_the_trace(tmp_path, calls):
    calls.step.side_effect = ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        run(Profile(tmp_path, range(2)), range(2), calls)
    assert calls.mock_calls[-1] == mock.call.stop_trace()


def test_without_steps_nothing_is_traced(tmp_path, calls):
    run(Profile(tmp_path, parse_steps('', last=3)), range(3), calls)
    assert calls.mock_calls == [mock.call.step(i) for i in range(3)]


def test_a_trace_is_written(tmp_path):
    with Profile(tmp_path, range(1)) as profile, profile.step(0):
        jnp.ones(3).sum().block_until_ready()
    assert len(traces(tmp_path)) == 1


@pytest.mark.parametrize(
    'steps', ['10', '10-12', '12:10', '10:10', '-1:2', '298:301', 'a:b', '1:2:3']
)
def test_other_steps_are_refused(steps):
    with pytest.raises(ValueError, match=f'--profile={steps} must be .* of the run'):
        parse_steps(steps, last=300)


def test_the_last_step_can_be_traced():
    assert parse_steps('299:300', last=300) == range(299, 300)
