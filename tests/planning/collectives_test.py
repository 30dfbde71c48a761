import pytest

from passk_jax.planning import hlo_costs
from passk_jax.planning.collectives import device_groups
from passk_jax.planning.hlo_costs import Traffic

GATHER = """bf16[4,8]{1,0} all-gather(%part), channel_id=7, \
replica_groups=[2,4]<=[8], dimensions={0}"""

# The TPU compiler's text for a gather that overlaps two products, one of them in a
# loop of three: it starts, goes on in the fusions of the products, and ends.
FUSED = f"""%begin (part: bf16[1,8]) -> (bf16[1,8], bf16[4,8], s32[2]) {{
  %part = bf16[1,8]{{1,0}} parameter(0)
  %all-gather.1 = {GATHER}
  ROOT %s = (bf16[1,8], bf16[4,8], s32[2]) custom-call(%all-gather.1), \
custom_call_target="AsyncCollectiveStart"
}}

%async_collective_fusion.2 (part: bf16[1,8], all: bf16[4,8], x: f32[8]) -> \
(f32[8], bf16[1,8], bf16[4,8]) {{
  %part = bf16[1,8]{{1,0}} parameter(0)
  %all = bf16[4,8]{{1,0}} parameter(1)
  %all-gather.2 = {GATHER}
  %x = f32[8]{{0}} parameter(2)
  %y = f32[8]{{0}} negate(%x)
  ROOT %t = (f32[8], bf16[1,8], bf16[4,8]) tuple(%y, %part, %all-gather.2)
}}

%end (part: bf16[1,8], all: bf16[4,8]) -> bf16[4,8] {{
  %part = bf16[1,8]{{1,0}} parameter(0)
  %all = bf16[4,8]{{1,0}} parameter(1)
  %all-gather.3 = {GATHER}
  ROOT %d = bf16[4,8] custom-call(%part, %all, %all-gather.3), \
custom_call_target="AsyncCollectiveDone"
}}

%body (p: (s32[], f32[8], bf16[1,8], bf16[4,8])) -> (s32[], f32[8], bf16[1,8], \
bf16[4,8]) {{
  %p = (s32[], f32[8], bf16[1,8], bf16[4,8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8]{{0}} get-tuple-element(%p), index=1
  %part = bf16[1,8]{{1,0}} get-tuple-element(%p), index=2
  %all = bf16[4,8]{{1,0}} get-tuple-element(%p), index=3
  %between = (f32[8], bf16[1,8], bf16[4,8]) fusion(%part, %all, %x), kind=kOutput, \
calls=%async_collective_fusion.2
  %y = f32[8]{{0}} get-tuple-element(%between), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  ROOT %t = (s32[], f32[8], bf16[1,8], bf16[4,8]) tuple(%next, %y, %part, %all)
}}

%go_on (q: (s32[], f32[8], bf16[1,8], bf16[4,8])) -> pred[] {{
  %q = (s32[], f32[8], bf16[1,8], bf16[4,8]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %three = s32[] constant(3)
  ROOT %less = pred[] compare(%j, %three), direction=LT
}}

ENTRY %main (a: bf16[1,8], b: f32[8]) -> bf16[4,8] {{
  %a = bf16[1,8]{{1,0}} parameter(0)
  %b = f32[8]{{0}} parameter(1)
  %start = (bf16[1,8], bf16[4,8], s32[2]) fusion(%a), kind=kCustom, calls=%begin
  %part = bf16[1,8]{{1,0}} get-tuple-element(%start), index=0
  %all = bf16[4,8]{{1,0}} get-tuple-element(%start), index=1
  %zero = s32[] constant(0)
  %first = (s32[], f32[8], bf16[1,8], bf16[4,8]) tuple(%zero, %b, %part, %all)
  %loop = (s32[], f32[8], bf16[1,8], bf16[4,8]) while(%first), condition=%go_on, \
body=%body
  %same = bf16[1,8]{{1,0}} get-tuple-element(%loop), index=2
  %now = bf16[4,8]{{1,0}} get-tuple-element(%loop), index=3
  ROOT %done = bf16[4,8]{{1,0}} fusion(%same, %now), kind=kCustom, calls=%end
}}
"""


def test_a_gather_that_several_fusions_carry_out_counts_once():
    have = hlo_costs.count(FUSED, num_devices=8)
    # Three quarters of 4 x 8 numbers of two bytes come from others.
    assert have.collectives == {'all-gather': Traffic(1, 48.0)}
    assert have.by_groups == {((0, 1, 2, 3), (4, 5, 6, 7)): 48.0}


def test_its_arrays_are_read_and_written_once():
    have = hlo_costs.count(FUSED, num_devices=8)
    # Its part and the whole, once; thrice the eight numbers of the loop, which it reads
    # and writes, and its counter: two operands, a result, and the comparison.
    in_loop = 3 * (32 + 32 + 12)
    assert have.memory == 16 + 64 + in_loop


def test_a_start_and_its_done_are_one():
    text = """ENTRY %main (a: f32[2]) -> f32[8] {
  %a = f32[2]{0} parameter(0)
  %start = (f32[2]{0}, f32[8]{0}) all-gather-start(%a), replica_groups=[2,4]<=[8]
  ROOT %done = f32[8]{0} all-gather-done(%start)
}
"""
    have = hlo_costs.count(text, num_devices=8)
    assert have.collectives == {'all-gather': Traffic(1, 24.0)}


def test_collectives_of_one_channel_are_different_if_nothing_fuses_them():
    """Those that a shard_map asks for all have channel 1."""
    text = """ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %b = f32[8]{0} all-reduce(%a), channel_id=1, replica_groups={{0,1},{2,3}}
  ROOT %c = f32[8]{0} all-reduce(%b), channel_id=1, replica_groups={{0,1},{2,3}}
}
"""
    have = hlo_costs.count(text, num_devices=4)
    assert have.collectives == {'all-reduce': Traffic(2, 64.0)}


@pytest.mark.parametrize(
    ('transfer', 'kind', 'size'),
    [
        ('ALL_REDUCE', 'all-reduce', 2 * 2 / 3),
        ('ALL_GATHER', 'all-gather', 2 / 3),
        ('REDUCE_SCATTER', 'reduce-scatter', 2),
        ('ALL_TO_ALL', 'all-to-all', 2 / 3),
        ('ONE_TO_ONE', 'collective-permute', 1),
    ],
)
def test_what_comes_from_other_slices_comes_through_the_host(transfer, kind, size):
    """Three slices of four; the groups inside a slice have its numbers alone."""
    attributes = (
        'is_host_transfer=true, frontend_attributes={_xla_megascale_reduce_operation='
        f'"SUM",_xla_megascale_transfer_type="{transfer}"}}'
    )
    text = f"""ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  %b = f32[8]{{0}} all-reduce(%a), replica_groups={{}}
  %t = token[] after-all()
  %s = (f32[8]{{0}}, u32[], token[]) send(%b, %t), channel_id=2, {attributes}
  %r = (f32[8]{{0}}, u32[], token[]) recv(%t), channel_id=1, {attributes}
  %e = (f32[8]{{0}}, token[]) recv-done(%r), channel_id=1
  ROOT %x = f32[8]{{0}} get-tuple-element(%e), index=0
}}
"""
    have = hlo_costs.count(text, num_devices=12, num_slices=3)
    assert have.collectives['all-reduce'] == Traffic(1, 2 * 32 * 3 / 4)
    between = have.collectives[f'{kind} between slices']
    assert (between.count, between.size) == (1, pytest.approx(32 * size))
    assert have.by_groups.keys() == {((0, 1, 2, 3),), ((0, 4, 8),)}


@pytest.mark.parametrize(
    ('notation', 'groups'),
    [
        ('{{0,1,2,3},{4,5,6,7}}', ((0, 1, 2, 3), (4, 5, 6, 7))),
        ('[2,4]<=[8]', ((0, 1, 2, 3), (4, 5, 6, 7))),
        ('[4,2]<=[2,4]T(1,0)', ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=4,'b'=2] {'b'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=4,'b'=2] {'a'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=4,'b'=2] {'a','b'}", (tuple(range(8)),)),
        ("mesh['a'=8] {'a':(2)4}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=8] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        (
            "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}",
            ((0, 1), (2, 3), (4, 5), (6, 7)),
        ),
        (
            "mesh['a'=2,'b'=1,'c'=4], device_ids=([2,2,2]T(0,2,1)) {'a','b'}",
            ((0, 4), (2, 6), (1, 5), (3, 7)),
        ),
        ('{}', (tuple(range(8)),)),
    ],
)
def test_groups_are_read_in_all_notations(notation, groups):
    have = device_groups(f', replica_groups={notation}, use_global=true', 8)
    assert have == groups


def test_a_permutation_has_pairs():
    attributes = ', channel_id=3, source_target_pairs={{0,1},{1,0}}, x={2}'
    assert device_groups(attributes, 2) == ((0, 1), (1, 0))


def test_another_notation_is_refused():
    with pytest.raises(ValueError, match=r'unknown notation .* \[2\]<=what'):
        device_groups(', replica_groups=[2]<=what, x', 8)
