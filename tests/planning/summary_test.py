import dataclasses
import re

import pytest

from passk_jax.planning import fits, remedies, summary, topologies
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.builder import shard_bytes
from passk_jax.planning.chips import GIB
from passk_jax.planning.flops import Flops
from passk_jax.planning.hlo_costs import Costs
from passk_jax.planning.programs import build
from passk_jax.planning.remedies import Way
from tests.planning.conftest import make_pictured


def analysed(builder, topology, name, **memory):
    sizes = {'arguments': GIB, 'outputs': 0.0, 'temporaries': GIB, 'resident': 0.0}
    usage = Memory(**(sizes | {'limit': 4.0 * GIB} | memory))
    return Analysis(build(builder, name), topology, usage, Flops(1.0), None)


def test_the_introduction_says_what_is_planned(builder, topology):
    lines = summary.introduction(builder, topology, {}, name='tiny', source='a/b')
    text = ' '.join(lines)
    assert text.startswith('tiny: a/b, ')
    assert 'cpu:8: 8 chips, mesh data=1, fsdp=2, rollout=2, tensor=2.' in text
    assert '8 prompts of 30 tokens with 4 responses of 5' in text
    assert 'shapes alone' not in text


def test_a_plan_by_shapes_alone_says_so(builder):
    topology = topologies.parse('gpu:h100x8')
    lines = summary.introduction(builder, topology, {}, name='tiny', source='')
    text = ' '.join(lines)
    assert 'a policy from scratch' in text
    assert 'shapes alone' in text


@pytest.mark.parametrize(
    ('trained', 'max_pixels', 'words'),
    [
        (False, 0, '120 patches, at most 120 of a picture. The tower reads them once'),
        (True, 500, 'at most 28 of a picture. The tower reads them wherever a prompt'),
    ],
)
def test_a_plan_says_how_pictures_count(trained, max_pixels, words):
    builder = make_pictured(trained=trained, max_pixels=max_pixels)
    assert words in summary.notes([], builder, max_positions=0)[1]


def test_edges_are_called_estimates(builder):
    (line,) = summary.notes([], builder, max_positions=0)
    assert line.startswith('Longest response and largest batch are estimates')


def with_head(builder, *, tied):
    """The same with a head of its own, or with the token table as the head."""
    arch = dataclasses.replace(builder.policy.arch, tie_embeddings=tied)
    policy = dataclasses.replace(builder.policy, arch=arch)
    return dataclasses.replace(builder, policy=policy)


def test_a_decode_step_reads_its_weights_and_its_cache(builder, topology):
    builder = with_head(builder, tied=False)
    analysis = analysed(builder, topology, 'decode')
    line = summary.notes([analysis], builder, max_positions=0)[-1]
    prefix = builder.prefix(builder.train.num_prompts)
    weights = builder.decoding_weights()
    table = weights.pop('embed.embedding')
    # A step looks up eight prompts' four tokens. A device has a quarter of the prompts
    # and half of each row.
    rows = 8 * 4 / 4 * table.shape[1] * table.dtype.itemsize / 2
    want = [shard_bytes(weights) + rows, *map(shard_bytes, (prefix, builder.cache()))]
    sizes = [float(x) for x in re.findall(r'([\d.]+) kB', line)]
    assert sizes == pytest.approx([size / 1e3 for size in want], rel=0.01)


def test_a_token_table_that_is_the_head_is_read_whole(builder, topology):
    tied = with_head(builder, tied=True)
    analysis = analysed(tied, topology, 'decode')
    line = summary.notes([analysis], tied, max_positions=0)[-1]
    want = shard_bytes(tied.decoding_weights()) / 1e3
    assert float(re.search(r'([\d.]+) kB', line)[1]) == pytest.approx(want, rel=0.01)


def test_the_lines_of_the_mesh_are_said(builder, topology):
    axes = {'fsdp': 'x', 'tensor': 'y and z'}
    lines = summary.introduction(builder, topology, axes, name='', source='')
    assert 'Torus lines of the mesh axes: fsdp on x, tensor on y and z.' in lines


def test_the_positions_left_for_a_response_are_said(builder):
    *_, line = summary.notes([], builder, max_positions=1030)
    assert line == 'The model has positions for responses of 1,000 tokens.'


def test_a_loop_of_unknown_length_is_told(builder, topology):
    analysis = analysed(builder, topology, 'score')
    costs = Costs(1.0, 1.0, {}, unknown_loops=2)
    looped = dataclasses.replace(analysis, costs=costs)
    lines = summary.notes([looped], builder, max_positions=0)
    assert 'score: 2 loops of unknown length, counted once.' in lines


def test_an_overflow_is_a_sentence_and_three_ways_out(builder, topology):
    initial = shard_bytes(build(builder, 'decode').arguments)
    sizes = {'arguments': initial, 'temporaries': 0.0, 'limit': 0.8 * initial}
    over = analysed(builder, topology, 'decode', **sizes)
    edge = fits.fit(over, builder)
    ways = remedies.ways_out(over, builder, edge, check=lambda overrides: None)
    lines = summary.overflow(over, ways)
    assert lines[1].startswith('decode does not fit: it needs ')
    assert 'GiB of a device' in lines[1]
    assert [line[:3] for line in lines[3:]] == ['1. ', '2. ', '3. ']


def test_a_way_out_says_what_it_saves_and_costs():
    way = Way({'mesh.fsdp': 4, 'mesh.data': 1}, 'time', 8, 1.5 * GIB, enough=True)
    words = '--config.mesh.fsdp=4 --config.mesh.data=1: at least 1.50 GiB less'
    assert summary._line(way, 8) == f'{words} (at the cost of time)'
    short = dataclasses.replace(way, enough=False)
    assert ', which alone is not enough (' in summary._line(short, 8)
    assert summary._line(way, 4).startswith('on 8 devices, --config.mesh.fsdp=4')
