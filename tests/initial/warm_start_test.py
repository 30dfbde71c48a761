"""Learning from demonstrations before the RL."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import data
from passk_jax.errors import NonFiniteError
from passk_jax.initial import params as initial
from passk_jax.initial import warm_start
from tests import tiny


def make_batches(setup):
    return data.make_batches(
        setup.task.source('train', data_dir=setup.config.data.dir),
        setup.encode,
        num_prompts=setup.config.init.warm_start.batch_size,
        seed=setup.config.seed,
        max_prompt_tokens=setup.config.data.max_prompt_tokens,
        overlong=setup.config.data.overlong,
    )


def short_of(setup, limit):
    """The same with room for so many tokens, which the configuration would refuse."""
    sampling = dataclasses.replace(setup.config.sampling, max_response_tokens=limit)
    config = dataclasses.replace(setup.config, sampling=sampling)
    return dataclasses.replace(setup, config=config)


def train(setup):
    """The parameters after the stage, and the losses it showed."""
    losses = []

    class Listening(warm_start.Progress):
        def update(self, step, **values):
            losses.append(values['loss'])
            super().update(step, **values)

    listening = mock.patch.object(warm_start, 'Progress', Listening)
    with listening, jax.set_mesh(setup.mesh):
        scratch = initial._random_params(setup)
        params = warm_start.warm_start(
            setup, scratch, make_batches(setup), stop=lambda: False
        )
        return jax.device_get(params), losses


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(tiny.make_config())


def test_the_loss_falls_from_chance(setup):
    params, losses = train(setup)
    assert len(losses) == setup.config.init.warm_start.steps
    # Random parameters give all tokens about the same probability.
    assert losses[0] == pytest.approx(np.log(len(setup.tokenizer)), abs=0.1)
    assert np.mean(losses[-5:]) < 0.6 * losses[0]
    again, same = train(setup)
    assert losses == same
    assert all(params[name].tobytes() == again[name].tobytes() for name in params)


def test_a_demonstration_is_a_right_answer_that_ends(setup):
    problems, _ = make_batches(setup)[0]
    tokens, lengths, dropped = warm_start.demonstrate(setup, problems)
    assert (tokens.shape, lengths.shape, dropped) == ((16, 1, 5), (16, 1), 0)
    for problem, row, length in zip(problems, tokens[:, 0], lengths[:, 0], strict=True):
        assert row[length - 1] == setup.stop_tokens[0]
        assert setup.stop_tokens[0] not in row[: length - 1]
        assert not row[length:].any()
        text = setup.tokenizer.decode(row[: length - 1])
        assert setup.task.verdict(problem, text).correct


def test_a_demonstration_is_a_function_of_seed_and_problem(setup):
    problems, _ = make_batches(setup)[0]
    tokens, _, _ = warm_start.demonstrate(setup, problems)
    backwards, _, _ = warm_start.demonstrate(setup, problems[::-1])
    np.testing.assert_array_equal(backwards[::-1], tokens)


def test_too_long_ones_are_dropped_and_counted_and_the_rest_learnt(setup):
    problems, _ = make_batches(setup)[0]
    _, lengths, _ = warm_start.demonstrate(setup, problems)
    limit = 3
    too_long = int((lengths > limit).sum())
    assert 0 < too_long < 16
    tokens, short, dropped = warm_start.demonstrate(short_of(setup, limit), problems)
    assert dropped == too_long
    np.testing.assert_array_equal(short, np.where(lengths > limit, 0, lengths))
    assert not tokens[short == 0].any()
    _, losses = train(short_of(setup, limit))
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_where_all_are_too_long_it_says_so(setup):
    with pytest.raises(ValueError, match=r'no demonstration of warm-start step 0 fits'):
        train(short_of(setup, 1))


def test_a_loss_that_is_not_finite_stops_it_with_its_step(setup, monkeypatch):
    make_step = warm_start.make_step

    def broken(setup):
        optimizer, step = make_step(setup)

        def explode(state, *batch):
            state, loss = step(state, *batch)
            return state, loss * np.where(state.step == 3, np.nan, 1)

        return optimizer, explode

    monkeypatch.setattr(warm_start, 'make_step', broken)
    with pytest.raises(NonFiniteError, match='loss is nan at warm-start step 2'):
        train(setup)


def test_told_to_stop_it_stops_before_the_next_step(setup):
    asked = []

    def stop():
        asked.append(None)
        return len(asked) == 4

    with jax.set_mesh(setup.mesh):
        scratch = initial._random_params(setup)
        batches = mock.Mock(wraps=make_batches(setup), spec=['__getitem__'])
        batches.__getitem__ = mock.Mock(side_effect=make_batches(setup).__getitem__)
        assert warm_start.warm_start(setup, scratch, batches, stop=stop) is None
    assert batches.__getitem__.call_count == 3


def test_only_so_many_problems_are_demonstrated_as_asked(tmp_path, monkeypatch):
    seen = set()
    demonstrate = warm_start.demonstrate

    def watching(setup, problems):
        seen.update(problem.id for problem in problems)
        return demonstrate(setup, problems)

    monkeypatch.setattr(warm_start, 'demonstrate', watching)
    setup = tiny.make_setup(
        tiny.make_config(init__warm_start__num_problems=20, init__warm_start__steps=5)
    )
    with jax.set_mesh(setup.mesh):
        initial.initial_params(setup, tmp_path)
    assert seen == set(range(20))


def test_an_unknown_kind_of_demonstration_is_an_error():
    setup = tiny.make_setup(
        tiny.make_config(init__warm_start__demonstrations='longest_path')
    )
    with pytest.raises(ValueError, match="'longest_path' is none of"):
        train(setup)
