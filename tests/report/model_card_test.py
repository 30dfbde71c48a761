"""The model card says what the run did, and its head is YAML that the hub reads."""

import re

import pytest
import yaml

from passk_jax.report.model_card import Exported, data_sets, model_card
from passk_jax.report.run_data import Run
from passk_jax.tasks.task import About

CONFIG = {
    'name': 'a: b',
    'seed': 7,
    'task': {
        'name': 'math',
        'params': {'files': ['hf://datasets/me/sums@abc/train.jsonl', 'x.jsonl']},
    },
    'model': {'source': 'me/base@v2', 'lora': {'rank': 0}},
    'advantage': {'name': 'pass_at_k', 'k': 4},
}
ROWS = [
    {'step': 0, 'pass_at_1': 0.125, 'pass_at_1_low': 0.1, 'pass_at_1_high': 0.2},
    {
        **{'step': 8, 'pass_at_1': 0.5, 'pass_at_1_low': 0.4, 'pass_at_1_high': 0.625},
        **{'num_problems': 20, 'sums/pass_at_1': 0.75, 'sums/problems': 4},
    },
]
TASKS = {'math': About('sums | products', '20', 'MIT', 'a list', {})}


def make_run(**changes):
    parts = {
        'config': CONFIG,
        'git': {'revision': 'abcd', 'dirty': True},
        'evaluations': {'test': ROWS},
    } | changes
    empty = {'train': [], 'timing': [], 'diagnostics': [], 'dumps': {}}
    return Run(path=None, **empty, **parts)


def make_model(**changes):
    parts = {
        **{'repo': 'me/b', 'step': 8, 'kind': 'text', 'base': 'me/base@v2'},
        'licence': {'license': 'apache-2.0'},
        'versions': {'jax': '0.10.2'},
    }
    return Exported(**(parts | changes))


def head_of(card):
    return yaml.safe_load(card.split('---\n')[1])


def test_the_head_has_what_the_hub_reads():
    assert head_of(model_card(make_run(), make_model(), TASKS)) == {
        'library_name': 'transformers',
        'pipeline_tag': 'text-generation',
        'license': 'apache-2.0',
        'tags': ['passk_jax', 'pass-at-k', 'rlvr', 'reinforcement-learning'],
        'base_model': 'me/base',
        'base_model_relation': 'finetune',
        'datasets': ['me/sums'],
    }


@pytest.mark.parametrize('text', ['no', '1.0', 'a: b', "it's", '[x', '# y', '数'])
def test_yaml_misreads_no_value(text):
    model = make_model(licence={'license': 'other', 'license_name': text})
    assert head_of(model_card(make_run(), model, TASKS))['license_name'] == text


@pytest.mark.parametrize(
    ('kind', 'words'),
    [
        ('text', ['AutoModelForCausalLM', 'AutoTokenizer', 'transformers']),
        ('vision', ['AutoModelForImageTextToText', 'AutoProcessor', 'image-text-to']),
        ('peft', ['AutoPeftModelForCausalLM', 'from peft import', 'Adapters for']),
    ],
)
def test_a_kind_is_loaded_by_its_classes(kind, words):
    card = model_card(make_run(), make_model(kind=kind), TASKS)
    assert all(word in card for word in words)
    (code,) = re.findall(r'```python\n(.*?)```', card, re.DOTALL)
    compile(code, 'card', 'exec')
    assert code.count("'me/b'") == 2
    relation = 'adapter' if kind == 'peft' else 'finetune'
    assert head_of(card)['base_model_relation'] == relation


def test_results_are_those_of_the_step_with_intervals():
    card = model_card(make_run(), make_model(), TASKS)
    assert 'Split `test`, 20 problems' in card
    row = '| all | pass@1 | 0.500 [0.400, 0.625] | 0.125 [0.100, 0.200] |'
    assert row in card
    assert '| sums | pass@1 | 0.750 |  |' in card
    other = model_card(make_run(), make_model(step=4), TASKS)
    assert 'The run has no evaluation of step 4.' in other
    assert '0.500' not in other


def test_a_first_step_is_compared_with_nothing():
    card = model_card(make_run(), make_model(step=0), TASKS)
    assert '| all | pass@1 | 0.125 [0.100, 0.200] |\n' in card


def test_settings_data_licences_and_citation_are_there():
    card = model_card(make_run(), make_model(), TASKS)
    for words in (
        '| `advantage.k` | `4` |',
        '| `seed` | `7` |',
        '| `model.source` | `me/base@v2` |',
        '| revision of passk_jax | `abcd`, with uncommitted changes |',
        '| jax | 0.10.2 |',
        '| `math` | sums \\| products | MIT | a list |',
        '(https://huggingface.co/datasets/me/sums), revision `abc`',
        'The base is under `apache-2.0`, which this model inherits.',
        '(https://huggingface.co/me/base)',
        '![Curves of the run](curves.png)',
        'arXiv:2508.10751',
    ):
        assert words in card, words
    assert 'sampling.num_rollouts' not in card


def test_every_stage_and_what_its_advantage_reads_is_there():
    config = CONFIG | {
        'advantage': {'name': 'rloo', 'k': 4, 'gamma': 0.5, 'easy_threshold': 0.6},
        'stages': {
            'late': {'start': 9, 'advantage': {'name': 'maxrl'}},
            'mid': {'start': 3, 'advantage': {'name': 'without_easy', 'k': 2}},
        },
    }
    card = model_card(make_run(config=config), make_model(), TASKS)
    assert 'with the advantage `rloo`, then `without_easy` from step 3 on.' in card
    for row in ('easy_threshold` | `0.6`', 'k` | `4`', 'name` | `rloo`'):
        assert f'| `advantage.{row} |' in card
    assert '| `stages.mid.advantage.k` | `2` |' in card
    assert 'gamma' not in card
    alone = make_run(config=CONFIG | {'advantage': {'name': 'pass_at_1', 'k': 4}})
    assert '.k`' not in model_card(alone, make_model(step=0), TASKS)


def test_what_is_unknown_is_said():
    card = model_card(make_run(), make_model(licence={}), TASKS)
    assert 'The licence of the base is unknown here' in card
    assert 'license' not in head_of(card)
    scratch = make_run(config=CONFIG | {'model': {'source': ''}}, git={})
    card = model_card(scratch, make_model(licence={}, base=''), TASKS)
    assert 'a policy made from scratch' in card
    assert 'No licence is stated' in card
    assert 'base_model' not in head_of(card)
    assert 'model.source' not in card
    assert 'revision of passk_jax' not in card
    local = make_run(config=CONFIG | {'model': {'source': 'models/x'}})
    assert 'the model in `models/x`' in model_card(local, make_model(base=''), TASKS)


def test_a_licence_with_a_link_names_it():
    licence = {'license': 'gemma', 'license_link': 'https://ai.google.dev/gemma'}
    card = model_card(make_run(), make_model(licence=licence), TASKS)
    assert '`gemma` (https://ai.google.dev/gemma)' in card
    assert head_of(card)['license_link'] == licence['license_link']


def test_data_sets_are_found_wherever_a_task_names_them():
    params = {'a': {'b': ['hf://datasets/x/y@1/p', 'hf://datasets/z/w@2/q']}}
    run = make_run(config={'task': {'params': params}})
    assert data_sets(run) == {'x/y': '1', 'z/w': '2'}
    assert data_sets(make_run(config={})) == {}
