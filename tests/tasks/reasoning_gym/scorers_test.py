"""What a worker asks the package; a stand-in is enough."""

import json
import sys
import types

import pytest

from passk_jax.tasks.reasoning_gym import scorers


@pytest.fixture
def calls(monkeypatch):
    """The names of the sets whose scorers were made; each score is its item's."""
    names = []

    def get_score_answer_fn(name):
        names.append(name)
        return lambda answer, item: item['metadata'][answer]

    package = types.SimpleNamespace(get_score_answer_fn=get_score_answer_fn)
    monkeypatch.setitem(sys.modules, 'reasoning_gym', package)
    scorers._scorer.cache_clear()
    yield names
    scorers._scorer.cache_clear()


def test_only_a_score_of_one_is_right(calls):
    scores = {'one': 1, 'float': 1.0, 'less': 1 - 1e-9, 'more': 1 + 1e-9, 'none': 0}
    item = json.dumps({'set': 'dice', 'metadata': scores})
    verdicts = {answer: scorers.right(item, answer) for answer in scores}
    right = {'one': True, 'float': True, 'less': False, 'more': False, 'none': False}
    assert verdicts == right
    # Each set's data are read once.
    assert calls == ['dice']


def test_what_a_scorer_raises_is_left_to_the_worker(calls):
    item = json.dumps({'set': 'dice', 'metadata': {}})
    with pytest.raises(KeyError):
        scorers.right(item, 'answer')
