"""Evaluations before step 0 that come from another run of the same first policy."""

import json
from unittest import mock

import pytest

from passk_jax.evaluation.evaluate import Evaluate
from passk_jax.runs import first_evaluations
from tests import tiny

SPLITS = ('validation', 'test')


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A run of one step, which evaluates before and after it."""
    path = tmp_path_factory.mktemp('first') / 'a'
    assert tiny.run(tiny.make_config(train__steps=1), path)
    return path


def test_a_run_with_copies_writes_the_same_bytes_and_samples_none(finished, tmp_path):
    copied = tiny.warm_copy(finished, tmp_path / 'b')
    for split in SPLITS:
        assert first_evaluations.copy(finished, copied, split)
    evaluated, evaluate = [], Evaluate.__call__

    def noted(self, *arguments, step, **others):
        evaluated.append(step)
        return evaluate(self, *arguments, step=step, **others)

    with mock.patch.object(Evaluate, '__call__', noted):
        assert tiny.run(tiny.make_config(train__steps=1), copied)
    assert evaluated == [1, 1]
    for pattern in ('metrics.jsonl', 'evaluation/*'):
        files = sorted(finished.glob(pattern))
        assert files
        for path in files:
            same = copied / path.relative_to(finished)
            assert same.read_bytes() == path.read_bytes()


def test_what_is_not_there_yet_is_not_copied(tmp_path):
    source, target = tmp_path / 'a', tmp_path / 'b'
    assert not first_evaluations.copy(source, target, 'test')
    assert first_evaluations.read(target, 'test') is None
    assert not target.exists()


def test_a_source_without_its_line_of_metrics_is_refused(finished, tmp_path):
    source = tmp_path / 'a'
    (source / 'evaluation').mkdir(parents=True)
    for path in (finished / 'evaluation').iterdir():
        (source / 'evaluation' / path.name).write_bytes(path.read_bytes())
    line = json.dumps({'step': 0, 'split': 'validation'}) + '\n'
    (source / 'metrics.jsonl').write_text(line)
    with pytest.raises(ValueError, match="no evaluation of 'test' before step 0"):
        first_evaluations.copy(source, tmp_path / 'b', 'test')
