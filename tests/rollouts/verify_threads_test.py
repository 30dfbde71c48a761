"""Verdicts come as responses end, and are the same in whatever parts they came."""

import dataclasses
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.rollouts.verify import Verification
from passk_jax.sampling import Ended
from passk_jax.tasks.maze.task import MazeTask
from passk_jax.types import Problem
from tests import tiny

MAZES = ('S.E\n...\n***', 'E.S\n...\n***')
TEXTS = [['RR', 'DRRU', 'R', ''], ['LL', 'RRR', 'L', 'DLLU']]
CORRECT = [[True, True, False, False], [True, False, False, True]]


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(tiny.make_config())


@pytest.fixture
def problems():
    return [
        Problem(id=7 + i, prompt=maze + '\n', data={'maze': maze}, category='3x3')
        for i, maze in enumerate(MAZES)
    ]


def ended(setup, *places):
    """These responses of ``TEXTS``, in some more rows as the sampler gives them."""
    tokens = np.zeros((len(places) + 2, 6), np.int32)
    lengths = np.full(len(places) + 2, 6, np.int32)
    for row, (p, n) in enumerate(places):
        ids = setup.tokenizer.encode(TEXTS[p][n], add_special_tokens=False)
        ids.append(setup.stop_tokens[0])
        tokens[row, : len(ids)] = ids
        lengths[row] = len(ids)
    where = np.array(places)
    return Ended(where[:, 0], where[:, 1], jnp.asarray(tokens), jnp.asarray(lengths))


ALL = [(p, n) for p in range(2) for n in range(4)]


@pytest.mark.parametrize(
    'parts', [[ALL], [ALL[::-1]], [[place] for place in ALL[::-1]], [ALL[:3], ALL[3:]]]
)
def test_the_parts_do_not_matter(setup, problems, parts):
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        for places in parts:
            verification.submit(ended(setup, *places))
        responses, verdicts = verification.finish(step=0)
    assert responses == TEXTS
    np.testing.assert_array_equal(verdicts.correct, CORRECT)
    np.testing.assert_array_equal(verdicts.rewards, np.array(CORRECT, float))
    assert verdicts.parsed == TEXTS


def test_whoever_decodes_does_not_wait_for_the_verifier(setup, problems, monkeypatch):
    verify, decoded = MazeTask.verify, threading.Event()

    def slow(*args):
        # Until decoding has ended, which it could not if it waited.
        assert decoded.wait(timeout=60)
        return verify(*args)

    monkeypatch.setattr(MazeTask, 'verify', slow)
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        verification.submit(ended(setup, *ALL[:5]))
        verification.submit(ended(setup, *ALL[5:]))
        decoded.set()
        _, verdicts = verification.finish(step=0)
    np.testing.assert_array_equal(verdicts.correct, CORRECT)


def test_verdicts_are_given_while_others_are_decoded(setup, problems, monkeypatch):
    verify, verified = MazeTask.verify, threading.Event()

    def watched(*args):
        verdicts = verify(*args)
        verified.set()
        return verdicts

    monkeypatch.setattr(MazeTask, 'verify', watched)
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        verification.submit(ended(setup, *ALL[:5]))
        assert verified.wait(timeout=60)
        verification.submit(ended(setup, *ALL[5:]))
        verification.finish(step=0)


def test_what_the_task_raises_is_raised(setup, problems, monkeypatch):
    def broken(*_):
        raise ValueError('no such maze')

    monkeypatch.setattr(MazeTask, 'verify', broken)
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        verification.submit(ended(setup, *ALL))
        with pytest.raises(ValueError, match='no such maze'):
            verification.finish(step=0)


def test_an_error_elsewhere_is_not_held_up(setup, problems, monkeypatch):
    batch_sizes, release = [], threading.Event()

    def slow(self, problems, responses):
        batch_sizes.append(len(problems))
        assert release.wait(timeout=60)
        raise ValueError('of the verifier')

    monkeypatch.setattr(MazeTask, 'verify', slow)
    threading.Timer(0.5, release.set).start()

    def interrupted():
        with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
            for place in ALL:
                verification.submit(ended(setup, place))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    # The one that had begun; the others are forgotten.
    assert batch_sizes in ([], [1])


def test_failures_have_the_places_of_their_responses(setup, problems, monkeypatch):
    verify = MazeTask.verify

    def failing(self, problems, texts):
        verdicts = verify(self, problems, texts)
        short = np.array([[len(text) < 2 for text in row] for row in texts])
        never = np.zeros_like(short)
        failures = {'timeouts': short, 'crashes': never}
        return dataclasses.replace(verdicts, failures=failures)

    monkeypatch.setattr(MazeTask, 'verify', failing)
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        verification.submit(ended(setup, *ALL[5:]))
        verification.submit(ended(setup, *ALL[:5]))
        _, verdicts = verification.finish(step=0)
    late = [[False, False, True, True], [False, False, True, False]]
    assert {kind: flags.tolist() for kind, flags in verdicts.failures.items()} == {
        'timeouts': late,
        'crashes': [[False] * 4] * 2,
    }


@pytest.mark.parametrize('here', [0, 2])
def test_more_hosts_than_problems_leave_some_without_work(
    setup, problems, monkeypatch, here
):
    def gather(attempt):
        verdicts = attempt()
        assert len(verdicts['rewards']) == (here < 2)
        one = {'rewards': [[1.0] * 4], 'correct': [[True] * 4], 'parsed': [['x'] * 4]}
        none = {key: [] for key in one}
        shares = [share | {'failures': {}} for share in (one, one, none)]
        return [verdicts if host == here else shares[host] for host in range(3)]

    monkeypatch.setattr('jax.process_count', lambda: 3)
    monkeypatch.setattr('jax.process_index', lambda: here)
    monkeypatch.setattr('passk_jax.runtime.hosts.gather', gather)
    with Verification(setup.task, setup.tokenizer, problems, 4) as verification:
        verification.submit(ended(setup, *ALL))
        _, verdicts = verification.finish(step=0)
    first = CORRECT[0] if here == 0 else [True] * 4
    assert verdicts.correct.tolist() == [first, [True] * 4]


@pytest.mark.parametrize('here', [0, 1, 2])
def test_every_third_problem_is_judged_here_and_the_others_elsewhere(
    setup, problems, monkeypatch, here
):
    ids = []
    verify = MazeTask.verify

    def watched(self, problems, texts):
        ids.extend(problem.id for problem in problems)
        return verify(self, problems, texts)

    def gather(attempt):
        """What the others would say: everything is right."""
        verdicts, rows = attempt(), range(3)
        assert np.shape(verdicts['correct']) == (len(range(here, 4, 3)), 4)
        counts = [len(range(row, 4, 3)) for row in rows]
        shares = [
            {
                'rewards': [[2.0] * 4] * n,
                'correct': [[True] * 4] * n,
                'parsed': [['theirs'] * 4] * n,
                'failures': {'timeouts': [[True] * 4] * n},
            }
            for n in counts
        ]
        return [verdicts if row == here else shares[row] for row in rows]

    monkeypatch.setattr(MazeTask, 'verify', watched)
    monkeypatch.setattr('jax.process_count', lambda: 3)
    monkeypatch.setattr('jax.process_index', lambda: here)
    monkeypatch.setattr('passk_jax.runtime.hosts.gather', gather)
    four = [dataclasses.replace(problems[p % 2], id=p) for p in range(4)]
    with Verification(setup.task, setup.tokenizer, four, 4) as verification:
        for p in range(0, 4, 2):
            part = ended(setup, *ALL)
            verification.submit(dataclasses.replace(part, problems=part.problems + p))
        texts, verdicts = verification.finish(step=0)
    assert texts == TEXTS * 2
    assert sorted(ids) == [p for p in range(here, 4, 3) for _ in range(4)]
    for p in range(4):
        ours = p % 3 == here
        assert verdicts.correct[p].tolist() == (CORRECT[p % 2] if ours else [True] * 4)
        assert verdicts.parsed[p] == (TEXTS[p % 2] if ours else ['theirs'] * 4)
        assert verdicts.failures['timeouts'][p].tolist() == [not ours] * 4
        assert (verdicts.rewards[p] == 2).all() == (not ours)
