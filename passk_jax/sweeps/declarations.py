"""Declares a sweep: its arms, its seeds and the measures to compare.

A sweep file defines ``get_sweep()``, which returns a :class:`Sweep`:

    from passk_jax.sweeps import Arm, Sweep

    def get_sweep():
        config = 'configs/maze_tiny.py'
        return Sweep(
            name='mine',
            title='Two values of k',
            arms=(
                Arm('k2', 'k = 2', config, {'advantage.k': 2}),
                Arm('k4', 'k = 4', config, {'advantage.k': 4}),
            ),
            baseline='k2',
            seeds=(0, 1, 2),
            measures={'pass_at_1': 'Pass@1', 'pass_at_8': 'Pass@8'},
            split='test',
            curves='validation',
        )
"""

import collections
import dataclasses
import itertools
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError

MEASURES: Mapping[str, str] = {
    'pass_at_1': 'Pass@1',
    'pass_at_4': 'Pass@4',
    'pass_at_8': 'Pass@8',
    'pass_at_32': 'Pass@32',
    'entropy': 'entropy (nats a token)',
}
"""Measures for ``Sweep.measures``; they need at least 32 responses a problem."""

DIVERSITY: Mapping[str, str] = {'rarefied_diversity': 'distinct of 4 wrong answers'}
"""Another measure, for tasks that parse answers."""

TRAININGS: Mapping[str, str] = {
    'pass_at_1': 'Pass@1 Training',
    'pass_at_k': 'Pass@4 Training',
}
"""The paper's two trainings for :func:`estimator_arms`, in configs where k is 4."""

SHARE = 'share of problems'
_SHARES = ('pass_', 'maj_at_', 'cover_at_')
_UNITS = {'entropy': 'nats a token', 'rarefied_diversity': 'answers'}

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.=-]*')
# The keys that decide which policy a later stage starts from.
_FROM = ('init.kind', 'init.checkpoint')


@dataclasses.dataclass(frozen=True)
class Stage:
    """A later run of an arm, which starts from the last policy of the previous run.

    Attributes:
        name: the suffix of the run's name.
        overrides: dotted key -> value, in addition to those of the arm.
        config: a config file, or ``file.py:argument``; ``''``: the arm's.
    """

    name: str
    overrides: Mapping[str, Any]
    config: str = ''


@dataclasses.dataclass(frozen=True)
class Arm:
    """A setting to compare: one run for each seed, and optional later stages.

    Attributes:
        name: the prefix of its runs' names.
        label: its name in tables and in the figure.
        config: a config file, or ``file.py:argument``.
        overrides: dotted key -> value.
        stages: the runs that follow, in order.
    """

    name: str
    label: str
    config: str
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stages: tuple[Stage, ...] = ()


def estimator_arms(
    labels: Mapping[str, str],
    config: str,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[Arm, ...]:
    """Makes an arm for each estimator, with the estimator's name.

    Args:
        labels: estimator -> its label.
        config: as in :class:`Arm`.
        overrides: dotted key -> value, for all arms.

    >>> [arm.name for arm in estimator_arms(TRAININGS, 'configs/maze_tiny.py')]
    ['pass_at_1', 'pass_at_k']
    """
    return tuple(
        Arm(name, label, config, {'advantage.name': name, **(overrides or {})})
        for name, label in labels.items()
    )


def category_measures(categories: Iterable[str]) -> dict[str, str]:
    """Returns metric -> label, of Pass@1 and Pass@32 of each category of problems.

    A label has the last part of the category's name.

    >>> category_measures(['gym/lcm'])
    {'gym/lcm/pass_at_1': 'lcm, Pass@1', 'gym/lcm/pass_at_32': 'lcm, Pass@32'}
    """
    return {
        f'{name}/pass_at_{k}': f'{name.rpartition("/")[2]}, Pass@{k}'
        for k, name in itertools.product((1, 32), categories)
    }


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Arms and seeds to run, and the measures to compare.

    Attributes:
        name: names the directory of runs and the result files.
        title: the figure's title.
        arms: the arms, in the order of the tables.
        baseline: the arm that all others are compared with, seed by seed.
        seeds: the seeds of the runs; a seed decides all draws of its run.
        measures: metric of an evaluation -> its label in tables and in the figure.
        split: the split whose last evaluation the table shows.
        curves: the split whose evaluations the figure shows.
        contrasts: further pairs of arms that the table compares, first minus second.
    """

    name: str
    title: str
    arms: tuple[Arm, ...]
    baseline: str
    seeds: tuple[int, ...]
    measures: Mapping[str, str]
    split: str
    curves: str
    contrasts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self):
        """Raises InputError for invalid types, names, contrasts, seeds or overrides."""
        _check_types(self, '')
        for arm in self.arms:
            _check_types(arm, f'arm {arm.name}: ')
            for stage in arm.stages:
                _check_types(stage, f'arm {arm.name}, stage {stage.name}: ')
        for name in (self.name, *(arm.name for arm in self.arms)):
            _check_name(name)
        names = [arm.name for arm in self.arms]
        if self.baseline not in names:
            raise InputError(f'baseline={self.baseline!r} is none of the arms {names}')
        _check_once(names, 'arms')
        _check_once([arm.label for arm in self.arms], 'labels of arms')
        for pair in self.contrasts:
            if len({*pair}) != 2 or len(pair) != 2:
                raise InputError(f'contrasts: {pair!r} must be a pair of two arms')
            if unknown := [name for name in pair if name not in names]:
                raise InputError(f'contrasts: {unknown} are none of the arms {names}')
        check_seeds(self.seeds)
        if not self.measures:
            raise InputError('measures is empty: name a metric of an evaluation')
        for arm in self.arms:
            _check_once([stage.name for stage in arm.stages], f'stages of {arm.name}')
            for stage in arm.stages:
                _check_name(stage.name)
                _check_overrides(stage.overrides, ('seed', *_FROM), arm)
            _check_overrides(arm.overrides, ('seed',), arm)

    def select(self, names: Sequence[str]) -> 'Sweep':
        """Returns the sweep of some arms, without the contrasts of absent arms.

        If the baseline is none of them, the first name is the baseline. Raises
        InputError for a name that is no arm.
        """
        arms = [arm.name for arm in self.arms]
        if unknown := [name for name in names if name not in arms]:
            raise InputError(f'arms: {unknown} are none of the arms {arms}')
        return dataclasses.replace(
            self,
            arms=tuple(arm for arm in self.arms if arm.name in names),
            baseline=self.baseline if self.baseline in names else names[0],
            contrasts=tuple(x for x in self.contrasts if {*x} <= {*names}),
        )


def unit_of(measure: str) -> str:
    """Returns the unit on a measure's axis; ``''``: none."""
    name = measure.rpartition('/')[2]
    return SHARE if name.startswith(_SHARES) else _UNITS.get(name, '')


def check_seeds(seeds: Iterable[int]) -> None:
    """Raises InputError unless seeds are distinct whole numbers, and at least one."""
    if not (seeds := tuple(seeds)):
        raise InputError('seeds is empty: name at least one')
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f'{seed=} must be a whole number, at least 0')
    _check_once(seeds, 'seeds')


def _check_types(declared: Sweep | Arm | Stage, where: str) -> None:
    """Raises InputError unless every field has its type; a list serves as a tuple.

    Otherwise a wrong one, such as a number for a label, would fail after all runs.
    """
    for name, kind in typing.get_type_hints(type(declared)).items():
        value = getattr(declared, name)
        origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
        words, fits = 'a text', isinstance(value, str)
        if origin is tuple:
            item = typing.get_origin(parts[0]) or parts[0]
            kinds = (tuple, list) if item is tuple else item
            words = f'a tuple of {item.__name__}'
            fits = isinstance(value, Sequence) and not isinstance(value, str)
            fits = fits and all(isinstance(x, kinds) for x in value)
        elif origin is Mapping:
            texts = parts[1] is str
            words = 'a dict of texts' if texts else 'a dict with texts as keys'
            fits = isinstance(value, Mapping) and all(
                isinstance(x, str) for x in (*value, *(value.values() if texts else ()))
            )
        if not fits:
            raise InputError(f'{where}{name}={value!r} must be {words}')


def _check_overrides(
    overrides: Mapping[str, Any], reserved: Sequence[str], arm: Arm
) -> None:
    if clashes := [key for key in reserved if key in overrides]:
        raise InputError(f'arm {arm.name}: the sweep sets {clashes}, so leave it out')


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f'{name=} must be of letters, digits and any of "_.=-", as it names files'
        )


def _check_once(values: Iterable[Any], description: str) -> None:
    counts = collections.Counter(values)
    if twice := [value for value, count in counts.items() if count > 1]:
        raise InputError(f'{description}: {twice} more than once')
