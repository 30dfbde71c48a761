"""Evaluates the policy of an existing run.

    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test

It samples as the run's own evaluations do, except where a flag says otherwise. It
prints a table of metrics. It writes the answers to every problem, and the settings, to
``<workdir>/evaluation/by_command/``, in files whose names say what the flags changed.
``--hosts`` and ``--mesh`` say where it runs and change no response.

    python -m passk_jax.evaluate --workdir=runs/mine --task=korbench,arc --data_dir=DIR

Other tasks are those of ``python -m passk_jax.tasks``, which says how to get their
problems and where in ``--data_dir`` to put them; or config files, of which ``task``
and, of ``data``, ``dir`` and the limit of the prompt are used. It prints Pass@1 and
Pass@k by category and overall, and writes that table as Markdown beside the records of
each task.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from passk_jax import cli, other_tasks
from passk_jax import config as configs
from passk_jax.compile_cache import keep_programs
from passk_jax.config import ExperimentConfig
from passk_jax.evaluation import Record
from passk_jax.files import atomic_write_text
from passk_jax.hosts import join_hosts
from passk_jax.models import policy as policies
from passk_jax.preflight import check_evaluation
from passk_jax.report.category_table import category_table
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import restore_params
from passk_jax.runs.sources import check_sources
from passk_jax.setup import Setup, make_setup
from passk_jax.tasks.abilities import Groups


def main(
    *,
    workdir: str,
    split: str = 'test',
    task: str | None = None,
    data_dir: str | None = None,
    step: int | None = None,
    num_responses: int | None = None,
    num_problems: int | None = None,
    mesh: str | None = None,
    hosts: str = '',
    **options: float | None,
) -> None:
    """Evaluates the run in ``workdir``; prints a table, keeps the records."""
    path = pathlib.Path(workdir)
    options |= {'num_responses': num_responses, 'num_problems': num_problems}
    config, changes = _changed(saved_config.run_config(path, mesh), options)
    others = other_tasks.named(task, config.data, data_dir)
    check_evaluation(config)
    check_sources(path, config.model)
    directory = path / 'evaluation' / 'by_command'
    # Now, because what hinders it would also do so after an hour of sampling.
    directory.mkdir(parents=True, exist_ok=True)
    keep_programs()
    join_hosts(hosts)
    setup = make_setup(config)
    # None of them may fail after an hour of another.
    setups, batches = {}, {}
    for name, other in (others or {'': None}).items():
        with other_tasks.errors_of(name):
            setups[name] = setup.on_task(*other) if other else setup
            batches[name] = setups[name].evaluation_batches(split)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    found = {}
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(path, shapes, step=step)
        about = {'split': split, 'step': step, 'eval': dataclasses.asdict(config.eval)}
        for name, each in setups.items():
            evaluate = each.at(step).evaluator()
            values, rows = evaluate(params, batches[name], split=split, step=step)
            found[name] = rows
            if jax.process_index() == 0:
                flags = {'task': name} | changes if name else changes
                records = directory / _name(split, step, flags)
                of_task = dataclasses.asdict(each.config.task)
                _keep(records, rows, about | {'task': of_task, 'metrics': values})
    if jax.process_index() > 0:
        return
    if not others:
        for name, value in values.items():
            print(f'{name:<28} {value:.4f}')
        return
    table = _table(found, setups)
    flags = {'task': ','.join(others)} | changes
    atomic_write_text(directory / f'{_name(split, step, flags)}.md', table)
    print(table, end='')


def _keep(path: pathlib.Path, rows: Sequence[Record], summary: dict[str, Any]) -> None:
    """Writes the records of an evaluation, and its settings and metrics."""
    lines = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    summary['num_dropped'] = int(summary['metrics']['num_dropped'])
    atomic_write_text(f'{path}.jsonl', lines)
    atomic_write_text(f'{path}.json', json.dumps(summary, indent=2) + '\n')


def _table(rows: Mapping[str, Sequence[Record]], setups: Mapping[str, Setup]) -> str:
    tasks = {name: each.task for name, each in setups.items()}
    groups = {
        name: task.groups for name, task in tasks.items() if isinstance(task, Groups)
    }
    return category_table(rows, groups=groups)


def _name(split: str, step: int, flags: Mapping[str, Any]) -> str:
    changed = ''.join(f'_{key}={value}' for key, value in flags.items())
    # An argument of a config file may be a path.
    changed = changed.replace('%', '%25').replace('/', '%2F')
    return f'{split}_step_{step:08d}{changed}'


def _changed(
    config: ExperimentConfig, given: Mapping[str, float | None]
) -> tuple[ExperimentConfig, dict[str, Any]]:
    """Sets fields of ``eval``, except to ``None``; also returns those that changed."""
    before, values = dataclasses.asdict(config.eval), configs.to_dict(config)
    values['eval'] |= {k: v for k, v in given.items() if v is not None}
    config = configs.from_json_dict(values)
    after = dataclasses.asdict(config.eval)
    return config, {k: after[k] for k in sorted(after) if after[k] != before[k]}


if __name__ == '__main__':
    cli.run(main)
