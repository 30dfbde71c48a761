"""Evaluates the policy of an existing run, or a published model.

    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test

It samples as the run's evaluations do, unless a flag changes that. It prints a table of
metrics. It writes the answers to every problem and the settings to
``<workdir>/evaluation/by_command/``; the file names contain what the flags change.
``--hosts`` and ``--mesh`` set where it runs and change no response. Results of other
settings or problems are replaced only with ``--overwrite``.

    python -m passk_jax.evaluate --workdir=runs/mine --task=korbench,arc --data_dir=DIR

``--task`` evaluates on other tasks. ``python -m passk_jax.tasks`` lists them, and says
how to get their problems and where in ``--data_dir`` to put them. A config file, which
sets ``task``, ``data.dir`` and the prompt limit, also names a task. It prints Pass@1
and Pass@k by category and overall, and writes that table as Markdown next to each
task's records. It counts the problems that the run was trained on, and leaves them out.
A task that has results is not sampled again, so an interrupted command resumes.

    python -m passk_jax.evaluate --model=HuggingFaceTB/SmolLM2-135M-Instruct \\
        --task=configs/smollm2.py:sets=out_of_domain --workdir=runs/published

A published model needs no run. The first config file of ``--task``, by default
``configs/base.py``, sets the prompts and the sampling. The results are in
``--workdir``, by default ``runs/published_<model>``.
"""

import dataclasses
import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import jax
from absl import logging

from passk_jax import cli
from passk_jax import config as configs
from passk_jax.config import DataConfig, ExperimentConfig, TaskConfig
from passk_jax.data.batches import EvaluationBatches
from passk_jax.errors import InputError
from passk_jax.evaluation import other_tasks, saved
from passk_jax.evaluation.evaluate import warn_of_missing_signal
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.models.hf import weights
from passk_jax.models.hf.config import read_json, source_directory
from passk_jax.report.category_table import LeftOut, category_table
from passk_jax.runs import commits, saved_config
from passk_jax.runs.checkpoints import find_step, restore_params
from passk_jax.runs.sources import check_sources
from passk_jax.runtime.compile_cache import keep_programs
from passk_jax.runtime.hosts import broadcast, join_hosts
from passk_jax.setup.checks import check_evaluation
from passk_jax.setup.first_problem import show_first_problem
from passk_jax.setup.published import (
    check_lengths,
    digest_weights,
    fit_to_devices,
    published_config,
)
from passk_jax.setup.setup import Setup, make_setup
from passk_jax.tasks.abilities import Groups

# A task's configuration, and the data settings of its problems.
_Problems = tuple[TaskConfig, DataConfig]


@dataclasses.dataclass(frozen=True)
class _Plan:
    """A planned evaluation.

    Attributes:
        setup: the setup with the evaluation's task.
        batches: its problems.
        left_out: the problems that it leaves out; see ``category_table``.
        settings: the settings that decide its results, as JSON values.
        path: path of its results, without a suffix.
    """

    setup: Setup
    batches: EvaluationBatches
    left_out: LeftOut
    settings: Mapping[str, Any]
    path: pathlib.Path


def main(
    *,
    workdir: str | None = None,
    model: str | None = None,
    split: str = 'test',
    task: str | None = None,
    data_dir: str | None = None,
    step: int | None = None,
    num_responses: int | None = None,
    num_problems: int | None = None,
    max_response_tokens: int | None = None,
    overwrite: bool = False,
    mesh: str | None = None,
    hosts: str = '',
    **options: float | None,
) -> None:
    """Evaluates a run or a published model; prints a table and writes the records."""
    path, config = _opened(workdir, model, task=task, step=step, mesh=mesh)
    options |= {'num_responses': num_responses, 'num_problems': num_problems}
    config, changes = _changed(config, options, max_response_tokens)
    more_tasks = other_tasks.read_tasks(task, config.data, data_dir)
    check_evaluation(config)
    # An evaluation uses the task's verdicts but no advantage.
    check_sources(path, config.model, dataclasses.asdict(config.task))
    directory = path / 'evaluation' / 'by_command'
    # Make it now, so that an error comes before an hour of sampling.
    directory.mkdir(parents=True, exist_ok=True)
    join_hosts(hosts)
    keep_programs(path)
    setup = _make_setup(config, model)
    about, seen = _about(path, config, model, step=step, more_tasks=bool(more_tasks))
    about |= {'split': split}
    plans, step = {}, about['step']
    for name, other in (more_tasks or {'': None}).items():
        flags = {'task': name} | changes if name else changes
        file = directory / saved.name_of(split, step, flags)
        # Check all tasks before the first one samples for an hour.
        with other_tasks.errors_of(name, other[0].name if other else ''):
            plans[name] = plan = _plan(setup, other, split, file, about, seen)
        if model is not None:
            show_first_problem(
                plan.setup.task, plan.batches.tokenized, setup.tokenizer, split=split
            )
    # Only process 0 reads the files.
    evaluated = [] if overwrite else broadcast(lambda: _names_with_results(plans))
    missing = {name: plan for name, plan in plans.items() if name not in evaluated}
    _evaluate(missing, split, step, model=model, workdir=path)
    if jax.process_index() > 0:
        return
    if not more_tasks:
        _print_metrics(plans[''])
        return
    name = saved.name_of(split, step, {'task': ','.join(more_tasks)} | changes)
    table = _table(plans)
    print(table, end='')
    atomic_write_text(directory / f'{name}.md', table)


def _opened(
    workdir: str | None,
    model: str | None,
    *,
    task: str | None,
    step: int | None,
    mesh: str | None,
) -> tuple[pathlib.Path, ExperimentConfig]:
    """Returns the results' directory, and the configuration of the run or model.

    Raises:
        InputError: neither is given, or flags contradict each other.
    """
    if model is None:
        if workdir is None:
            raise InputError(
                '--workdir is required, or --model for a published one, for example:\n'
                '    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test'
            )
        path = pathlib.Path(workdir)
        return path, saved_config.run_config(path, mesh)
    if task is None:
        raise InputError(f'--model={model} has no task of its own: name --task')
    if step is not None:
        raise InputError(f'--model={model} has no checkpoints: leave out --step={step}')
    name = re.sub(r'[^\w.@-]+', '_', model.strip('/'))
    path = pathlib.Path(workdir or f'runs/published_{name}')
    if (path / 'config.json').exists():
        raise InputError(f'{path} is a run: give --model another --workdir')
    # Read config.json now, so that a wrong model name leaves no directory behind.
    read_json(source_directory(model, ['config.json']) / 'config.json')
    return path, published_config(model, task, mesh)


def _make_setup(config: ExperimentConfig, model: str | None) -> Setup:
    if model is None:
        return make_setup(config)
    check_lengths(config)
    return make_setup(fit_to_devices(config))


def _about(
    workdir: pathlib.Path,
    config: ExperimentConfig,
    model: str | None,
    *,
    step: int | None,
    more_tasks: bool,
) -> tuple[dict[str, Any], tuple[Collection[str], bool]]:
    """Returns the settings that all tasks share, and the training problems' hashes."""
    if model is None:
        step = find_step(workdir, step)
        checkpoint = workdir / 'checkpoints' / str(step)
        identity = broadcast(lambda: commits.identity(checkpoint))
        seen = other_tasks.training_problems(_trained_on(config) if more_tasks else ())
    else:
        # The training problems of a published model are unknown.
        step, seen = 0, (frozenset(), False)
        identity = broadcast(lambda: digest_weights(model))
    about = {'step': step, 'checkpoint': identity}
    about |= {'eval': dataclasses.asdict(config.eval), 'seed': config.seed}
    about['max_response_tokens'] = config.sampling.max_response_tokens
    return about, seen


def _plan(
    setup: Setup,
    other: _Problems | None,
    split: str,
    path: pathlib.Path,
    about: Mapping[str, Any],
    trained_on: tuple[Collection[str], bool],
) -> _Plan:
    """Plans the evaluation of another task, or of the run's task.

    ``trained_on`` has the content hashes of the training problems, and whether they are
    complete.
    """
    setup = setup.on_task(*other) if other else setup
    seen, complete = trained_on
    problems, trained = other_tasks.unseen(setup.task, setup.problems(split), seen)
    settings = {
        'task': dataclasses.asdict(setup.config.task),
        'data': dataclasses.asdict(setup.config.data),
        'problems': saved.digest_of(problems),
    }
    batches = setup.evaluation_batches(split, problems)
    left_out = {
        'too long': batches.dropped,
        'trained on': trained if complete else None,
    }
    return _Plan(setup, batches, left_out, {**about, **settings}, path)


def _trained_on(config: ExperimentConfig) -> list[_Problems | None]:
    """Lists the tasks of the run and its ancestors; ``None`` for an unreadable one."""
    sources: list[_Problems | None] = [(config.task, config.data)]
    names = set()
    while config.init.kind == 'checkpoint' and config.init.checkpoint not in names:
        names.add(config.init.checkpoint)
        try:
            path = pathlib.Path(config.init.checkpoint).expanduser()
            config = saved_config.run_config(path)
        except InputError as error:
            logging.warning(
                'the training problems of an earlier run are unknown: %s', error
            )
            return [*sources, None]
        sources.append((config.task, config.data))
    return sources


def _names_with_results(plans: Mapping[str, _Plan]) -> list[str]:
    """Lists the other tasks that have results; InputError if settings differ."""
    names = [
        name
        for name, plan in plans.items()
        if saved.is_there(plan.path, plan.settings) and name
    ]
    for name in names:
        file = f'{plans[name].path}.json'
        logging.info(
            '%s: the results are in %s; --overwrite samples it again', name, file
        )
    return names


def _evaluate(
    plans: Mapping[str, _Plan],
    split: str,
    step: int,
    *,
    model: str | None,
    workdir: pathlib.Path,
) -> None:
    """Runs the planned evaluations of a checkpoint or a published model."""
    if not plans:
        return
    # All tasks share the policy and the mesh.
    setup = next(iter(plans.values())).setup
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        if model is None:
            params = restore_params(workdir, shapes, step=step)[0]
        else:
            params = weights.load_params(setup.policy, model, setup.mesh)
        for plan in plans.values():
            evaluate = plan.setup.at(step).evaluate()
            values, rows = evaluate(params, plan.batches, split=split, step=step)
            warn_of_missing_signal(f'{plan.setup.task.name} {split}', rows)
            if jax.process_index() == 0:
                summary = {
                    **plan.settings,
                    'num_dropped': plan.batches.num_dropped,
                    'left_out': plan.left_out,
                    'metrics': values,
                }
                saved.write(plan.path, rows, summary)


def _print_metrics(plan: _Plan) -> None:
    for name, value in saved.read(plan.path)[1]['metrics'].items():
        print(f'{name:<28} {value:.4f}')


def _table(plans: Mapping[str, _Plan]) -> str:
    """Makes the table of the results of these evaluations, by their names."""
    evaluations = {name: saved.read(plan.path) for name, plan in plans.items()}
    tasks = {name: plan.setup.task for name, plan in plans.items()}
    groups = {
        name: task.groups for name, task in tasks.items() if isinstance(task, Groups)
    }
    return category_table(
        {name: rows for name, (rows, _) in evaluations.items()},
        groups=groups,
        left_out={
            name: summary['left_out'] for name, (_, summary) in evaluations.items()
        },
    )


def _changed(
    config: ExperimentConfig,
    options: Mapping[str, float | None],
    max_response_tokens: int | None,
) -> tuple[ExperimentConfig, dict[str, Any]]:
    """Applies the flags that are not ``None`` to the configuration.

    Returns the new configuration and the values that differ from the old one.
    """
    before, values = dataclasses.asdict(config.eval), configs.to_dict(config)
    values['eval'] |= {k: v for k, v in options.items() if v is not None}
    limit = config.sampling.max_response_tokens
    if max_response_tokens is not None:
        values['sampling']['max_response_tokens'] = max_response_tokens
    changed = configs.from_json_dict(values)
    after = dataclasses.asdict(changed.eval)
    changes = {k: after[k] for k in sorted(after) if after[k] != before[k]}
    if (other_limit := changed.sampling.max_response_tokens) != limit:
        changes['max_response_tokens'] = other_limit
    return changed, changes


if __name__ == '__main__':
    cli.run(main)
