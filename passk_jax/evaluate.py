"""Evaluates a run that is there already.

    python -m passk_jax.evaluate --workdir=runs/maze_tiny --split=test

The run's own configuration says how; the flags below change it for this evaluation.
The table goes to standard output, and (n, c) of every problem to
``<workdir>/evaluation/by_command/``.
"""

import json
import pathlib
from collections.abc import Sequence

import jax
from absl import flags

from passk_jax import cli
from passk_jax import config as configs
from passk_jax.checkpoint import restore_params
from passk_jax.config import ExperimentConfig
from passk_jax.evaluation import evaluate, evaluation_batches
from passk_jax.files import atomic_write_text
from passk_jax.models import policy as policies
from passk_jax.setup import make_setup

_SPLIT = flags.DEFINE_string('split', 'test', 'Split of the task.')
_STEP = flags.DEFINE_integer('step', None, 'Step of the checkpoint; newest if absent.')
_NUM_RESPONSES = flags.DEFINE_integer('num_responses', None, 'To each problem.')
_NUM_PROBLEMS = flags.DEFINE_integer('num_problems', None, 'Of the split; 0: all.')
_TEMPERATURE = flags.DEFINE_float('temperature', None, 'Of the sampling; 0: greedy.')
_TOP_P = flags.DEFINE_float('top_p', None, 'Of the sampling.')


def main(argv: Sequence[str]) -> None:
    """Evaluates the run in ``--workdir``; prints a table, keeps the records."""
    configs.reject_leftover_arguments(argv)
    workdir = pathlib.Path(cli.WORKDIR.value)
    config = _run_config(workdir)
    setup = make_setup(config)
    batches = evaluation_batches(setup, _SPLIT.value)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    with jax.set_mesh(setup.mesh):
        params, step = restore_params(workdir, shapes, step=_STEP.value)
        values, rows = evaluate(setup, params, batches, split=_SPLIT.value, step=step)
    if jax.process_index() == 0:
        stem = workdir / 'evaluation' / 'by_command' / f'{_SPLIT.value}_step_{step:08d}'
        lines = ''.join(json.dumps(row) + '\n' for row in rows)
        stem.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(stem.with_suffix('.jsonl'), lines)
        atomic_write_text(stem.with_suffix('.json'), json.dumps(values, indent=2))
        for name, value in values.items():
            print(f'{name:<28} {value:.4f}')


def _run_config(workdir: pathlib.Path) -> ExperimentConfig:
    """The run's configuration, with what the flags change of its evaluation."""
    path = workdir / 'config.json'
    if not path.is_file():
        raise ValueError(f'{workdir} is no run directory: {path} is absent')
    try:
        values = configs.to_dict(configs.from_json_dict(json.loads(path.read_text())))
    except ValueError as error:
        raise ValueError(f'{path} is not a config: {error}') from error
    flags_given = {
        'num_responses': _NUM_RESPONSES.value,
        'num_problems': _NUM_PROBLEMS.value,
        'temperature': _TEMPERATURE.value,
        'top_p': _TOP_P.value,
    }
    values['eval'] |= {k: v for k, v in flags_given.items() if v is not None}
    return configs.from_json_dict(values)


if __name__ == '__main__':
    flags.mark_flag_as_required('workdir')
    cli.run(main)
