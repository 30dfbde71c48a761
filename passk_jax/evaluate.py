"""Evaluates a run that is there already.

    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test

The run's own configuration says how; the flags below change it for this evaluation.
The table goes to standard output; (n, c) of every problem, and how it was had, to
``<workdir>/evaluation/by_command/``, under a name that has what the flags changed.
``--hosts`` and ``--mesh`` say where it runs, which changes no response.
"""

import dataclasses
import json
import pathlib
from typing import Any

import jax

from passk_jax import cli
from passk_jax import config as configs
from passk_jax.config import ExperimentConfig
from passk_jax.evaluation import evaluate, evaluation_batches
from passk_jax.files import atomic_write_text
from passk_jax.hosts import join_hosts
from passk_jax.models import policy as policies
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import restore_params
from passk_jax.setup import make_setup


def main(
    *,
    workdir: str,
    split: str = 'test',
    step: int | None = None,
    num_responses: int | None = None,
    num_problems: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    mesh: str | None = None,
    hosts: str = '',
) -> None:
    """Evaluates the run in ``workdir``; prints a table, keeps the records."""
    path = pathlib.Path(workdir)
    of_run = saved_config.run_config(path, mesh)
    config = _changed(
        of_run,
        num_responses=num_responses,
        num_problems=num_problems,
        temperature=temperature,
        top_p=top_p,
    )
    join_hosts(hosts)
    setup = make_setup(config)
    batches = evaluation_batches(setup, split)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(path, shapes, step=step)
        values, rows = evaluate(setup, params, batches, split=split, step=step)
    if jax.process_index() == 0:
        changes = ''.join(f'_{k}={v}' for k, v in _changes(of_run, config).items())
        name = f'{split}_step_{step:08d}{changes}'
        lines = ''.join(json.dumps(row) + '\n' for row in rows)
        summary = {
            'split': split,
            'step': step,
            'eval': dataclasses.asdict(config.eval),
            'num_dropped': batches.num_dropped,
            'metrics': values,
        }
        directory = path / 'evaluation' / 'by_command'
        directory.mkdir(parents=True, exist_ok=True)
        atomic_write_text(directory / f'{name}.jsonl', lines)
        text = json.dumps(summary, indent=2) + '\n'
        atomic_write_text(directory / f'{name}.json', text)
        for name, value in values.items():
            print(f'{name:<28} {value:.4f}')


def _changed(config: ExperimentConfig, **given: float | None) -> ExperimentConfig:
    """The configuration with other values of ``eval``; ``None`` changes nothing."""
    values = configs.to_dict(config)
    values['eval'] |= {k: v for k, v in given.items() if v is not None}
    return configs.from_json_dict(values)


def _changes(of_run: ExperimentConfig, config: ExperimentConfig) -> dict[str, Any]:
    """What is evaluated otherwise than the run did, by field."""
    before, now = (dataclasses.asdict(each.eval) for each in (of_run, config))
    return {name: value for name, value in now.items() if value != before[name]}


if __name__ == '__main__':
    cli.run(main)
