"""The README's example prints what its comments say, and its files are there.

python -m tests.readme_test     # writes the tables of experiments/papers.md
"""

import contextlib
import importlib
import io
import json
import pathlib
import re
from collections.abc import Collection, Iterable
from typing import Any

import jax
import numpy as np
import pytest

from configs import maze, maze_tiny
from passk_jax import config as configs
from passk_jax.advantages import (
    ESTIMATORS,
    all_parameters,
    effective_weight,
    estimator_parameters,
    make_estimator,
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAPERS = ROOT / 'experiments' / 'papers.md'
TABLES = re.compile(
    r'(?<=<!-- begin: python -m tests.readme_test -->\n).*(?=\n<!-- end -->)', re.DOTALL
)


def test_the_example_prints_what_its_comments_say():
    (code,) = re.findall(
        r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    comments = [text.partition(':')[0] for text in re.findall(r'# (.*)', code)]
    assert printed.getvalue().splitlines() == comments


def test_the_costs_of_the_papers_runs_follow_from_their_plans():
    page = (ROOT / 'experiments' / 'pages' / 'costs.md').read_text()
    costs = re.findall(
        r'\| (\d+) v5[ep] \| \[\w+\]\(\.\./(\S+\.md)\) \| (.*) \| (.*) \| (.*) \|$',
        page,
        re.MULTILINE,
    )
    assert len(costs) == 13
    for chips, path, *stated in costs:
        plan = (ROOT / 'experiments' / path).read_text()
        assert f': {chips} chips' in plan
        sizes = r'has (\d+) prompts of \d+ tokens with (\d+) responses of (\d+);'
        tokens = np.prod([int(x) for x in re.search(sizes, plan).groups()])
        names, times, rates = (
            re.search(rf'^\| {label} +\|(.*)\|', plan, re.MULTILINE)[1].split('|')
            for label in ('a chip', 'time, at least', 'tokens/s, at most')
        )
        decode = [name.strip() for name in names].index('decode')
        seconds = [
            float(times[0].removesuffix(' s ')),
            tokens / float(rates[decode].replace(',', '')),
        ]
        hours = 500 * int(chips) * sum(seconds) / 3600
        assert stated == [f'{x:,.0f}' for x in (*seconds, hours)], path


def list_explained() -> list[str]:
    """The estimators that the page of papers explains."""
    page = PAPERS.read_text().partition('\n## ')[0]
    return re.findall(r'^\| `(\w+)`', page, re.MULTILINE)


def list_measured() -> set[str]:
    """The estimators of all runs whose results are kept."""
    names = set()
    for path in (ROOT / 'experiments' / 'results').glob('*.configs.json'):
        for config in json.loads(path.read_text()).values():
            stages = (config.get('stages') or {}).values()
            sections = [config, *stages]
            names |= {x.get('advantage', {}).get('name', 'pass_at_k') for x in sections}
    return names


def test_the_page_of_papers_has_every_estimator_that_was_measured_once():
    rows = list_explained()
    assert len({*rows}) == len(rows)
    assert list_measured() <= {*rows} <= ESTIMATORS.keys()
    # A paper that a docstring names stands in its row.
    for line in PAPERS.read_text().partition('\n## ')[0].splitlines():
        if name := re.match(r'\| `(\w+)`', line):
            papers = re.findall(r'arXiv:[\d.]+\d', ESTIMATORS[name[1]].summary)
            assert all(paper in line for paper in papers)


def test_the_estimators_are_named_that_move_the_policy_where_all_are_right_or_wrong():
    correct = np.array([[False] * 4, [True] * 4])
    inputs = {
        'key': jax.random.key(0),
        'mean_entropy': np.ones(2),
        'lengths': np.ones((2, 4), int),
        # No two alike: of those, unlikeliness pays the likelier ones less.
        'log_probs': -np.arange(1.0, 9.0).reshape(2, 4),
        'answers': np.arange(8).reshape(2, 4),
        'history': np.ones((1, 5), int),
    }
    (text,) = re.findall(
        r'\*\*Not all are centered:\*\*(.*?)\n- ',
        (ROOT / 'docs' / 'results.md').read_text(),
        re.DOTALL,
    )
    moving = set()
    for name in list_explained():
        # k = 1, since pkpo_loo moves the policy only there.
        parameters = {'k': 1} if 'k' in estimator_parameters(name) else {}
        estimate = make_estimator(name, num_rollouts=4, **parameters)
        if np.any(estimate(1.0 * correct, correct, **inputs)):
            moving.add(name)
    off_center = {name for name in list_explained() if not ESTIMATORS[name].centered}
    assert off_center - moving == {'leave_one_out_max'}
    assert set(re.findall('`(.*?)`', text)) == moving | off_center


def estimator_tables(names: Collection[str] | None = None) -> str:
    """The tables of estimators, or of some, and their parameters, in Markdown."""
    chosen = {
        name: ESTIMATORS[name] for name in ESTIMATORS if name in (names or [name])
    }
    reads = {parameter for row in chosen.values() for parameter in row.parameters}
    estimators = (
        (
            _code(name),
            _code(*row.reads),
            _code(*(p.name for p in row.parameters)),
            row.summary.replace('``', '`'),
        )
        for name, row in chosen.items()
    )
    parameters = (
        (_code(p.name), _code(p.default), p.allowed(), p.doc)
        for p in all_parameters()
        if p in reads
    )
    return '\n\n'.join(
        (
            _table(
                ('`advantage.name`', 'reads', 'parameters', 'what it is'), estimators
            ),
            _table(('`advantage.…`', 'default', 'values', 'what it is'), parameters),
        )
    )


def _code(*values: Any) -> str:
    return ', '.join(f'`{value}`' for value in values)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = (head, ['---'] * len(head), *rows)
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def test_the_tables_of_estimators_are_those_of_the_rows():
    """Those of an estimator that the page does not explain yet may be there or not."""
    (tables,) = TABLES.findall(PAPERS.read_text())
    lines, remedy = tables.splitlines(), 'run python -m tests.readme_test'
    for line in estimator_tables(list_explained()).splitlines():
        assert line in lines, remedy
    full = iter(estimator_tables().splitlines())
    assert all(line in full for line in lines), remedy


def test_every_estimator_that_the_papers_explain_is_in_the_table_of_experiments():
    rows = [row for rows in MEANING.values() for row in rows]
    assert {row.get('advantage.name') for row in rows} - {None} == {*list_explained()}


def test_the_weights_are_those_that_the_page_says():
    page = (ROOT / 'docs' / 'results.md').read_text()
    match = re.search(r'At N = 32 and p = 0.1, ω is ([^:]*?)\. A', page, re.DOTALL)
    numbers = [float(x) for x in re.findall(r'\d+\.\d+', match[1])]
    groups = ('pass_at_1', None), ('pass_at_k', 4), ('pass_at_k', 8), ('canonical_k', 8)
    for (name, k), number in zip((*groups, ('maxrl', None)), numbers, strict=True):
        parameters = {'k': k} if k else {}
        weight = effective_weight(name, num_rollouts=32, p=0.1, **parameters)
        assert number == pytest.approx(weight, rel=0.02)


def test_a_row_of_a_table_says_what_the_row_of_the_estimator_says():
    lines = estimator_tables().splitlines()
    (row,) = [line for line in lines if line.startswith('| `bootstrap_sampling`')]
    cells = [cell.strip() for cell in row.strip('|').split('|')]
    assert cells[1] == '`correct`, `key`'
    assert cells[2] == '`k`, `num_groups`, `aggregation`'
    assert cells[3].startswith('Draws random groups: bootstrap sampling')
    (row,) = [line for line in lines if line.startswith('| `k`')]
    assert row.startswith('| `k` | `4` | a whole number in [1, N] | size of a group')


class Times(float):
    """A multiple of what the config itself has."""


class OfOverview:
    """The steps of ``fig:overview``, or a laptop's own."""


class Second:
    """The step at which the last part of ``fig:overview`` begins."""


class Share(float):
    """A share of the run's steps."""


def stage(part: str, estimator: str, share: float) -> dict[str, Any]:
    """The keys of a stage that begins after a share of the steps."""
    values = {'advantage.name': estimator, 'reset_optimizer': False}
    values['start'] = Share(share)
    return {f'stages.{part}.{key}': value for key, value in values.items()}


def estimators(*names: str) -> list[dict[str, Any]]:
    return [{'advantage.name': name} for name in names]


# What each row of the paper in docs/results.md is, in the keys that make it so. A
# setting that its config has anyway is named where the row stands or falls with it.
PASS_AT_1 = {'advantage.name': 'pass_at_1'}
GROUPS = {'advantage.name': 'pass_at_k', 'reward.flip_wrong': 0.0}
BEYOND_THE_PAPER = (
    *('rloo', 'dr_grpo', 'opo', 'reinforce_plus_plus', 'reinforce_plus_plus_baseline'),
    *('canonical_k', 'mixture', 'set_level', 'pkpo', 'pkpo_loo'),
    *('leave_one_out_max', 'maxrl', 'maclaurin', 'rs_grpo', 'f_grpo', 'nsr'),
    *('w_reinforce', 'unlikeliness', 'differential_smoothing', 'curverl'),
)
MEANING = {
    'Maze, Pass@k analytical': [
        GROUPS | {'advantage.k': 4, 'sampling.num_rollouts': 32}
    ],
    'the same on a laptop': [GROUPS],
    'Pass@1 Training (GRPO/DAPO)': estimators('pass_at_1'),
    'full sampling, 32 and 128 rollouts': [
        {'advantage.name': 'full_sampling', 'sampling.num_rollouts': n}
        for n in (32, 128)
    ],
    'bootstrap sampling': [
        {'advantage.name': 'bootstrap_sampling', 'advantage.aggregation': aggregation}
        for aggregation in ('sum', 'mean')
    ],
    'k = 4, 8, 16': [
        *(GROUPS | {'advantage.k': k} for k in (4, 8)),
        GROUPS | {'advantage.k': 16, 'sampling.num_rollouts': 32},
    ],
    'learning rates at k = 8': [
        GROUPS | {'advantage.k': 8, 'optimizer.learning_rate': Times(multiple)}
        for multiple in (1, 2, 4)
    ],
    'without easy': estimators('without_easy'),
    'piecewise': estimators('piecewise'),
    'exceeding': estimators('exceeding'),
    'combination': estimators('combination'),
    'adaptive by entropy': estimators('adaptive'),
    'Noise Rewards 10, 30, 50 %': [
        PASS_AT_1 | {'reward.flip_wrong': share} for share in (0.1, 0.3, 0.5)
    ],
    'entropy regularization': [
        PASS_AT_1 | {'loss.entropy_coef': value} for value in (0.001, 0.003, 0.005)
    ],
    'Pass@k then Pass@1, once and twice': [
        GROUPS | stage('part_2_pass_at_1', 'pass_at_1', 1 / 2),
        GROUPS
        | stage('part_2_pass_at_1', 'pass_at_1', 1 / 4)
        | stage('part_3_pass_at_k', 'pass_at_k', 2 / 4)
        | stage('part_4_pass_at_1', 'pass_at_1', 3 / 4),
    ],
    'Pass@1, then Pass@k, then Pass@1': [
        PASS_AT_1
        | stage('pass_at_k', 'pass_at_k', 0)
        | stage('pass_at_1', 'pass_at_1', 0)
        | {'stages.pass_at_k.start': 100, 'stages.pass_at_1.start': Second()}
        | {'train.steps': OfOverview()}
    ],
    "DAPO's dynamic sampling, overlong filtering": [
        {'train.dynamic_sampling_rounds': 9, 'loss.mask_truncated': True}
    ],
    'truncated importance sampling of the sampler': [{'loss.sampler_weight_cap': 2.0}],
    'packed responses in the learner': [
        {'train.packing': 'rows', 'train.pack_sizes': 0}
    ],
    'draws that follow difficulty': [{'train.follow_difficulty': 0.9}],
    'real-valued rewards': estimators('pass_at_k_real'),
    'advantages of other papers': estimators(*BEYOND_THE_PAPER),
    'several epochs over a batch': [{'train.epochs': 2}],
    'learning rate that falls to 0': [{'optimizer.schedule': 'cosine'}],
}


def ablations() -> dict[str, tuple[str, str]]:
    """The config and the changes of every row, by what it is called."""
    page = (ROOT / 'docs' / 'results.md').read_text().partition('### Item by item')[2]
    lines = [line for line in page.splitlines() if line.startswith('| ')][1:]
    cells = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    return {row[0].partition(' (')[0]: (row[1], row[2]) for row in cells}


def arguments_of(cell: str) -> list[str]:
    """The arguments in a cell, of which the first one names the key."""
    first, *values = re.findall(r'`([^`]*)`', cell) or ['']
    return [first, *(f'{first.partition("=")[0]}={value}' for value in values)]


def of_ablation(path: str, arguments: str, size: str) -> list[dict[str, Any]]:
    """The flat configurations of a row: one for each value of its argument."""
    module = importlib.import_module(path.removesuffix('.py').replace('/', '.'))
    flat_configs = []
    for argument in arguments_of(arguments):
        values = module.get_config(','.join(filter(None, [argument, f'size={size}'])))
        flat_configs.append(flat(values))
    return flat_configs


def flat(values: Any) -> dict[str, Any]:
    return configs.flatten(configs.to_dict(configs.from_config_dict(values)))


def resolved(config: Any, changes: str) -> list[dict[str, Any]]:
    """The flat configurations of a row: one for each value of its last key."""
    command, *choices = re.findall(r'`([^`]*)`', changes) or ['']
    pairs = re.findall(r'--config\.(\S+?)=(\S+)', command)
    assert ' '.join(f'--config.{key}={value}' for key, value in pairs) == command
    flat_configs = []
    for value in [None, *choices]:
        values = config.get_config()
        overrides = dict(pairs) | ({pairs[-1][0]: value} if value else {})
        kinds = {key: type(_get(values, key)) for key in overrides}
        values.update_from_flattened_dict(
            {
                k: kinds[k](x == 'true' if kinds[k] is bool else x)
                for k, x in overrides.items()
            }
        )
        flat_configs.append(flat(values))
    return flat_configs


def _get(values: Any, key: str) -> Any:
    for name in key.split('.'):
        values = values[name]
    return values


def test_every_row_of_the_paper_has_a_meaning():
    names = {name.partition(' (')[0] for name in MEANING}
    assert ablations().keys() == names


@pytest.mark.parametrize('row', MEANING)
def test_a_row_of_the_paper_is_the_experiment_that_it_says(row):
    where, changes = ablations()[row.partition(' (')[0]]
    configs_of = {'`configs/maze.py`': [maze], '`configs/maze_tiny.py`': [maze_tiny]}
    for config in configs_of.get(where, [maze, maze_tiny]):
        before = resolved(config, '')[0]
        if 'ablations' in where:
            size = 'full' if config is maze else 'tiny'
            flat_configs = of_ablation(where.strip('`'), changes, size)
        else:
            flat_configs = resolved(config, changes)
        for have, want in zip(flat_configs, MEANING[row], strict=True):
            want = {key: in_numbers(want[key], before, key) for key in want}
            assert {key: have[key] for key in want} == want
            # Nothing else differs from the config.
            changed = {key for key in have if have[key] != before.get(key)} - {'name'}
            assert changed <= want.keys()


def in_numbers(value: Any, before: dict[str, Any], key: str) -> Any:
    """What a value of ``MEANING`` is, with the config that the row changes."""
    steps = before['train.steps']
    if isinstance(value, Times):
        return value * before[key]
    if isinstance(value, Share):
        return int(value * steps)
    is_the_papers = before['name'] == 'maze'
    if isinstance(value, OfOverview):
        return 750 if is_the_papers else steps
    if isinstance(value, Second):
        # In the middle of what 100 steps leave.
        return 370 if is_the_papers else (100 + steps) // 2
    return value


if __name__ == '__main__':
    PAPERS.write_text(TABLES.sub(lambda _: estimator_tables(), PAPERS.read_text()))
