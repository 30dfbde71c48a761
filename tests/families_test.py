"""``experiments/families.py`` on rows whose answer is known, and on its results."""

import collections

import numpy as np
import pytest

from configs import families_tiny, smollm2
from experiments import families
from passk_jax.errors import InputError
from passk_jax.sweeps.rows import compress_rows
from passk_jax.tasks import make_task


@pytest.mark.parametrize(
    ('of', 'name', 'categories', 'factor', 'first'),
    [
        ('puzzles', 'families', families_tiny.FAMILIES, 'families', 'sudoku2'),
        ('smollm2', 'smollm2_families', smollm2.MANY, 'sets', 'lcm'),
    ],
)
def test_the_table_has_each_family_and_all(
    of, name, categories, factor, first, tmp_path, capsys
):
    # Family number f gains twice f + seed thousandths.
    rows = [
        {'arm': arm, 'seed': seed, 'split': 'test', 'step': 4}
        | {
            f'{family}/{measure}': gain * (number + seed) / 500
            for number, family in enumerate(categories)
            for measure in families.MEASURES
        }
        for seed in range(3)
        for arm, gain in (('pass_at_1', 0), ('pass_at_k', 1))
    ]
    (tmp_path / f'{name}.jsonl.gz').write_bytes(compress_rows(rows))
    families.main(of=of, results=str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert (tmp_path / f'{name}_crossed.md').read_text().splitlines() == lines
    assert lines[0].startswith(f'| test split, 15 {factor} x 3 seeds | Pass@1 | Pass@3')
    assert lines[2].startswith(f'| {first} | +0.002 [-0.003, +0.007]')
    assert lines[16].startswith('| spell_backward | +0.030 [+0.025, +0.035]')
    (overall,) = (line for line in lines if line.startswith(f'| all, over {factor}'))
    assert overall.startswith(f'| all, over {factor} | +0.016 [+0.011, +0.021]')
    # The families 5 to 14 gain 15 thousandths more than 0 to 4, with each seed.
    new = '| 10 new minus 5 others, over seeds | +0.015 [+0.015, +0.015] |'
    assert lines[-1].startswith(new) == (of == 'smollm2')


def test_a_study_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"--of=x must be one of \['puzzles', "):
        families.main(of='x')


def answers_of(config):
    """The task, and category -> how many training problems each answer belongs to."""
    task = make_task(config.task.name, config.task.params.to_dict())
    rng = np.random.default_rng(0)
    answers = collections.defaultdict(collections.Counter)
    for problem in task.source('train', data_dir=''):
        answer = task.demonstration(problem, kind='solution', rng=rng)
        answers[problem.category][answer] += 1
    return task, answers


@pytest.mark.slow
@pytest.mark.parametrize(
    ('config', 'categories', 'largest'),
    [
        (families_tiny.get_config(), families_tiny.FAMILIES, 0.1),
        (smollm2.get_config('sets=many'), smollm2.MANY, 0.25),
    ],
    ids=['puzzles', 'smollm2'],
)
def test_no_answer_is_safe(config, categories, largest):
    """One that is common in training is right for few problems of the test."""
    task, answers = answers_of(config)
    test = task.source('test', data_dir='')
    assert answers.keys() == {*categories}
    for family, counts in answers.items():
        problems = [problem for problem in test if problem.category == family]
        common = [answer for answer, _ in counts.most_common(100)]
        correct = task.verify(problems, [common] * len(problems)).correct
        assert correct.mean(axis=0).max() <= largest, family


@pytest.mark.slow
def test_the_answers_of_puzzles_fit():
    config = families_tiny.get_config()
    for family, counts in answers_of(config)[1].items():
        # And a stop token.
        assert max(map(len, counts)) < config.sampling.max_response_tokens, family
