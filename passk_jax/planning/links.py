"""Bounds the time of collectives by the links of a torus that they use.

The chips of a slice form a grid, in which each chip has two links per dimension. If the
ends of a dimension are not neighbours, chips at the ends have only one. The *lines* of
a collective are the dimensions in which its devices differ; it uses only their links.
Collectives may overlap, so the bound comes from the busiest set of dimensions: the
bytes of all collectives that use no other lines, divided by the links of the set. Data
between slices crosses the data centre network. Data between the two devices of a chip
needs no link.

Take a group of g devices on m chips in s slices. Of the bytes that a device receives,
at least the share (m - 1) / (g - 1) comes from other chips, if the devices of a chip
share what arrives, and (s - 1) / (g - 1) from other slices.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.planning.chips import Chip
from passk_jax.planning.collectives import Groups


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a device: its slice, and its chip's coordinates in the slice."""

    slice: int
    chip: tuple[int, ...]


def places(devices: Sequence[Any], *, dimensions: int) -> tuple[Place, ...]:
    """Returns the places of devices, in their order; none without a torus."""
    if not dimensions:
        return ()
    return tuple(
        Place(getattr(x, 'slice_index', 0), tuple(x.coords[:dimensions]))
        for x in devices
    )


def lines(group: Sequence[Place]) -> frozenset[int]:
    """Returns the dimensions in which the chips of a group differ."""
    coordinates = zip(*(place.chip for place in group), strict=True)
    return frozenset(i for i, line in enumerate(coordinates) if len(set(line)) > 1)


def seconds(
    by_groups: Mapping[Groups, float],
    where: Sequence[Place],
    chip: Chip,
    wraps: Sequence[bool],
) -> float:
    """Returns the least seconds that the links need for collectives.

    Args:
        by_groups: the bytes that a device receives.
        where: the places of the devices; if empty, every collective uses all links.
        chip: the devices' chip, whose link bandwidth must be known.
        wraps: for each dimension, whether its ends are neighbours.
    """
    if not where:
        return sum(by_groups.values()) / chip.link_bandwidth
    on_lines: dict[frozenset[int], float] = {}
    between_slices = 0.0
    for groups, size in by_groups.items():
        used, of_links, of_slices = _shares(groups, where)
        on_lines[used] = on_lines.get(used, 0.0) + size * of_links
        between_slices += size * of_slices
    line_bandwidth = chip.link_bandwidth / chip.dimensions
    bounds = [
        sum(size for used, size in on_lines.items() if used.issubset(dimensions))
        / (line_bandwidth * sum(1.0 if wraps[i] else 0.5 for i in dimensions))
        for count in range(1, chip.dimensions + 1)
        for dimensions in itertools.combinations(range(chip.dimensions), count)
    ]
    if chip.slice_bandwidth:
        bounds.append(between_slices / chip.slice_bandwidth)
    return max(bounds)


def _shares(
    groups: Groups, where: Sequence[Place]
) -> tuple[frozenset[int], float, float]:
    """Returns the lines of the slowest group, and its shares on links and slices."""
    candidates = []
    for group in groups:
        members = [where[i] for i in group]
        chips, slices = len(set(members)), len({x.slice for x in members})
        peers = max(len(group) - 1, 1)
        share = (slices - 1) / peers
        candidates.append((lines(members), (chips - 1) / peers - share, share))
    # All devices run in step, so the slowest group sets the pace.
    return min(
        candidates,
        key=lambda candidate: (-candidate[2], len(candidate[0]) or len(where)),
    )


def axis_lines(mesh: Any, where: Sequence[Place]) -> dict[str, str]:
    """Names the torus lines of each mesh axis longer than 1, or ``'slices'``."""
    numbers = np.arange(mesh.devices.size).reshape(mesh.devices.shape)
    names = {}
    for axis, name in enumerate(mesh.axis_names):
        count = mesh.devices.shape[axis]
        if count == 1:
            continue
        rows = numbers.swapaxes(axis, -1).reshape(-1, count)
        groups = [[where[i] for i in row] for row in rows]
        if any(len({x.slice for x in group}) > 1 for group in groups):
            names[name] = 'slices'
            continue
        fewest = min((lines(group) for group in groups), key=len)
        names[name] = ' and '.join('xyz'[i] for i in sorted(fewest)) or 'one chip'
    return names
