"""The stages of one run: the steps at which its settings change.

A run starts with its configuration. Each section of ``config.stages`` is a later stage:

    config.train.steps = 200
    config.advantage.name = 'pass_at_k'
    config.stages = {
        'pass_at_1': {
            'start': 100,
            'reset_optimizer': False,
            'advantage': {'name': 'pass_at_1'},
        },
    }

A stage lists its differences from the whole configuration, not from the stage before.
It draws its own problems, tokens and noise. An estimator with memory starts anew.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.config import checks
from passk_jax.config.experiment import ExperimentConfig, to_dict
from passk_jax.config.learning_config import OptimizerConfig
from passk_jax.errors import InputError, prefixed

SECTIONS = ('advantage', 'reward', 'loss', 'optimizer', 'sampling')
"""The sections that may differ between stages."""

_STAGE_KEYS = ('start', 'reset_optimizer')
# These decide shapes, or what the log and the checkpoints contain.
_FIXED = (
    'sampling.num_rollouts',
    'sampling.max_response_tokens',
    'sampling.max_cache_bytes',
    'sampling.cache_dtype',
    'loss.mask_truncated',
)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a run.

    Attributes:
        name: the key in ``config.stages``; ``''`` for the first stage.
        start: the first step.
        resets_optimizer: whether the stage starts with a new optimizer state, so the
            learning rate warms up again.
        num_updates: updates between two resets of the optimizer, or to the end of the
            run. A schedule of the learning rate spans them.
        config: the configuration of the stage's steps.
    """

    name: str
    start: int
    resets_optimizer: bool
    num_updates: int
    config: ExperimentConfig


def stages_of(config: ExperimentConfig) -> list[Stage]:
    """Returns the stages of a run, in order; the first starts at step 0.

    Raises:
        InputError: a stage is malformed, starts outside the run or with another, or
            changes a setting that stages share.
    """
    sections = [('', {'start': 0, 'reset_optimizer': True}), *config.stages.items()]
    for name, section in sections[1:]:
        _check_section(name, section, config.train.steps)
    sections.sort(key=lambda item: item[1]['start'])
    for (name, one), (other, two) in itertools.pairwise(sections):
        if one['start'] == two['start']:
            raise InputError(
                f'stages.{name}.start={one["start"]} is also the start of {other!r}'
            )
    resets = [s['start'] for _, s in sections if s['reset_optimizer']]
    return [
        Stage(
            name=name,
            start=section['start'],
            resets_optimizer=bool(number and section['reset_optimizer']),
            num_updates=_steps_around(section['start'], [*resets, config.train.steps])
            * config.train.updates_of_a_step,
            config=_config_of(config, name, section, number),
        )
        for number, (name, section) in enumerate(sections)
    ]


def errors_of(name: str) -> contextlib.AbstractContextManager[None]:
    """Prefixes an error with the name of its stage; the first, ``''``, has none."""
    return prefixed(f'stages.{name}' if name else '')


def stage_at(stages: Sequence[Stage], step: int) -> Stage:
    """Returns the stage that a step belongs to."""
    return [stage for stage in stages if stage.start <= step][-1]


def _check_section(name: str, section: Any, steps: int) -> None:
    """Raises InputError unless the section has a valid start, reset and keys."""
    # A dot would split the key, and JSON keys are texts.
    if not isinstance(name, str) or not name or '.' in name:
        raise InputError(f'stages: {name=} must be a text without dots, and not empty')
    where, choices = f'stages.{name}', [*_STAGE_KEYS, *SECTIONS]
    if not isinstance(section, Mapping):
        raise InputError(f'{where}={section!r} must be a section with keys {choices}')
    if missing := [key for key in _STAGE_KEYS if key not in section]:
        raise InputError(f'missing keys {[f"{where}.{key}" for key in missing]}')
    if unknown := [key for key in section if key not in choices]:
        raise InputError(f'unknown key {where}.{unknown[0]}; have {choices}')
    start, reset = section['start'], section['reset_optimizer']
    if isinstance(start, bool) or not isinstance(start, int):
        raise InputError(f'{where}.{start=} must be of type int')
    if not 1 <= start < steps:
        raise InputError(
            f'{where}.{start=} must lie in [1, {steps - 1}], as train.steps={steps}; '
            f'if you changed train.steps, set --config.{where}.start too'
        )
    if not isinstance(reset, bool):
        raise InputError(f'{where}.reset_optimizer={reset!r} must be of type bool')
    differing = checks.flatten({k: section[k] for k in section if k not in _STAGE_KEYS})
    if fixed := [key for key in differing if key in _FIXED]:
        raise InputError(
            f'{where}.{fixed[0]}={differing[fixed[0]]!r} cannot differ between the '
            f'stages of a run: set {fixed[0]} for all of them'
        )


def _steps_around(start: int, borders: Sequence[int]) -> int:
    """Counts the steps from the last border up to ``start`` to the next border."""
    after = min(border for border in borders if border > start)
    return after - max(border for border in borders if border <= start)


def _config_of(
    config: ExperimentConfig, name: str, section: Mapping[str, Any], number: int
) -> ExperimentConfig:
    """Returns the whole configuration, with the changes of the section."""
    if not number:
        return config
    values = to_dict(config)
    for key in SECTIONS:
        changes = section.get(key, {})
        if not isinstance(changes, Mapping):
            raise InputError(f'stages.{name}.{key}={changes!r} must be a section')
        values[key] = values[key] | dict(changes)
    values |= {'stage': config.stage + number, 'stages': {}}
    with errors_of(name):
        stage_config = checks.build(ExperimentConfig, values)
        checks.check(checks.flatten(to_dict(stage_config)))
        _check_optimizer(config.optimizer, stage_config.optimizer)
    return stage_config


def _check_optimizer(before: OptimizerConfig, here: OptimizerConfig) -> None:
    """Raises InputError unless both optimizers have states of one structure."""
    if before.name != here.name:
        raise InputError(
            f'optimizer.name is {before.name!r} before and {here.name!r} here; a run '
            'has one optimizer'
        )
    # The clip is a part of the optimizer's state.
    if bool(before.max_grad_norm) != bool(here.max_grad_norm):
        raise InputError(
            f'optimizer.max_grad_norm is {before.max_grad_norm} before and '
            f'{here.max_grad_norm} here; either no stage clips gradients, or all do'
        )
