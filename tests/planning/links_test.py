import dataclasses

import numpy as np
import pytest

from passk_jax.planning import links, topologies
from passk_jax.planning.chips import TPUS
from passk_jax.planning.links import Place


@dataclasses.dataclass(frozen=True)
class Device:
    """What a device of a topology says of its place."""

    coords: tuple[int, ...]
    slice_index: int = 0


def torus(*shape, slices=1, devices=1):
    """The devices of slices of this shape, in order."""
    return [
        Device(tuple(index), i)
        for i in range(slices)
        for index in np.ndindex(*shape)
        for _ in range(devices)
    ]


V5P = TPUS['v5p']
LINE = V5P.link_bandwidth / 3
TORUS = (True, True, True)
# 4 x 4 x 4: x changes slowest. Each group is the four chips of a line, or of a plane.
ALL = links.places(torus(4, 4, 4), dimensions=3)
ON = {
    'z': tuple(tuple(range(i, i + 4)) for i in range(0, 64, 4)),
    'x': tuple((i, i + 16, i + 32, i + 48) for i in range(16)),
    'yz': tuple(tuple(range(i, i + 16)) for i in range(0, 64, 16)),
}


@pytest.mark.parametrize(('name', 'want'), [('z', {2}), ('x', {0}), ('yz', {1, 2})])
def test_the_lines_of_a_group_are_where_its_chips_differ(name, want):
    for group in ON[name]:
        assert links.lines([ALL[i] for i in group]) == want


@pytest.mark.parametrize(
    ('sizes', 'want'),
    [
        ({'z': 6e9}, 6e9 / LINE),
        ({'yz': 6e9}, 3e9 / LINE),
        # Another line is free meanwhile.
        ({'z': 6e9, 'x': 4e9}, 6e9 / LINE),
        # Both need z, and one of them y too.
        ({'z': 6e9, 'yz': 2e9}, 6e9 / LINE),
        ({'z': 6e9, 'yz': 10e9}, 8e9 / LINE),
        ({}, 0.0),
    ],
)
def test_what_has_only_these_lines_shares_them(sizes, want):
    by_groups = {ON[name]: size for name, size in sizes.items()}
    assert links.seconds(by_groups, ALL, V5P, TORUS) == pytest.approx(want)


def test_the_last_chip_of_a_line_without_a_way_around_has_one_link():
    open_z = (True, True, False)
    for sizes, want in (
        ({'z': 6e9}, 12e9 / LINE),
        ({'x': 6e9}, 6e9 / LINE),
        # Both lines of a plane, of which one has half of its links.
        ({'yz': 6e9}, 4e9 / LINE),
    ):
        by_groups = {ON[name]: size for name, size in sizes.items()}
        assert links.seconds(by_groups, ALL, V5P, open_z) == pytest.approx(want)


@pytest.mark.parametrize(
    ('name', 'want'),
    [
        ('v5p:4x4x8', (True, True, True)),
        ('v5p:2x4x4', (False, False, False)),
        ('v4:2x2x1', (False, False, False)),
        ('v5e:16x16', (True, True)),
        ('v5e:8x16', (False, True)),
        ('v6e:4x8', (False, False)),
    ],
)
def test_a_torus_goes_around_where_its_pod_does(name, want):
    assert topologies.parse(name).wraps == want


def test_without_a_torus_all_links_serve_all():
    by_groups = {ON['z']: 6e9, ON['x']: 4e9}
    assert links.places(torus(2), dimensions=0) == ()
    assert links.seconds(by_groups, (), V5P, TORUS) == 10e9 / V5P.link_bandwidth


def test_what_comes_from_another_slice_goes_through_the_data_centre():
    where = links.places(torus(4, 1, 1, slices=2), dimensions=3)
    pairs = tuple((i, i + 4) for i in range(4))
    all_chips = (tuple(range(8)),)
    dcn = V5P.slice_bandwidth
    assert links.seconds({pairs: 1e9}, where, V5P, TORUS) == pytest.approx(1e9 / dcn)
    # A gather of 8 shards: four of the other slice's come to four chips, one to each.
    seconds = links.seconds({all_chips: 7e9}, where, V5P, TORUS)
    assert seconds == pytest.approx(1e9 / dcn)
    unknown = dataclasses.replace(V5P, slice_bandwidth=0)
    assert links.seconds({all_chips: 7e9}, where, unknown, TORUS) == pytest.approx(
        6e9 / LINE
    )


def test_the_two_devices_of_a_chip_need_no_link_and_share_what_arrives():
    where = links.places(torus(2, 2, 1, devices=2), dimensions=3)
    chips = tuple((i, i + 1) for i in range(0, 8, 2))
    assert links.seconds({chips: 1e9}, where, V5P, TORUS) == 0
    # Of 8 shards, 6 come from other chips, to two devices.
    seconds = links.seconds({(tuple(range(8)),): 7e9}, where, V5P, TORUS)
    assert seconds == pytest.approx(3e9 / (2 * LINE))


def test_the_axes_of_a_mesh_have_lines():
    devices = np.array(torus(4, 2, 1, slices=2), object).reshape(2, 4, 2, 1)
    mesh = dataclasses.make_dataclass('M', ['devices', 'axis_names'])(
        devices, ('data', 'fsdp', 'rollout', 'tensor')
    )
    where = links.places(mesh.devices.flat, dimensions=3)
    assert links.axis_lines(mesh, where) == {
        'data': 'slices',
        'fsdp': 'x',
        'rollout': 'y',
    }
    assert Place(1, (3, 1, 0)) == where[-1]
