"""Every set of the package is allowed or left out for a reason."""

import importlib.util

import pytest

from passk_jax.tasks.reasoning_gym import problems, table

needs_package = pytest.mark.skipif(
    importlib.util.find_spec('reasoning_gym') is None,
    reason='needs reasoning-gym, an optional extra',
)


def test_each_set_is_in_one_place():
    places = [*table.BY_TEXT, *table.SCORED, *table.LEFT_OUT]
    assert len(places) == len({*places}) == 106
    assert [*table.ALLOWED] == sorted({*table.BY_TEXT, *table.SCORED})
    assert {'puzzle24', 'n_queens', 'word_ladder'} <= table.LEFT_OUT.keys()


@needs_package
def test_the_table_has_every_set_and_knows_those_with_a_scorer():
    problems.load_package()
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS

    assert {*table.ALLOWED} | table.LEFT_OUT.keys() == DATASETS.keys()
    for name in table.ALLOWED:
        has_one = DATASETS[name][0].score_answer is not ProceduralDataset.score_answer
        assert has_one == (name in table.SCORED), name
