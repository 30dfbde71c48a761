"""Opens the configuration of every run of a sweep, before any run starts.

Parses the arguments of each command as the command does, so invalid arguments fail
before the sweep starts a run.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from passk_jax import config as configs
from passk_jax import plugins, train
from passk_jax.cli.flags import parse
from passk_jax.config import ExperimentConfig
from passk_jax.errors import InputError, prefixed
from passk_jax.evaluation.evaluate import metric_names
from passk_jax.report.run_data import Row
from passk_jax.runs.directory import check_config, has_begun
from passk_jax.runs.saved_config import stage_of
from passk_jax.runs.sources import check_files
from passk_jax.setup.checks import check_names, may_differ, may_grow, splits_due
from passk_jax.sweeps.commands import Run
from passk_jax.sweeps.declarations import Sweep

# Cached because it computes metrics to get their names.
_metric_names = functools.cache(metric_names)


@dataclasses.dataclass(frozen=True)
class Job:
    """A run with its resolved configuration.

    Attributes:
        run: the run.
        steps: the number of training steps.
        splits: the splits of its last evaluation.
        warm_start: a key that runs with the same warm start share; ``''``: none.
        first_policy: the same, of runs with the same policy before their first step.
        config: the resolved configuration, as JSON values.
        may_differ: keys that may change when the run is resumed.
        saved_rows: its evaluations, if they are saved; see ``saved_results.py``.
        sources: user's Python file that the configuration names -> its digest.
    """

    run: Run
    steps: int
    splits: tuple[str, ...]
    warm_start: str
    first_policy: str
    config: Mapping[str, Any]
    may_differ: tuple[str, ...]
    saved_rows: tuple[Row, ...] = ()
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name


def open_runs(runs: Sequence[Run], sweep: Sweep) -> list[Job]:
    """Resolves and checks every run; writes nothing and uses no device.

    Raises:
        InputError: a configuration is invalid, lacks a measure or a split of the sweep,
            or differs from the one in the run directory, or a user's Python file
            changed since the run began. The message names the run.
    """
    return [_open(run, sweep) for run in runs]


def _open(run: Run, sweep: Sweep) -> Job:
    with prefixed(f'run {run.name}', (ValueError, flags.Error)):
        arguments = ['train', *run.arguments]
        config = parse(train.main, arguments, flags.FlagValues())['config']
        check_names(config)
        splits = splits_due(config, config.train.steps)
        _check_measures(sweep, config.eval.num_responses, splits)
        sources = plugins.digests_in(_as_json(config))
        if has_begun(run.directory):
            _check_same(run, config)
            check_files(run.directory, sources)
    warm_start = _warm_start(config)
    return Job(
        run,
        config.train.steps,
        splits,
        warm_start,
        warm_start and json.dumps([warm_start, *_changes_the_base(config)]),
        _as_json(config),
        may_differ(config),
        sources=sources,
    )


def _check_same(run: Run, config: ExperimentConfig) -> None:
    stage = stage_of(config.stage, config.init, run.directory)
    config = dataclasses.replace(config, stage=stage)
    path, free = run.directory / 'config.json', (may_differ(config), may_grow(config))
    check_config(path, _as_json(config), *free)


def _as_json(config: ExperimentConfig) -> Mapping[str, Any]:
    return json.loads(configs.to_json(config))


def _check_measures(sweep: Sweep, num_responses: int, splits: Iterable[str]) -> None:
    for name in ('split', 'curves'):
        if (split := getattr(sweep, name)) not in splits:
            raise InputError(
                f'{name}={split!r} is not evaluated at the end; have {list(splits)} '
                '(eval.split and eval.final_split)'
            )
    names = _metric_names(num_responses)
    # A category's metrics end like those of the whole split.
    unknown = [x for x in sweep.measures if x.rpartition('/')[2] not in names]
    if unknown:
        raise InputError(f'measures {unknown} are none of {sorted(names)}')


def _warm_start(config: ExperimentConfig) -> str:
    """Returns all settings that a warm start depends on, even those that only round."""
    if config.init.kind != 'warm_start':
        return ''
    values = configs.to_dict(config)
    sections = ('seed', 'model', 'mesh', 'init', 'task', 'data')
    decides = {name: values[name] for name in sections}
    # A warm start trains the whole base, before there are adapters.
    frozen_dtype = '' if config.model.lora.rank else config.model.frozen_dtype
    without = {'lora': configs.NO_ADAPTERS, 'frozen_dtype': frozen_dtype}
    decides['model'] = values['model'] | without
    decides['max_response_tokens'] = config.sampling.max_response_tokens
    return json.dumps(decides, sort_keys=True)


def _changes_the_base(config: ExperimentConfig) -> tuple[str, str]:
    """Returns what makes the first policy differ from its warm start.

    New adapters change nothing; published ones do, and rounding of the base.
    """
    model = config.model
    return (model.lora.source, model.frozen_dtype) if model.lora.rank else ('', '')
