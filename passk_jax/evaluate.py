"""Evaluates the policy of an existing run.

    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test

It samples as the run's own evaluations do, except where a flag says otherwise. It
prints a table of metrics. It writes the answers to every problem, and the settings, to
``<workdir>/evaluation/by_command/``, in files whose names say what the flags changed.
``--hosts`` and ``--mesh`` say where it runs and change no response.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax

from passk_jax import cli
from passk_jax import config as configs
from passk_jax.compile_cache import keep_programs
from passk_jax.config import ExperimentConfig
from passk_jax.files import atomic_write_text
from passk_jax.hosts import join_hosts
from passk_jax.models import policy as policies
from passk_jax.preflight import check_evaluation
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import restore_params
from passk_jax.runs.sources import check_sources
from passk_jax.setup import make_setup


def main(
    *,
    workdir: str,
    split: str = 'test',
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
    check_evaluation(config)
    check_sources(path, config.model)
    directory = path / 'evaluation' / 'by_command'
    # Now, because what hinders it would also do so after an hour of sampling.
    directory.mkdir(parents=True, exist_ok=True)
    keep_programs()
    join_hosts(hosts)
    setup = make_setup(config)
    batches = setup.evaluation_batches(split)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(path, shapes, step=step)
        evaluate = setup.at(step).evaluator()
        values, rows = evaluate(params, batches, split=split, step=step)
    if jax.process_index() == 0:
        changed = ''.join(f'_{key}={value}' for key, value in changes.items())
        name = f'{split}_step_{step:08d}{changed}'
        lines = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
        summary = {
            'split': split,
            'step': step,
            'eval': dataclasses.asdict(config.eval),
            'num_dropped': batches.num_dropped,
            'metrics': values,
        }
        atomic_write_text(directory / f'{name}.jsonl', lines)
        text = json.dumps(summary, indent=2) + '\n'
        atomic_write_text(directory / f'{name}.json', text)
        for name, value in values.items():
            print(f'{name:<28} {value:.4f}')


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
