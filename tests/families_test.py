"""``experiments/families.py`` on rows whose answer is known, and on its results."""

import collections

import numpy as np
import pytest

from configs import families_tiny
from experiments import families
from experiments.sweeps.families import get_sweep
from passk_jax.sweeps.rows import compress_rows
from passk_jax.tasks import make_task
from tests import tiny

RESULTS = tiny.ROOT / 'experiments' / 'results'
ROWS = f'{get_sweep().name}.jsonl.gz'


def test_the_table_has_each_family_and_all(tmp_path, capsys):
    # Family number f gains f + seed thousandths.
    rows = [
        {'arm': arm, 'seed': seed, 'split': 'test', 'step': 4}
        | {
            f'{family}/{name}': gain * (number + seed) / 1_000
            for number, family in enumerate(families_tiny.FAMILIES)
            for name in families.MEASURES
        }
        for seed in range(3)
        for arm, gain in (('pass_at_1', 0), ('pass_at_k', 1))
    ]
    (tmp_path / ROWS).write_bytes(compress_rows(rows))
    families.main(results=str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith('| test split, 15 families x 3 seeds | Pass@1 | Pass@32')
    assert lines[2].startswith('| sudoku2 | +0.001 [-0.001, +0.003]')
    assert lines[16].startswith('| spell_backward | +0.015 [+0.013, +0.017]')
    assert lines[-6].startswith('| all, over families | +0.008 [+0.006, +0.010]')


def test_the_committed_table_is_that_of_the_rows(tmp_path):
    if not (RESULTS / ROWS).exists():
        pytest.skip('its runs are not done')
    (tmp_path / ROWS).write_bytes((RESULTS / ROWS).read_bytes())
    families.main(results=str(tmp_path))
    table = (tmp_path / 'families_crossed.md').read_text()
    assert table == (RESULTS / 'families_crossed.md').read_text()


@pytest.mark.slow
def test_answers_fit_and_none_is_safe():
    """One that is common in training is right for a tenth of the test at most."""
    config = families_tiny.get_config()
    task = make_task(config.task.name, config.task.params.to_dict())
    train, test = (task.source(split, data_dir='') for split in ('train', 'test'))
    rng = np.random.default_rng(0)
    answers = collections.defaultdict(collections.Counter)
    for problem in train:
        answer = task.demonstration(problem, kind='solution', rng=rng)
        answers[problem.category][answer] += 1
    assert answers.keys() == {*families_tiny.FAMILIES}
    for family, counts in answers.items():
        # And a stop token.
        assert max(map(len, counts)) < config.sampling.max_response_tokens, family
        problems = [problem for problem in test if problem.category == family]
        common = [answer for answer, _ in counts.most_common(100)]
        correct = task.verify(problems, [common] * len(problems)).correct
        assert correct.mean(axis=0).max() <= 0.1, family
