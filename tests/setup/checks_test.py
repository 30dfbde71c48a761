"""What a training run checks of its configuration before it begins."""

import dataclasses
import sys

import pytest

from passk_jax.config import stages_of
from passk_jax.runs import commits
from passk_jax.setup import checks
from passk_jax.setup.first_problem import announce
from tests import tiny


def test_a_missing_package_is_found_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, 'wandb', None)
    with pytest.raises(ValueError, match=r"wandb_project='p' .* pip install wandb"):
        checks.check_names(tiny.make_config(log__wandb_project='p'))


def test_the_metric_that_says_which_is_best_is_checked_before_any_work():
    for metric in ('pass_at_1', 'response_length_right', '5x5/pass_at_1'):
        best = f'validation/{metric}'
        checks.check_names(tiny.make_config(checkpoint__keep_best=best))
    config = tiny.make_config(checkpoint__keep_best='validation/pass_at_3')
    with pytest.raises(ValueError, match=r"'pass_at_3' is none of .*'pass_at_2'"):
        checks.check_names(config)


def test_a_category_that_no_problem_has_is_found_before_any_policy():
    setup = tiny.make_setup(
        tiny.make_config(checkpoint__keep_best='validation/no/pass_at_1')
    )
    splits = {'validation': setup.evaluation_batches('validation')}
    category = splits['validation'].tokenized.source[0].category
    message = rf"is none of \['validation/{category}/pass_at_1', "
    with pytest.raises(ValueError, match=message):
        announce(setup, splits, is_new=False)
    best = f'validation/{category}/pass_at_1'
    checks.check_best_category(tiny.make_config(checkpoint__keep_best=best), splits)
    checks.check_best_category(tiny.make_config(), {})


@pytest.mark.parametrize(
    ('name', 'size', 'message'),
    [
        ('head_dim', 15, 'model.arch: head_dim=15 must be even'),
        ('num_kv_heads', 3, 'model.arch: num_heads=2 must be a multiple of num_kv_h'),
    ],
)
def test_sizes_of_a_model_that_do_not_fit_are_found_before_any_work(
    name, size, message
):
    with pytest.raises(ValueError, match=message):
        checks.check_names(tiny.make_config(**{f'model__arch__{name}': size}))


KL = {'loss__kl_coef': 0.1}


NO_WARM_UP = {'optimizer__warmup_updates': 0}


def published(**changes):
    """Settings with a published model, whose sizes are its own."""
    arch = tiny.make_config().model.arch
    sizes = {
        f'model__arch__{name}': type(size)()
        for name, size in dataclasses.asdict(arch).items()
        if name != 'vision'
    }
    model = {'model__source': 'some/model', 'model__family': ''}
    return sizes | model | {'model__tokenizer': 'source'} | changes


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({}, None),
        ({'sampling__top_p': 0.9}, 'cuts the distribution of the tokens'),
        ({'sampling__min_p': 0.1}, 'cuts the distribution of the tokens'),
        ({'sampling__top_p': 0.9, 'loss__sampler_weight_cap': 2.0}, None),
        ({'eval__top_p': 0.9}, None),
        ({'sampling__cache_dtype': 'int8'}, "cache_dtype='int8' draws tokens from"),
        ({'sampling__cache_dtype': 'int8', 'loss__sampler_weight_cap': 2.0}, None),
        ({'model__param_dtype': 'bfloat16'}, 'rounds most updates away: 2 % of'),
        ({'model__compute_dtype': 'bfloat16'}, None),
        ({'loss__kl_estimator': 'k1'} | KL, 'k1 has no gradient in expectation'),
        ({'loss__kl_estimator': 'k1'}, None),
        (KL, None),
        ({'init__warm_start__optimizer__learning_rate': 2e-3}, None),
        (
            published(init__warm_start__optimizer__learning_rate=2e-3),
            'learning_rate=0.002 is for a policy from scratch',
        ),
        (published(init__warm_start__optimizer__learning_rate=5e-5), None),
        (published(init__kind='hf'), None),
        (
            {'optimizer__warmup_updates': 20},
            'optimizer.warmup_updates=20 is more than the 5 updates there are: the '
            'learning rate ends at 25 % of its value',
        ),
        ({'optimizer__warmup_updates': 5}, None),
        (
            {'init__warm_start__steps': 10},
            'init.warm_start.optimizer.warmup_updates=20 is more than the 10 updates',
        ),
        ({'init__warm_start__steps': 10, 'init__kind': 'scratch'}, None),
    ],
)
def test_settings_that_are_not_what_one_thinks_are_named(settings, words, caplog):
    checks.warn_of_settings(tiny.make_config(**NO_WARM_UP | settings))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == bool(words)
    assert not words or words in messages[0]


@pytest.mark.parametrize(
    ('section', 'words'),
    [
        ({'sampling': {'top_p': 0.9}}, 'cuts the distribution of the tokens'),
        ({'loss': {'kl_coef': 0.1, 'kl_estimator': 'k1'}}, 'loss.kl_coef=0.1 only'),
        ({'optimizer': {'warmup_updates': 20}}, 'stages.later.optimizer.warmup_up'),
    ],
)
def test_settings_of_a_later_stage_are_named_too(section, words, caplog):
    stages = {'later': {'start': 2, 'reset_optimizer': False, **section}}
    checks.warn_of_settings(tiny.make_config(**NO_WARM_UP, stages=stages))
    (record,) = caplog.records
    assert words in record.getMessage()


def test_it_is_said_where_stages_begin(monkeypatch):
    """Because train.steps alone does not say."""
    messages = []
    monkeypatch.setattr(
        checks.logging, 'info', lambda *x: messages.append(x[0] % x[1:])
    )
    checks.warn_of_settings(tiny.make_config())
    assert not messages
    stage = {'reset_optimizer': False}
    stages = {'b': stage | {'start': 4}, 'a': stage | {'start': 2}}
    checks.warn_of_settings(tiny.make_config(stages=stages, train__steps=9))
    (line,) = messages
    assert line.startswith('stages begin at 2 (a), 4 (b) of train.steps=9, ')


def test_what_is_evaluated_when():
    config = tiny.make_config(eval__every=2, train__steps=5)
    due = [checks.splits_due(config, step) for step in range(6)]
    both, one = ('validation', 'test'), ('validation',)
    assert due == [both, (), one, (), one, both]
    same = dataclasses.replace(
        config, eval=dataclasses.replace(config.eval, final_split='validation')
    )
    assert checks.splits_due(same, 5) == one
    never = tiny.make_config(eval__every=0, eval__final_split='')
    assert not any(checks.splits_due(never, step) for step in range(6))
    only_ends = tiny.make_config(eval__every=0)
    assert [checks.splits_due(only_ends, step) for step in (0, 2, 5)] == [
        ('test',),
        (),
        ('test',),
    ]


@pytest.mark.parametrize('key', ['eval__split', 'eval__final_split'])
def test_an_evaluation_is_not_named_like_the_training_steps(key):
    with pytest.raises(ValueError, match=r"split='train' .* --split=train"):
        checks.check_names(tiny.make_config(**{key: 'train'}))


def test_a_weight_that_cannot_be_matched_is_named():
    config = tiny.make_config(
        advantage__name='piecewise',
        advantage__match_weight_at=1.0,
    )
    with pytest.raises(ValueError, match=r'_at: p=1\.0 must be a number in'):
        checks.check_signal(stages_of(config)[0])


def test_diagnostics_fix_the_micro_batches():
    for every, is_free in ((0, True), (5, False)):
        config = tiny.make_config(log__diagnostics_every=every)
        free = checks.may_differ(config)
        assert ('train.micro_batch_prompts' in free) == is_free
        assert 'model.remat' in free


def test_a_resumed_run_may_save_otherwise(tmp_path):
    first = tmp_path / 'checkpoints' / '0'
    with checks.open_workdir(tiny.make_config(), tmp_path):
        first.mkdir(parents=True)
        commits.write_commit(first, commits.Commit({}, {}))
    more = {'checkpoint__every': 7, 'checkpoint__keep': 9}
    with checks.open_workdir(tiny.make_config(**more), tmp_path, accept_loss=True):
        pass
    with (
        pytest.raises(ValueError, match=r'train\.num_prompts'),
        checks.open_workdir(tiny.make_config(train__num_prompts=16), tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    'name',
    [
        *(
            '..',
            '.',
            'a/b',
            '/a',
            '../a',
            'a/',
            'a\\b',
            'a\nb',
            'a\rb',
            '\n',
            '\x00',
            ' ',
        ),
        *(
            ' a',
            'a ',
            '\t',
            '\x1b[0m',
            '\u2028',
            '\ud83d',
            'x' * 201,
            'Â' * 101,
            '\u202e',
        ),
    ],
)
def test_a_runs_name_is_a_name_and_no_path(name):
    with pytest.raises(
        ValueError, match=r'name=.* must be a name and no path'
    ) as error:
        checks.check_names(tiny.make_config(name=name))
    assert '\n' not in str(error.value)


@pytest.mark.parametrize(
    'name', ['a', 'maze_tiny', 'a b', 'k=8, ω', '$x$', '..a', '数']
)
def test_a_name_may_have_whatever_a_person_types(name):
    checks.check_names(tiny.make_config(name=name))


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('train__epochs', 10**9),
        ('train__pack_sizes', 10**9),
        ('log__difficulty_bins', 10**9),
        ('model__arch__num_layers', 10**9),
    ],
)
def test_a_size_without_a_bound_is_refused_at_once(key, value):
    with pytest.raises(ValueError, match=rf'{key.replace("__", ".")}=\d+ must lie in'):
        tiny.make_config(**{key: value})
