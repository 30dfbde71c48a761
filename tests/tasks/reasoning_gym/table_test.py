"""Every set of the package is allowed or left out for a reason."""

import importlib.util

import pytest

from passk_jax.tasks.reasoning_gym import problems, table

needs_package = pytest.mark.skipif(
    importlib.util.find_spec('reasoning_gym') is None,
    reason='needs reasoning-gym, an optional extra',
)


def test_no_set_that_is_allowed_is_left_out_too():
    assert not {*table.ALLOWED} & table.LEFT_OUT.keys()
    assert {'puzzle24', 'n_queens', 'word_ladder'} <= table.LEFT_OUT.keys()


@needs_package
def test_the_table_has_every_set_and_allows_those_scored_by_comparison():
    problems.load_package()
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS

    assert {*table.ALLOWED} | table.LEFT_OUT.keys() == DATASETS.keys()
    for name in table.ALLOWED:
        scorer = DATASETS[name][0].score_answer
        assert scorer is ProceduralDataset.score_answer, name
