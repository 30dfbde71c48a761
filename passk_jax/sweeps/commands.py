"""Lists the runs of a sweep, each with its exact command."""

import collections
import dataclasses
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passk_jax.errors import InputError
from passk_jax.sweeps.declarations import Arm, Sweep

MODULE = 'passk_jax.train'


@dataclasses.dataclass(frozen=True)
class Run:
    """One run directory.

    Attributes:
        name: ``<arm>_seed<seed>``; a later stage appends ``_<stage>``.
        arm: the arm's name.
        seed: the run's seed.
        directory: the run directory.
        arguments: command-line arguments of :data:`MODULE`.
        previous: the name of the run whose policy this one starts from; ``''``: none.
        last: whether this is the arm's last stage.
    """

    name: str
    arm: str
    seed: int
    directory: pathlib.Path
    arguments: tuple[str, ...]
    previous: str
    last: bool

    @property
    def setting(self) -> str:
        """The name without the seed; runs of one setting differ only in their seed."""
        return setting_of(self.name, arm=self.arm, seed=self.seed)

    def command(self) -> str:
        """Returns the command for a shell in the root of the repository."""
        return shlex.join(['python', '-m', MODULE, *self.arguments])


def setting_of(name: str, *, arm: str, seed: int) -> str:
    """Returns a run's name without its seed.

    >>> setting_of('b_seed1_then', arm='b', seed=1)
    'b_then'
    """
    return arm + name.removeprefix(_name(arm, seed))


def _name(arm: str, seed: int) -> str:
    return f'{arm}_seed{seed}'


def runs_of(sweep: Sweep, root: pathlib.Path, seeds: Sequence[int]) -> list[Run]:
    """Lists every run, seed by seed, the stages of an arm in order.

    Args:
        sweep: the declaration.
        root: the directory that holds all run directories.
        seeds: the seeds to run.

    Raises:
        InputError: two runs have the same name, or two runs of a seed have the same
            setting.
    """
    runs = [
        run for seed in seeds for arm in sweep.arms for run in _stages(arm, root, seed)
    ]
    counts = collections.Counter(run.name for run in runs)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f'several runs are called {twice}: rename an arm or a stage')
    # Results are stored by setting: stage 'b' of arm 'a' clashes with an arm 'a_b'.
    counts = collections.Counter(run.setting for run in runs if run.seed == seeds[0])
    if twice := [setting for setting, count in counts.items() if count > 1]:
        raise InputError(
            f'several runs of a seed have the setting {twice}: rename an arm or a stage'
        )
    return runs


def _stages(arm: Arm, root: pathlib.Path, seed: int) -> Iterator[Run]:
    name = previous = ''
    for number, stage in enumerate((None, *arm.stages)):
        overrides = dict(arm.overrides)
        name, config = _name(arm.name, seed), arm.config
        if stage:
            overrides |= stage.overrides
            # A later stage starts from the previous stage's policy.
            overrides |= {
                'init.kind': 'checkpoint',
                'init.checkpoint': str(root / previous),
            }
            name, config = f'{name}_{stage.name}', stage.config or config
        yield Run(
            name=name,
            arm=arm.name,
            seed=seed,
            directory=root / name,
            arguments=_arguments(config, overrides | {'seed': seed}, root / name),
            previous=previous,
            last=number == len(arm.stages),
        )
        previous = name


def _arguments(
    config: str, overrides: Mapping[str, Any], directory: pathlib.Path
) -> tuple[str, ...]:
    settings = (f'--config.{key}={_text(value)}' for key, value in overrides.items())
    return (f'--config={config}', *settings, f'--workdir={directory}')


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
