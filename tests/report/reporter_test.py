"""Pictures are written beside the training, which they neither hold up nor end."""

import threading

import pytest

from passk_jax.report import reporter
from passk_jax.report.reporter import Reporter
from tests.report.run_data_test import _write_lines


@pytest.fixture
def written(monkeypatch):
    """What is written: the number of steps, and in which thread."""
    calls = []

    def write(run):
        calls.append((len(run.train), threading.current_thread().name))

    monkeypatch.setattr(reporter, 'write_curves', write)
    monkeypatch.setattr(reporter, 'write_report', lambda run: None)
    return calls


def test_a_report_is_written_in_another_thread(tmp_path, written):
    pictures = Reporter(tmp_path)
    pictures.finish()
    assert not written
    pictures.write()
    pictures.finish()
    assert written == [(0, 'report')]
    assert 'report' not in {thread.name for thread in threading.enumerate()}


def test_reports_that_are_due_meanwhile_are_one_more(tmp_path, monkeypatch):
    begun, go_on, steps = threading.Event(), threading.Event(), []

    def write(run):
        steps.append(len(run.train))
        begun.set()
        assert go_on.wait(10)

    monkeypatch.setattr(reporter, 'write_curves', write)
    monkeypatch.setattr(reporter, 'write_report', lambda run: None)
    pictures = Reporter(tmp_path)
    pictures.write()
    assert begun.wait(10)
    _write_lines(
        tmp_path / 'metrics.jsonl', *({'step': s, 'split': 'train'} for s in range(3))
    )
    for _ in range(4):
        # Training goes on.
        pictures.write()
    go_on.set()
    pictures.finish()
    assert steps == [0, 3]


@pytest.mark.parametrize(
    'error',
    [ValueError('x'), KeyError('k'), MemoryError(), RecursionError(), OSError()],
)
def test_whatever_goes_wrong_is_a_warning_with_file_and_cause(
    tmp_path, monkeypatch, caplog, error
):
    def fail(run):
        raise error

    monkeypatch.setattr(reporter, 'write_curves', fail)
    monkeypatch.setattr(reporter, 'write_report', fail)
    pictures = Reporter(tmp_path)
    pictures.write()
    pictures.finish()
    for name in ('curves.png', 'report.html'):
        message = f'{tmp_path / name} is not up to date: {type(error).__name__}'
        assert caplog.text.count(message) == 1


def test_a_directory_that_is_gone_is_a_warning(tmp_path, caplog):
    pictures = Reporter(tmp_path / 'gone')
    pictures.write()
    pictures.finish()
    assert 'no run directory at' in caplog.text
