"""Draws that follow difficulty: the estimates, their share of the draws, and a run."""

import collections

import numpy as np
import pytest

from passk_jax.data import batches, difficulty
from passk_jax.types import Problem
from tests import tiny

P, N, LAST, BORDER, FOLLOW = 8, 4, 5, 3, 0.9


def make_batches(count=20, **options):
    problems = [Problem(3 * i, 'ab', {}, 'any') for i in range(count)]
    tokenized = batches.read_problems(
        problems,
        lambda problem: [*problem.prompt.encode()],
        max_prompt_tokens=9,
        overlong='error',
    )
    return batches.make_batches(tokenized, **({'num_prompts': 4, 'seed': 0} | options))


def test_nothing_is_kept_where_no_draw_follows_it():
    batches = make_batches()
    memory = difficulty.begin(batches, follow=0.0)
    assert memory == {}
    assert difficulty.following(batches, memory, follow=0.0) is batches
    right = np.ones((4, 2), bool)
    assert difficulty.remember(batches, memory, batches[0][0], right) == {}


def test_the_responses_to_a_problem_count_half_once_it_is_drawn_again():
    batches = make_batches()
    memory = difficulty.begin(batches, follow=0.5)
    problems = [Problem(id, '', {}, '') for id in (9, 0)]
    correct = np.array([[True, False, True, True], [False] * 4])
    for _ in range(2):
        memory = difficulty.remember(batches, memory, problems, correct)
    expected = np.zeros((20, 2), np.float32)
    expected[3], expected[0] = (4.5, 6), (0, 6)
    np.testing.assert_array_equal(memory['difficulty'], expected)
    assert memory['difficulty'].dtype == np.float32


def test_a_memory_falls_into_what_is_of_problems_and_of_the_estimator():
    memory = difficulty.begin(make_batches(), follow=0.5) | {'history': 1}
    assert difficulty.select_difficulty(memory).keys() == {'difficulty'}
    assert difficulty.without_difficulty(memory) == {'history': 1}


@pytest.mark.parametrize('follow', [0.0, 0.5, 0.99])
def test_chances_follow_the_variance_of_a_verdict_and_starve_nothing(follow):
    right = np.arange(101)
    estimates = np.stack([right, np.full(101, 100)], axis=1)
    chances = difficulty.chances(estimates, follow=follow)
    assert (chances >= 1 - follow).all()
    np.testing.assert_allclose(chances, chances[::-1])
    p = (right + 1) / 102
    np.testing.assert_allclose(chances, 1 - follow * (1 - 2 * p) ** 2)
    assert np.argmax(chances) == 50 or not follow


def test_problems_are_drawn_in_proportion_to_their_chances():
    batches = make_batches(num_prompts=1)
    estimates = np.zeros((20, 2), np.float32)
    # Half of the problems were never solved, the others are new.
    estimates[::2] = (0, 16)
    memory = {'difficulty': estimates}
    drawn = difficulty.following(batches, memory, follow=0.9)
    assert drawn.num_problems == batches.num_problems
    counts = collections.Counter(drawn[step][0][0].id // 3 for step in range(8000))
    chances = difficulty.chances(estimates, follow=0.9)
    share = chances / chances.sum()
    assert share[1] > 3 * share[0]
    for number in range(20):
        error = (share[number] / 8000) ** 0.5
        assert abs(counts[number] / 8000 - share[number]) < 4 * error


def make_config():
    return tiny.make_config(
        **tiny.ONLY_STEPS
        | {
            'seed': 4,
            'train__follow_difficulty': FOLLOW,
            'checkpoint__every': 1,
            'checkpoint__keep': LAST + 1,
            'log__rollouts_every': 1,
            # The problems of a later stage are the same, and its estimator is not.
            'stages': {
                'later': {
                    'start': BORDER,
                    'reset_optimizer': False,
                    'advantage': {'name': 'curverl'},
                }
            },
        }
    )


@pytest.fixture(scope='module')
def reference_run(tmp_path_factory):
    """An uninterrupted run."""
    workdir = tmp_path_factory.mktemp('whole')
    assert tiny.run(make_config(), workdir)
    return workdir


def test_a_run_draws_by_what_the_steps_before_have_shown(reference_run):
    setup = tiny.make_setup(make_config())
    estimates = np.zeros((setup.train_batches().num_problems, 2))
    for step in range(LAST):
        saved = tiny.saved_arrays(reference_run, step)['memory/difficulty']
        np.testing.assert_array_equal(saved, estimates)
        rows = tiny.read_lines(reference_run / 'rollouts' / f'step_{step:08d}.jsonl')
        drawn = [row['problem_id'] for row in rows][::N]
        chances = difficulty.chances(estimates, follow=FOLLOW)
        batches = setup.at(step).train_batches().draw_by_chance(chances)
        assert drawn == [problem.id for problem in batches[step][0]]
        for row in rows:
            place = estimates[row['problem_id']]
            place *= 0.5 if row['rollout'] == 0 else 1
            place += (row['correct'], 1)
    assert estimates[:, 0].any()
    # Some were drawn twice.
    assert estimates[:, 1].max() > N
    assert {'memory/difficulty', 'memory/history'} <= tiny.saved_arrays(
        reference_run, LAST
    ).keys()


def test_stopped_before_every_step_a_run_draws_the_same(reference_run, tmp_path):
    with tiny.stop_once_before_every_step():
        for _ in range(LAST + 1):
            assert not tiny.run(make_config(), tmp_path)
        assert tiny.run(make_config(), tmp_path)
    tiny.assert_same_run(tmp_path, reference_run, last=LAST)
