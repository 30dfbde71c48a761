"""Process 0 knows where the others are, and for whom they wait."""

import pytest

from passk_jax.runs.whereabouts import Whereabouts


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def whereabouts(now):
    return Whereabouts(clock=lambda: now[0])


def test_nobody_is_late_until_somebody_is(whereabouts, now):
    assert whereabouts.late(seconds=60) == ''
    whereabouts.note(0, 'verify', 7, 'a')
    now[0] += 59
    whereabouts.note(1, 'decode', 7, 'b')
    assert whereabouts.late(seconds=60) == ''
    now[0] += 1
    # All are named then, whoever came first at the front.
    assert whereabouts.late(seconds=60) == (
        'verify of step 7 for 60 s: process 0 (a); '
        'decode of step 7 for 1 s: process 1 (b)'
    )
    whereabouts.note(0, 'gather', 7, 'a')
    assert whereabouts.late(seconds=60) == ''


def test_those_in_one_phase_stand_together_and_the_furthest_behind_first(
    whereabouts, now
):
    for process in range(5):
        whereabouts.note(process, 'wait', 8, 'a')
        now[0] += 1
    whereabouts.note(5, 'verify', 7, 'b')
    whereabouts.note(6, 'verify', 7, 'c')
    now[0] += 60
    assert whereabouts.late(seconds=60) == (
        'verify of step 7 for 60 s: processes 5 (b), 6 (c); '
        'wait of step 8 for 65 s: 5 processes'
    )


def test_the_slowest_is_who_comes_to_the_meetings_last(whereabouts, now):
    def meet(phase, *behind, step=3):
        # In any order of processes.
        for when, process in sorted((b, p) for p, b in enumerate(behind)):
            now[0] = 200.0 + when
            whereabouts.note(process, phase, step, 'a')

    meet('wait', 0, 0, 3)
    # Twice in a step of several draws.
    meet('gather', 5, 0, 0.5)
    meet('gather', 1, 0, 0)
    # No meeting, and one of another step.
    meet('decode', 0, 90, 0)
    meet('wait', 0, 70, 0, step=4)
    # Behind the median: 4.5 + 1 of process 0, 3 of process 2.
    assert whereabouts.slowest(3) == (0, 5.5)
    assert whereabouts.slowest(3) is None
    assert whereabouts.slowest(4) == (1, 70)


def test_of_two_processes_the_delay_is_what_the_other_waited(whereabouts, now):
    whereabouts.note(0, 'gather', 3, 'a')
    now[0] += 10
    whereabouts.note(1, 'gather', 3, 'b')
    assert whereabouts.slowest(3) == (1, 10)


def test_a_meeting_that_is_over_is_forgotten(whereabouts):
    for process in range(2):
        whereabouts.note(process, 'wait', 3, 'a')
    assert whereabouts.slowest(4) is None
    assert whereabouts.slowest(3) is None


def test_alone_nobody_is_slow(whereabouts):
    whereabouts.note(0, 'wait', 0, 'a')
    assert whereabouts.slowest(0) is None
