"""Evaluations that were made before: of the first policy by another run, or here."""

import json
import shutil
from unittest import mock

import pytest

from passk_jax.evaluation.evaluate import Evaluate
from passk_jax.runs import known_evaluations
from passk_jax.runs.records import evaluation_name
from tests import tiny

SPLITS = ('validation', 'test')


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A run of one step, which evaluates before and after it."""
    path = tmp_path_factory.mktemp('first') / 'a'
    assert tiny.run(tiny.make_config(train__steps=1), path)
    return path


def run_and_note(path):
    """Runs a step; returns the evaluations that it makes."""
    evaluated, evaluate = [], Evaluate.__call__

    def noted(self, *arguments, split, step, **keywords):
        evaluated.append((split, step))
        return evaluate(self, *arguments, split=split, step=step, **keywords)

    with mock.patch.object(Evaluate, '__call__', noted):
        assert tiny.run(tiny.make_config(train__steps=1), path)
    return evaluated


def check_same_files(path, finished):
    for pattern in ('metrics.jsonl', 'digests.jsonl', 'evaluation/*'):
        files = sorted(finished.glob(pattern))
        assert files
        for file in files:
            same = path / file.relative_to(finished)
            assert same.read_bytes() == file.read_bytes()


def test_a_run_with_copies_writes_the_same_bytes_and_samples_none(finished, tmp_path):
    copied = tiny.warm_copy(finished, tmp_path / 'b')
    for split in SPLITS:
        assert known_evaluations.copy_first(finished, copied, split)
    assert run_and_note(copied) == [(split, 1) for split in SPLITS]
    check_same_files(copied, finished)


def test_a_finished_run_that_is_run_again_evaluates_nothing(finished, tmp_path):
    again = tmp_path / 'b'
    shutil.copytree(finished, again)
    assert run_and_note(again) == []
    check_same_files(again, finished)


def test_an_evaluation_that_is_damaged_or_incomplete_is_made_again(finished, tmp_path):
    again = tmp_path / 'b'
    shutil.copytree(finished, again)
    # A kill may come between a line of metrics and its records.
    (again / 'evaluation' / evaluation_name('validation', 1)).unlink()
    path = again / 'evaluation' / evaluation_name('test', 1)
    path.write_text(path.read_text().replace('true', 'false'))
    assert run_and_note(again) == [(split, 1) for split in SPLITS]
    check_same_files(again, finished)


def test_what_is_not_there_yet_is_not_copied(tmp_path):
    source, target = tmp_path / 'a', tmp_path / 'b'
    assert not known_evaluations.copy_first(source, target, 'test')
    assert known_evaluations.KnownEvaluations(target, 0).get(0, 'test') is None
    assert not target.exists()


def test_a_source_without_its_line_of_metrics_is_refused(finished, tmp_path):
    source = tmp_path / 'a'
    (source / 'evaluation').mkdir(parents=True)
    for path in (finished / 'evaluation').iterdir():
        (source / 'evaluation' / path.name).write_bytes(path.read_bytes())
    line = json.dumps({'step': 0, 'split': 'validation'}) + '\n'
    (source / 'metrics.jsonl').write_text(line)
    with pytest.raises(ValueError, match="no whole evaluation of 'test' before step 0"):
        known_evaluations.copy_first(source, tmp_path / 'b', 'test')
