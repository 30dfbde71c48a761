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
from absl import flags

from passk_jax import cli, hosts
from passk_jax import config as configs
from passk_jax.config import ExperimentConfig
from passk_jax.evaluation import evaluate
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.runs import saved_config
from passk_jax.runs.checkpoints import restore_params
from passk_jax.setup import make_setup

_SPLIT = flags.DEFINE_string('split', 'test', 'Split of the task.')
_NUM_RESPONSES = flags.DEFINE_integer('num_responses', None, 'To each problem.')
_NUM_PROBLEMS = flags.DEFINE_integer('num_problems', None, 'Of the split; 0: all.')
_TEMPERATURE = flags.DEFINE_float('temperature', None, 'Of the sampling; 0: greedy.')
_TOP_P = flags.DEFINE_float('top_p', None, 'Of the sampling.')


def main() -> None:
    """Evaluates the run in ``--workdir``; prints a table, keeps the records."""
    workdir = pathlib.Path(cli.WORKDIR.value)
    of_run = saved_config.run_config(workdir)
    config = _with_flags(of_run)
    hosts.join_hosts(hosts.HOSTS.value)
    setup = make_setup(config)
    batches = setup.evaluation_batches(_SPLIT.value)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(workdir, shapes, step=saved_config.STEP.value)
        values, rows = evaluate(
            params,
            batches,
            sample=setup.sampler(
                config.eval.options, num_rollouts=config.eval.num_responses
            ),
            config=config.eval,
            seed=config.seed,
            split=_SPLIT.value,
            step=step,
        )
    if jax.process_index() == 0:
        changes = ''.join(f'_{k}={v}' for k, v in _changes(of_run, config).items())
        name = f'{_SPLIT.value}_step_{step:08d}{changes}'
        lines = ''.join(json.dumps(row) + '\n' for row in rows)
        summary = {
            'split': _SPLIT.value,
            'step': step,
            'eval': dataclasses.asdict(config.eval),
            'num_dropped': batches.num_dropped,
            'metrics': values,
        }
        directory = workdir / 'evaluation' / 'by_command'
        directory.mkdir(parents=True, exist_ok=True)
        atomic_write_text(directory / f'{name}.jsonl', lines)
        text = json.dumps(summary, indent=2) + '\n'
        atomic_write_text(directory / f'{name}.json', text)
        for name, value in values.items():
            print(f'{name:<28} {value:.4f}')


def _with_flags(config: ExperimentConfig) -> ExperimentConfig:
    """The configuration with what the flags change of its evaluation."""
    values = configs.to_dict(config)
    flags_given = {
        'num_responses': _NUM_RESPONSES.value,
        'num_problems': _NUM_PROBLEMS.value,
        'temperature': _TEMPERATURE.value,
        'top_p': _TOP_P.value,
    }
    values['eval'] |= {k: v for k, v in flags_given.items() if v is not None}
    return configs.from_json_dict(values)


def _changes(of_run: ExperimentConfig, config: ExperimentConfig) -> dict[str, Any]:
    """What is evaluated otherwise than the run did, by field."""
    before, now = (dataclasses.asdict(each.eval) for each in (of_run, config))
    return {name: value for name, value in now.items() if value != before[name]}


if __name__ == '__main__':
    flags.mark_flag_as_required('workdir')
    cli.run(main)
