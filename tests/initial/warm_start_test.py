"""Learning from demonstrations before the RL."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax.data.batches import subset
from passk_jax.errors import NonFiniteError
from passk_jax.initial import params as initial
from passk_jax.initial import warm_start
from tests import tiny


def short_of(setup, limit):
    """The same with room for so many tokens, which the configuration would refuse."""
    sampling = dataclasses.replace(setup.config.sampling, max_response_tokens=limit)
    config = dataclasses.replace(setup.config, sampling=sampling)
    return dataclasses.replace(setup, config=config)


def run(setup, stop=lambda: False):
    scratch = initial.random_params(setup.policy, setup.mesh, seed=setup.config.seed)
    return warm_start.warm_start(
        setup.policy, scratch, setup.demonstrations(), setup.mesh, stop=stop
    )


def train(setup):
    """The parameters after the stage, and the losses it showed."""
    losses = []

    class Listening(warm_start.Progress):
        def update(self, step, **values):
            losses.append(values['loss'])
            super().update(step, **values)

    listening = mock.patch.object(warm_start, 'Progress', Listening)
    with listening, jax.set_mesh(setup.mesh):
        return jax.device_get(run(setup)), losses


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
    demonstrations = setup.demonstrations()
    problems, _ = demonstrations.batches()[0]
    tokens, lengths = demonstrations.tokens(problems)
    assert (tokens.shape, lengths.shape) == ((16, 1, 5), (16, 1))
    assert lengths.all()
    for problem, row, length in zip(problems, tokens[:, 0], lengths[:, 0], strict=True):
        assert row[length - 1] == setup.stop_tokens[0]
        assert setup.stop_tokens[0] not in row[: length - 1]
        assert not row[length:].any()
        text = setup.tokenizer.decode(row[: length - 1])
        assert setup.task.verdict(problem, text).correct


def test_its_examples_are_texts_of_the_first_batch(setup):
    demonstrations = setup.demonstrations()
    problems, _ = demonstrations.batches()[0]
    examples = demonstrations.examples(2)
    assert [x['prompt'] for x in examples] == [p.prompt for p in problems[:2]]
    for example, problem in zip(examples, problems, strict=False):
        answer = example['demonstration']
        assert answer.endswith('<eos>')
        assert setup.task.verdict(problem, answer.removesuffix('<eos>')).correct
    too_long = short_of(setup, 1).demonstrations().examples(1)
    assert too_long[0]['demonstration'] == ''


def test_a_demonstration_is_a_function_of_seed_and_problem(setup):
    demonstrations = setup.demonstrations()
    problems, _ = demonstrations.batches()[0]
    tokens, _ = demonstrations.tokens(problems)
    backwards, _ = demonstrations.tokens(problems[::-1])
    np.testing.assert_array_equal(backwards[::-1], tokens)


def test_too_long_ones_are_dropped_and_counted_and_the_rest_learnt(setup):
    demonstrations = setup.demonstrations()
    problems, _ = demonstrations.batches()[0]
    _, lengths = demonstrations.tokens(problems)
    limit = 3
    assert 0 < (lengths > limit).sum() < 16
    tokens, short = short_of(setup, limit).demonstrations().tokens(problems)
    np.testing.assert_array_equal(short, np.where(lengths > limit, 0, lengths))
    assert not tokens[short == 0].any()
    _, losses = train(short_of(setup, limit))
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_where_all_are_too_long_it_says_so(setup):
    with pytest.raises(ValueError, match=r'no demonstration of warm-start step 0 fits'):
        train(short_of(setup, 1))


def test_a_loss_that_is_not_finite_stops_it_with_its_step(setup, monkeypatch):
    update = warm_start.Update.__call__

    def explode(self, state, *batch, **frozen):
        state, metrics = update(self, state, *batch, **frozen)
        factor = np.where(state.step == 3, np.nan, 1)
        return state, metrics | {'loss': metrics['loss'] * factor}

    monkeypatch.setattr(warm_start.Update, '__call__', explode)
    with pytest.raises(NonFiniteError, match='loss is nan at warm-start step 2'):
        train(setup)


def test_told_to_stop_it_stops_before_the_next_step(setup):
    questions = []

    def stop():
        questions.append(None)
        return len(questions) == 4

    tokens = mock.Mock(side_effect=setup.demonstrations().tokens)
    with (
        jax.set_mesh(setup.mesh),
        mock.patch.object(warm_start.WarmStartData, 'tokens', tokens),
    ):
        assert run(setup, stop) is None
    assert tokens.call_count == 3


def test_only_so_many_problems_are_demonstrated_as_asked(tmp_path, monkeypatch):
    seen = set()
    tokens = warm_start.WarmStartData.tokens

    def watching(self, problems):
        seen.update(problem.id for problem in problems)
        return tokens(self, problems)

    monkeypatch.setattr(warm_start.WarmStartData, 'tokens', watching)
    setup = tiny.make_setup(
        tiny.make_config(init__warm_start__num_problems=20, init__warm_start__steps=5)
    )
    with jax.set_mesh(setup.mesh):
        setup.initial_params(tmp_path)
    train = setup.task.source('train', data_dir=setup.config.data.dir)
    assert seen == {problem.id for problem in subset(train, 20)}


def test_too_few_problems_for_a_batch_name_the_setting_of_the_warm_start():
    setup = tiny.make_setup(tiny.make_config(init__warm_start__num_problems=3))
    message = r'^init\.warm_start\.batch_size=\d+ is more than the 3 problems'
    with pytest.raises(ValueError, match=message):
        setup.demonstrations().batches()


def test_an_unknown_kind_of_demonstration_is_an_error():
    setup = tiny.make_setup(
        tiny.make_config(init__warm_start__demonstrations='longest_path')
    )
    with pytest.raises(ValueError, match="'longest_path' is none of"):
        train(setup)
