import io

import pytest

from passk_jax.sweeps.progress import Display, Pace, duration, line
from tests.sweeps.directories_test import make_job, write_rows


class Clock:
    """Says what it was told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_pace_leaves_out_what_came_before_the_first_step():
    clock = Clock()
    pace = Pace(clock)
    for now, steps in ((0, 0), (50, 0), (60, 1), (64, 3)):
        clock.now = now
        pace.see('a', steps)
    assert pace.seconds('a') == 2
    # A run that goes on from a checkpoint takes its first steps again.
    pace.forget('a')
    for now, steps in ((100, 2), (103, 3)):
        clock.now = now
        pace.see('a', steps)
    assert pace.seconds('a') == 3
    assert pace.seconds('b') == 3


def test_the_time_left_is_that_of_so_many_at_a_time(tmp_path):
    clock = Clock()
    pace = Pace(clock)
    jobs = [make_job(tmp_path, name) for name in 'abc']
    assert pace.seconds_left(jobs[:1], jobs[1:], at_a_time=2) is None
    for now, steps in ((0, 1), (10, 2)):
        clock.now = now
        pace.see('a', steps)
    write_rows(jobs[0], {'step': 1, 'split': 'train'})
    # 20 seconds are left of a, and 40 each of b and c; c follows a.
    assert pace.seconds_left(jobs[:1], jobs[1:], at_a_time=2) == 60
    assert pace.seconds_left(jobs[:1], jobs[1:], at_a_time=1) == 100
    assert pace.seconds_left([], [], at_a_time=2) == 0


def test_a_line_says_how_far_a_run_is(tmp_path):
    job = make_job(tmp_path)
    assert line(job, 'waiting', width=9) == 'a_seed0    waiting   0/4'
    write_rows(job, {'step': 1, 'split': 'train', 'reward': 0.25})
    text = line(job, 'running', seconds=0.314, width=0)
    assert text == 'a_seed0  running   2/4, reward 0.250, 0.31 s a step'
    assert line(job, 'done', width=0) == 'a_seed0  done      2/4'


@pytest.mark.parametrize(
    ('seconds', 'text'), [(None, 'unknown'), (3723.4, '1:02:03'), (0, '0:00:00')]
)
def test_a_duration_is_hours_minutes_seconds(seconds, text):
    assert duration(seconds) == text


def test_on_a_terminal_lines_are_drawn_anew(monkeypatch):
    monkeypatch.setenv('COLUMNS', '20')
    stream, clock = Terminal(), Clock()
    display = Display(stream, clock=clock)
    display.show(lambda: ['too early'])
    clock.now = 1
    display.show(lambda: ['one', 'x' * 30])
    drawn = f'one\n{"x" * 19}\n'
    assert stream.getvalue() == drawn
    display.say('done')
    erased = '\x1b[2F\x1b[J'
    assert stream.getvalue() == f'{drawn}{erased}done\n{drawn}'
    clock.now = 2
    display.show(lambda: ['two'])
    assert stream.getvalue() == f'{drawn}{erased}done\n{drawn}{erased}two\n'


def test_elsewhere_lines_are_written_now_and_then():
    stream, clock = io.StringIO(), Clock()
    display = Display(stream, between=60, clock=clock)
    for now in range(0, 130, 10):
        clock.now = now
        display.show(lambda now=now: [f'at {now}'])
    display.say('done')
    assert stream.getvalue() == 'at 60\nat 120\ndone\n'
