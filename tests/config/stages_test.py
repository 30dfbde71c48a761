"""The stages of a configuration, and what is refused."""

import dataclasses

import pytest

from passk_jax import config as configs
from tests import tiny

LAST = 12


def make_config(stages, **overrides):
    return tiny.make_config(
        **{'stages': stages, 'train__steps': LAST, 'advantage__k': 3} | overrides
    )


def stage(start, reset=False, **sections):
    return {'start': start, 'reset_optimizer': reset, **sections}


def test_a_run_without_stages_has_one():
    config = make_config({})
    (only,) = configs.stages_of(config)
    assert (only.name, only.start, only.resets_optimizer) == ('', 0, False)
    assert only.config == config
    assert only.num_updates == config.train.num_updates


def test_a_stage_differs_from_the_whole_configuration_and_not_from_the_one_before():
    config = make_config(
        {
            # The stages are out of order on purpose.
            'last': stage(9, optimizer={'learning_rate': 0.5}),
            'middle': stage(4, advantage={'name': 'pass_at_1'}),
        },
        stage=5,
    )
    first, middle, last = configs.stages_of(config)
    assert [s.name for s in (first, middle, last)] == ['', 'middle', 'last']
    assert [s.config.stage for s in (first, middle, last)] == [5, 6, 7]
    assert [s.config.advantage.name for s in (first, middle, last)] == [
        'pass_at_k',
        'pass_at_1',
        'pass_at_k',
    ]
    assert (middle.config.advantage.k, last.config.optimizer.learning_rate) == (3, 0.5)
    assert middle.config.stages == {}
    steps = {0: first, 3: first, 4: middle, 8: middle, 9: last, LAST: last}
    for step, expected in steps.items():
        assert configs.stage_at([first, middle, last], step) is expected


def test_a_schedule_spans_the_steps_between_new_states_of_the_optimizer():
    config = make_config(
        {'a': stage(2), 'b': stage(5, reset=True), 'c': stage(9)},
        train__epochs=3,
        train__mini_batch_prompts=4,
    )
    # Six updates a step: two mini-batches, three epochs.
    stages = configs.stages_of(config)
    assert [s.num_updates for s in stages] == [30, 30, 42, 42]
    assert [s.resets_optimizer for s in stages] == [False, False, True, False]


def test_json_keeps_the_stages():
    sections = {'advantage': {'name': 'mixture', 'pass_weights': (1.0, 0.5)}}
    config = make_config({'a': stage(2, **sections)})
    text = configs.to_json(config)
    again = configs.from_json_dict(__import__('json').loads(text))
    assert again == config
    assert configs.stages_of(again) == configs.stages_of(config)


@pytest.mark.parametrize(
    ('stages', 'message'),
    [
        (
            {'a': stage(0)},
            r'stages\.a\.start=0 must lie in \[1, 11\], as train.steps=12',
        ),
        (
            {'a': stage(LAST)},
            r'start=12 must lie in .* train.steps, set --config.stages.a.start too',
        ),
        (
            {'a': stage(3), 'b': stage(3)},
            r"stages\.a\.start=3 is also the start of 'b'",
        ),
        ({'a': stage(True)}, r'stages\.a\.start=True must be of type int'),
        (
            {'a': stage(3, reset=1)},
            r'stages\.a\.reset_optimizer=1 must be of type bool',
        ),
        ({'a': {'start': 3}}, r"missing keys \['stages\.a\.reset_optimizer'\]"),
        ({'a': 3}, r"stages\.a=3 must be a section with keys \['start'"),
        ({'a': stage(3, train={'steps': 3})}, r'unknown key stages\.a\.train; have'),
        ({'a': stage(3, loss=1)}, r'stages\.a\.loss=1 must be a section'),
        (
            {'a': stage(3, loss={'clip_hihg': 0.3})},
            r'stages\.a: unknown key loss\.clip_hihg; did you mean loss\.clip_high\?',
        ),
        (
            {'a': stage(3, optimizer={'learning_rate': -1.0})},
            r'stages\.a: optimizer\.learning_rate=-1\.0 must be positive',
        ),
        (
            {'a': stage(3, sampling={'temperature': 0.0})},
            r'stages\.a: sampling\.temperature=0\.0 takes only the most probable',
        ),
        (
            {'a': stage(3, sampling={'num_rollouts': 8})},
            r'stages\.a\.sampling\.num_rollouts=8 cannot differ between the stages',
        ),
        (
            {'a': stage(3, sampling={'cache_dtype': 'int8'})},
            r"stages\.a\.sampling\.cache_dtype='int8' cannot differ between the stages",
        ),
        (
            {'a': stage(3, optimizer={'name': 'sgd'})},
            r"stages\.a: optimizer\.name is 'adamw' before and 'sgd' here",
        ),
        (
            {'a': stage(3, optimizer={'max_grad_norm': 0.0})},
            r'stages\.a: optimizer\.max_grad_norm is 1\.0 before and 0\.0 here',
        ),
    ],
)
def test_what_is_no_stage_is_refused(stages, message):
    with pytest.raises(ValueError, match=message):
        make_config(stages)


@pytest.mark.parametrize('name', ['', 'a.b', 1])
def test_a_name_that_is_no_key_is_refused(name):
    config = dataclasses.replace(make_config({}), stages={name: stage(3)})
    with pytest.raises(ValueError, match=f'stages: name={name!r} must be a text'):
        configs.stages_of(config)
