"""Searches for settings under which every program fits and training is the same.

:func:`search` compiles the programs in turn. If one does not fit, the compiler says how
much memory it needs, and the estimates of fits.py say which settings may suffice: the
mildest setting of the cheapest kind, else of several kinds together, else on another
mesh of the same devices (meshes.py). Then :func:`search` compiles with these settings,
and so on.

The estimates are cautious at first. If by them no setting of one kind suffices, they
become hopeful, and the next attempt may be too mild. plan.py does not compile a program
whose arguments and resident arrays already exceed the memory.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

from passk_jax.planning import fits, remedies, summary
from passk_jax.planning.analysis import Analysis
from passk_jax.planning.builder import Builder
from passk_jax.planning.meshes import other_meshes
from passk_jax.planning.remedies import LEAST_SAVING, Check, Overrides

_MOST_CHANGES = 20


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of a search: settings, as changes of the configuration.

    ``analyses`` has the programs, up to the first that does not fit, ``over``.
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
) -> SearchResult:
    """Searches for settings under which the programs with these names fit.

    It begins with the settings ``first``, and tells a line for each change.
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
    return SearchResult(settings, builder.changed(settings), analyses, over)


def flags(overrides: Overrides) -> list[str]:
    """Formats overrides as flags of a command."""
    return [f'--config.{key}={value}' for key, value in overrides.items()]


def _touched(name: str, keys: set[str]) -> bool:
    """Returns whether a change of these dotted keys changes a program."""
    of_sampling = {'sampling.max_cache_bytes', 'mesh.decode_tensor'}
    if any(key.startswith('mesh.') for key in keys - of_sampling):
        return True
    if name == 'decode':
        return bool(keys & of_sampling)
    if fits.samples(name):
        return 'mesh.decode_tensor' in keys
    return fits.works_by_pass(name) and not keys <= of_sampling


class _Sizes:
    """The bytes that a program needs under settings, analysed or estimated.

    ``builder`` has the configuration's settings; for ``hopeful`` see
    :func:`passk_jax.planning.fits.estimate`.
    """

    def __init__(self, name: str, builder: Builder, check: Check):
        self.name, self.builder, self._check = name, builder, check
        self._limit = 0.0
        # Sizes of a mesh -> the last analysis on it, in the order of analyses.
        self._last: dict[tuple[int, ...], tuple[Analysis, Builder]] = {}
        self._needed: dict[tuple, float] = {}
        self.hopeful = False
        self._analysed: set[tuple] = set()

    def add(self, analysis: Analysis, settings: Overrides) -> None:
        """Adds the program's analysis under these settings."""
        now = self.builder.changed(settings)
        analysis = fits.with_temporaries(analysis, now)
        mesh = tuple(now.mesh.shape.values())
        self._last.pop(mesh, None)
        self._last[mesh] = analysis, now
        self._analysed.add(_key(settings))
        self._limit = analysis.memory.limit
        self._needed = {}

    def is_known(self, settings: Overrides) -> bool:
        """Returns whether the program was analysed under these settings."""
        return _key(settings) in self._analysed

    def needed(self, settings: Overrides) -> float:
        """Returns a device's bytes; infinite for settings that are rejected."""
        key = (self.hopeful, *_key(settings))
        if key not in self._needed:
            self._needed[key] = self._estimate(settings)
        return self._needed[key]

    def _estimate(self, settings: Overrides) -> float:
        try:
            self._check(settings)
            other = self.builder.changed(settings)
            mesh = tuple(other.mesh.shape.values())
            latest = next(reversed(self._last.values()))
            analysis, now = self._last.get(mesh, latest)
            return fits.estimate(analysis, now, other, hopeful=self.hopeful)
        except ValueError:
            return math.inf

    def enough(self, settings: Overrides) -> bool:
        """Returns whether the program may fit."""
        return self.needed(settings) <= self._limit

    def kinds(self, start: Overrides) -> list[list[Overrides]]:
        """Returns degrees of each kind of change on the same mesh, cheapest first."""
        changes = remedies.on_the_same_mesh(self.builder.changed(start), self.name)
        return [degrees for _, degrees in changes]


def _key(settings: Overrides) -> tuple:
    return tuple(sorted(settings.items()))


def _next(sizes: _Sizes, first: Overrides, now: Overrides) -> Overrides:
    """Returns the next settings: enough by the estimates, else those that save most."""
    shape = sizes.builder.changed(now).mesh.shape
    decode_tensor = sizes.builder.decode_tensor
    alternatives = other_meshes(
        sizes.builder.changed(first), decode_tensor=decode_tensor
    )
    meshes = ({}, *alternatives)
    other_settings = [
        start
        for start in ({**first, **mesh} for mesh in meshes)
        if sizes.builder.changed(start).mesh.shape != shape
    ]
    sizes.hopeful = False
    cautious = _choose_one_kind(sizes, now)
    if sizes.enough(cautious):
        return cautious
    sizes.hopeful = True
    attempts = itertools.chain(
        ((now, _choose_one_kind), (now, _choose_several_kinds)),
        itertools.product(other_settings, (_choose_one_kind,)),
        itertools.product(other_settings, (_choose_several_kinds,)),
    )
    best = now
    for start, attempt in attempts:
        settings = attempt(sizes, start)
        if sizes.enough(settings) and not sizes.is_known(settings):
            return settings
        best = min(best, settings, key=sizes.needed)
    saved = 1 - sizes.needed(best) / sizes.needed(now)
    return best if saved >= LEAST_SAVING else now


def _choose_one_kind(sizes: _Sizes, start: Overrides) -> Overrides:
    """Adds a change of the first kind that is enough, if ``start`` is not."""
    if sizes.enough(start) or sizes.needed(start) == math.inf:
        return start
    options = ({**start, **x} for x in itertools.chain(*sizes.kinds(start)))
    return next((x for x in options if sizes.enough(x)), start)


def _choose_several_kinds(sizes: _Sizes, start: Overrides) -> Overrides:
    """Adds kinds of changes to ``start`` until they suffice, else all."""
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
    sizes: _Sizes, chosen: Overrides, start: Overrides, kinds: list[list[Overrides]]
) -> Overrides:
    """Undoes unnecessary changes of ``chosen``, the costliest kind first."""
    for degrees in reversed(kinds):
        keys = {key for degree in degrees for key in degree}
        other_keys = {key: x for key, x in chosen.items() if key not in keys}
        other_keys |= {key: x for key, x in start.items() if key in keys}
        options = ({**other_keys, **degree} for degree in ({}, *degrees))
        chosen = next(x for x in options if sizes.enough(x))
    return chosen
