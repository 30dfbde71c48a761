"""Settings under which every program fits and nothing that is trained changes.

:func:`search` compiles the programs in turn. Of one that does not fit the compiler says
how much it needs, and the estimates of fits.py say which settings may suffice: the
mildest of the cheapest kind, else of several kinds together, else on another mesh of
the same devices (meshes.py). With these it compiles again, and so on.

The estimates are cautious at first. If no setting of one kind is enough by them, they
become hopeful, and the next attempt may be too mild. If what a device holds before a
program runs is too much, that program is not compiled at all.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

from passk_jax.planning import fits, remedies, summary
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder
from passk_jax.planning.meshes import other_meshes
from passk_jax.planning.remedies import Check, Overrides

_MOST_CHANGES = 20
# The smallest share of the memory that a change must save if it is not enough.
_LEAST_SAVING = 0.01


@dataclasses.dataclass(frozen=True)
class Found:
    """The settings that a search ended with.

    Attributes:
        overrides: dotted key -> value, where they differ from the configuration.
        builder: of these settings.
        analyses: of the programs under them, up to one that does not fit.
        over: the program that does not fit; ``None``: all do.
    """

    overrides: Overrides
    builder: Builder
    analyses: Sequence[Analysis]
    over: Analysis | None


def search(
    builder: Builder,
    names: Sequence[str],
    analyse: Callable[[Builder, str], Analysis],
    *,
    check: Check,
    tell: Callable[[str], object],
    first: Overrides,
) -> Found:
    """Searches for settings under which programs fit.

    Args:
        builder: of the configuration.
        names: of the programs.
        analyse: analyses a builder's program of a name.
        check: raises ValueError for overrides that the configuration refuses.
        tell: takes a line for each change.
        first: the settings to begin with.
    """
    settings, analyzed = first, {}
    sizes = {name: _Sizes(name, builder, check) for name in names}
    for changes in itertools.count():
        over = None
        for name in names:
            if name not in analyzed:
                analyzed[name] = analyse(builder.changed(settings), name)
                sizes[name].add(analyzed[name], settings)
            if not analyzed[name].memory.fits:
                over = analyzed[name]
                break
        if over is None or changes == _MOST_CHANGES:
            break
        then = _next(sizes[over.program.name], first, settings)
        if sizes[over.program.name].is_known(then):
            break
        tell(f'{summary.too_much(over)}; next: {" ".join(flags(then))}')
        changed = {x for x in {**settings, **then} if settings.get(x) != then.get(x)}
        analyzed = {x: analyzed[x] for x in analyzed if not _touched(x, changed)}
        settings = then
    analyses = [analyzed[name] for name in names if name in analyzed]
    return Found(settings, builder.changed(settings), analyses, over)


def flags(overrides: Overrides) -> list[str]:
    """The overrides as flags of a command."""
    return [f'--config.{key}={value}' for key, value in overrides.items()]


def _touched(name: str, keys: set[str]) -> bool:
    """Whether other values of these dotted keys change a program."""
    if any(key.startswith('mesh.') for key in keys):
        return True
    if name == 'decode':
        return 'sampling.max_cache_bytes' in keys
    return fits.works_by_pass(name) and keys != {'sampling.max_cache_bytes'}


class _Sizes:
    """What a program needs under some settings, and may need under others.

    Attributes:
        name: of the program.
        builder: of the configuration.
        hopeful: whether estimates are; see :func:`passk_jax.planning.fits.estimate`.
    """

    def __init__(self, name: str, builder: Builder, check: Check):
        self.name, self.builder, self._check = name, builder, check
        self._limit = 0.0
        # By the sizes of the mesh.
        self._last: dict[tuple[int, ...], tuple[Analysis, Builder]] = {}
        self._needed: dict[tuple, float] = {}
        self.hopeful = False
        self._known: set[tuple] = set()

    def add(self, analysis: Analysis, settings: Overrides) -> None:
        """Takes the program's analysis under these settings."""
        now = self.builder.changed(settings)
        analysis = fits.with_temporaries(analysis, now)
        mesh = tuple(now.mesh.shape.values())
        # The latest analysis comes first.
        self._last = {mesh: (analysis, now)} | {
            x: each for x, each in self._last.items() if x != mesh
        }
        self._known.add(_key(settings))
        self._limit = analysis.memory.limit
        self._needed = {}

    def is_known(self, settings: Overrides) -> bool:
        """Whether the program was analysed under these settings."""
        return _key(settings) in self._known

    def needed(self, settings: Overrides) -> float:
        """Bytes on a device; infinite if the configuration refuses the settings."""
        key = (self.hopeful, *_key(settings))
        if key not in self._needed:
            self._needed[key] = self._estimate(settings)
        return self._needed[key]

    def _estimate(self, settings: Overrides) -> float:
        try:
            self._check(settings)
            other = self.builder.changed(settings)
            mesh = tuple(other.mesh.shape.values())
            last = next(iter(self._last.values()))
            analysis, now = self._last.get(mesh, last)
            return fits.estimate(analysis, now, other, hopeful=self.hopeful)
        except ValueError:
            return math.inf

    def enough(self, settings: Overrides) -> bool:
        """Whether the program may fit."""
        return self.needed(settings) <= self._limit

    def kinds(self, start: Overrides) -> list[list[Overrides]]:
        """Degrees of each kind of change on the same mesh, the cheapest first."""
        changes = remedies.on_the_same_mesh(self.builder.changed(start), self.name)
        return [degrees for _, degrees in changes]


def _key(settings: Overrides) -> tuple:
    return tuple(sorted(settings.items()))


def _next(sizes: _Sizes, first: Overrides, now: Overrides) -> Overrides:
    """The settings to try next: enough by estimate, else those that save most."""
    shape = sizes.builder.changed(now).mesh.shape
    meshes = ({}, *other_meshes(sizes.builder.changed(first)))
    other_settings = [
        start
        for start in ({**first, **mesh} for mesh in meshes)
        if sizes.builder.changed(start).mesh.shape != shape
    ]
    sizes.hopeful = False
    cautious = _of_one_kind(sizes, now)
    if sizes.enough(cautious):
        return cautious
    sizes.hopeful = True
    attempts = itertools.chain(
        ((now, _of_one_kind), (now, _of_several_kinds)),
        itertools.product(other_settings, (_of_one_kind,)),
        itertools.product(other_settings, (_of_several_kinds,)),
    )
    best = now
    for start, attempt in attempts:
        settings = attempt(sizes, start)
        if sizes.enough(settings) and not sizes.is_known(settings):
            return settings
        best = min(best, settings, key=sizes.needed)
    saved = 1 - sizes.needed(best) / sizes.needed(now)
    return best if saved >= _LEAST_SAVING else now


def _of_one_kind(sizes: _Sizes, start: Overrides) -> Overrides:
    """``start``, with a change of the first kind that is enough if it is not."""
    if sizes.enough(start) or sizes.needed(start) == math.inf:
        return start
    options = ({**start, **x} for x in itertools.chain(*sizes.kinds(start)))
    return next((x for x in options if sizes.enough(x)), start)


def _of_several_kinds(sizes: _Sizes, start: Overrides) -> Overrides:
    """``start`` with as many kinds of changes as are enough, else with all."""
    if sizes.needed(start) == math.inf:
        return start
    kinds, chosen = sizes.kinds(start), start
    for i, degrees in enumerate(kinds, start=1):
        options = ({**chosen, **degree} for degree in degrees)
        chosen = min((chosen, *options), key=sizes.needed)
        if sizes.enough(chosen):
            return _milder(sizes, chosen, start, kinds[:i])
    return chosen


def _milder(
    sizes: _Sizes,
    chosen: Overrides,
    start: Overrides,
    kinds: Sequence[Sequence[Overrides]],
) -> Overrides:
    """Takes back the needless changes of ``taken``, the costliest kind first."""
    for degrees in reversed(kinds):
        keys = {key for degree in degrees for key in degree}
        other_keys = {key: x for key, x in chosen.items() if key not in keys}
        other_keys |= {key: x for key, x in start.items() if key in keys}
        options = ({**other_keys, **degree} for degree in ({}, *degrees))
        chosen = next(x for x in options if sizes.enough(x))
    return chosen
