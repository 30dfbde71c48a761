"""The links of a torus that a collective uses, and the least time that they need.

The chips of a slice are a torus with two links a dimension at each chip. A collective
of devices that lie on one line of it uses the links of that line alone, and so on: its
*lines* are the dimensions in which its devices differ. Collectives may overlap, so the
bound is that of the busiest set of dimensions: the bytes of all collectives that use no
other line, over the links of these. Data between slices goes through the data centre
network; between the two devices of a chip it needs no link.

Of what a device receives in a group of g devices on m chips in s slices, at least the
part (m - 1) / (g - 1) comes from other chips, if those of a chip share what arrives,
and (s - 1) / (g - 1) from other slices.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passk_jax.planning.chips import Chip
from passk_jax.planning.collectives import Groups


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a device lies: its slice, and its chip's coordinates in the slice."""

    slice: int
    chip: tuple[int, ...]


def places(devices: Sequence[Any], *, dimensions: int) -> tuple[Place, ...]:
    """The places of the devices of a mesh, in its order; none without a torus."""
    if not dimensions:
        return ()
    return tuple(
        Place(getattr(x, 'slice_index', 0), tuple(x.coords[:dimensions]))
        for x in devices
    )


def lines(group: Sequence[Place]) -> frozenset[int]:
    """The dimensions in which the chips of a group differ."""
    coordinates = zip(*(place.chip for place in group), strict=True)
    return frozenset(i for i, line in enumerate(coordinates) if len(set(line)) > 1)


def seconds(
    by_groups: Mapping[Groups, float], where: Sequence[Place], chip: Chip
) -> float:
    """The least seconds of collectives on the links.

    Args:
        by_groups: bytes that a device receives, by the groups of devices.
        where: from :func:`places`; empty: all links serve every collective.
        chip: of known link bandwidth.
    """
    if not where:
        return sum(by_groups.values()) / chip.link_bandwidth
    on_lines: dict[frozenset[int], float] = {}
    between_slices = 0.0
    for groups, size in by_groups.items():
        own_lines, of_links, of_slices = _shares(groups, where)
        on_lines[own_lines] = on_lines.get(own_lines, 0.0) + size * of_links
        between_slices += size * of_slices
    a_line = chip.link_bandwidth / chip.dimensions
    bounds = [
        sum(size for own_lines, size in on_lines.items() if own_lines <= some)
        / (len(some) * a_line)
        for some in _sets(chip.dimensions)
    ]
    if chip.slice_bandwidth:
        bounds.append(between_slices / chip.slice_bandwidth)
    return max(bounds)


def _shares(
    groups: Groups, where: Sequence[Place]
) -> tuple[frozenset[int], float, float]:
    """The lines of the group that has fewest, and its shares on links and slices."""
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


def _sets(dimensions: int) -> Iterator[frozenset[int]]:
    """All sets of dimensions but the empty one."""
    for count in range(1, dimensions + 1):
        yield from map(frozenset, itertools.combinations(range(dimensions), count))


def axis_lines(mesh: Any, where: Sequence[Place]) -> dict[str, str]:
    """For each axis of a mesh longer than 1: its lines, or that it crosses slices."""
    numbers = {device: i for i, device in enumerate(mesh.devices.flat)}
    bandwidths = {}
    for axis, name in enumerate(mesh.axis_names):
        count = mesh.devices.shape[axis]
        if count == 1:
            continue
        rows = mesh.devices.swapaxes(axis, -1).reshape(-1, count)
        groups = [[where[numbers[x]] for x in row] for row in rows]
        if any(len({x.slice for x in group}) > 1 for group in groups):
            bandwidths[name] = 'slices'
            continue
        fewest = min((lines(group) for group in groups), key=len)
        bandwidths[name] = ' and '.join('xyz'[i] for i in sorted(fewest)) or 'one chip'
    return bandwidths
