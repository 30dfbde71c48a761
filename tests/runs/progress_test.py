"""Progress says what a person asks for, and is quiet where nobody watches."""

import io
import logging

import pytest

from passk_jax.runs.progress import Progress, format_value


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class _Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def lines():
    """The messages of absl's logger, which does not propagate to pytest's."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger('absl')
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield messages
    logger.removeHandler(handler)
    logger.setLevel(level)


def _off_terminal(clock, **kwargs):
    stream = io.StringIO()
    return Progress(
        stream=stream, clock=clock, description='training', **kwargs
    ), stream


def test_off_a_terminal_lines_come_first_then_ever_more_rarely_then_last(lines):
    clock = _Clock()
    progress, stream = _off_terminal(clock, total=100, initial=0)
    with progress:
        for step in range(1, 101):
            progress.update(step, reward=step / 100, tokens_per_second=12345.6)
            clock.now += 1.0
    assert [line.split(',')[0] for line in lines] == [
        f'training {step}/100' for step in (1, 11, 31, 71, 100)
    ]
    assert lines[1] == (
        'training 11/100, reward 0.110, tokens per second 12,346, ETA 0:01:29'
    )
    assert 'ETA' not in lines[-1]
    assert stream.getvalue() == ''


def test_the_time_left_counts_neither_compiling_nor_steps_of_before(lines):
    clock = _Clock()
    progress, _ = _off_terminal(clock, total=100, initial=50)
    with progress:
        clock.now = 600.0
        progress.update(51)
        clock.now = 620.0
        progress.update(61)
    assert lines[-1] == 'training 61/100, ETA 0:01:18'


def test_the_end_is_not_said_twice_and_an_empty_loop_says_nothing(lines):
    progress, _ = _off_terminal(_Clock(), total=1, initial=0)
    with progress:
        progress.update(1)
    assert lines == ['training 1/1']
    with _off_terminal(_Clock(), total=1, initial=1)[0]:
        pass
    assert len(lines) == 1


def test_a_short_loop_shows_nothing_if_it_may_be_silent(lines):
    for seconds, expected in ((7.0, []), (16.0, ['training 2/3', 'training 3/3'])):
        clock = _Clock()
        progress, _ = _off_terminal(clock, total=3, initial=0, silent_seconds=30.0)
        with progress:
            for step in range(1, 4):
                clock.now += seconds
                progress.update(step)
        assert [line.split(',')[0] for line in lines] == expected


def test_a_short_loop_shows_no_bar_if_it_may_be_silent(lines):
    stream = _Terminal()
    with Progress(
        3, initial=0, description='training', stream=stream, silent_seconds=30.0
    ) as progress:
        progress.update(3)
    assert stream.getvalue().strip('\r ') == ''
    assert lines == []


def test_evaluations_are_shown_with_their_split_which_stays_the_same(lines):
    # As a line of metrics.jsonl has them, in the order of their names.
    values = {'pass_at_1': 0.25, 'pass_at_1_low': 0.0, 'pass_at_16': 0.75}
    values |= {'pass_at_2': 0.5, '5x5/pass_at_1': 0.0}
    progress, _ = _off_terminal(_Clock(), total=2, initial=0)
    with progress:
        progress.evaluation(0, 'validation', values)
        progress.evaluation(0, 'test', {'pass_at_1': 0.125})
        progress.update(1, reward=0.5)
        progress.update(2, reward=0.0)
        progress.evaluation(2, 'validation', {'pass_at_1': 0.375})
        progress.evaluation(2, 'test', {'pass_at_1': 0.125})
    figures = 'validation pass@1 0.250, validation pass@16 0.750'
    assert lines == [
        f'training 1/2, reward 0.500, {figures}',
        'training after step 2: validation pass@1 0.375',
        'training after step 2: test pass@1 0.125',
        'training 2/2, reward 0.000, validation pass@1 0.375',
    ]


def test_on_a_terminal_it_is_a_bar_and_no_lines(lines):
    stream = _Terminal()
    with Progress(10, initial=4, description='training', stream=stream) as progress:
        progress.update(6, reward=0.25, pass_at_8=0.5)
    last = stream.getvalue().split('\r')[-1]
    assert 'training' in last
    assert '6/10' in last
    assert 'reward 0.250, pass@8 0.500' in last
    assert lines == []


def test_only_process_0_shows_it(lines, monkeypatch):
    monkeypatch.setattr('jax.process_index', lambda: 1)
    stream = _Terminal()
    with Progress(10, initial=0, description='training', stream=stream) as progress:
        progress.evaluation(10, 'test', {'pass_at_1': 0.125})
        progress.update(1)
    assert stream.getvalue() == ''
    assert lines == []


@pytest.mark.parametrize(
    ('value', 'text'),
    [(0.12345, '0.123'), (3, '3'), (12345, '12,345'), (2345.6, '2,346'), (-1, '-1')],
)
def test_numbers_have_the_digits_a_person_reads(value, text):
    assert format_value(value) == text


def test_a_long_loop_logs_a_line_in_ten_minutes(lines):
    clock = _Clock()
    progress, _ = _off_terminal(clock, total=24 * 60, initial=0)
    with progress:
        for minute in range(1, 24 * 60 + 1):
            progress.update(minute)
            clock.now += 60.0
    assert 140 < len(lines) < 152
    assert lines[-2].startswith('training 143')
